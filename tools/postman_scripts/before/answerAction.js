// Asks for something first, and takes it as a game would, so that there is an action to answer.
const api = `${pm.variables.get("baseUrl")}/api/v1`;
const header = {
  Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
  "Content-Type": "application/json",
};
function post(path, body, then) {
  const raw = JSON.stringify(body);
  pm.sendRequest({ url: api + path, method: "POST", header, body: { mode: "raw", raw } }, then);
}
post("/chat/global", { Message: "A word from the collection." }, (error, response) => {
  pm.collectionVariables.set("actionId", response.json().ActionId);
  post("/game/actions", { Game: "postman", Most: 100 }, () => {});
});
