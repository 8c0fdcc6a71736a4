// Asks for something first, and takes it as a game would, so that there is an action to answer.
// A game that runs beside this may have taken it already: the answer is then refused.
const api = `${pm.variables.get("baseUrl")}/api/v1`;
const header = {
  Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
  "Content-Type": "application/json",
};
function post(path, body, then) {
  const raw = JSON.stringify(body);
  pm.sendRequest({ url: api + path, method: "POST", header, body: { mode: "raw", raw } }, then);
}
post("/chat/global", { Message: "A word from the collection." }, () =>
  post("/game/actions", { Game: "postman", Most: 100 }, () =>
    pm.sendRequest({ url: `${api}/actions?pageSize=1`, header }, (error, response) => {
      pm.collectionVariables.set("actionId", response.json().Values[0].Id);
    })));
