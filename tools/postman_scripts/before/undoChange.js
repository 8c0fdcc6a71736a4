// Gives an item first, so that there is a change to undo, and looks for its entry in history.
const name = encodeURIComponent(pm.variables.get("player"));
const player = `${pm.variables.get("baseUrl")}/api/v1/players/${name}`;
const header = {
  Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
  "Content-Type": "application/json",
  "X-Reason": "Given%20to%20be%20undone",
};
const body = JSON.stringify({ itemid: pm.variables.get("itemId"), quantity: 1 });
pm.sendRequest({
  url: `${player}/items/give`, method: "POST", header, body: { mode: "raw", raw: body },
}, () => pm.sendRequest({
  url: `${player}/history?pageSize=1&operation=give`, header,
}, (error, response) => {
  pm.collectionVariables.set("entryId", response.json().Values[0].Id);
}));
