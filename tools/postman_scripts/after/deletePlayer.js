const api = `${pm.variables.get("baseUrl")}/api/v1`;
const header = { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` };
pm.sendRequest({
  url: `${api}/players/${pm.response.json().Id}/history?pageSize=1`, header,
}, (error, response) => pm.sendRequest({
  url: `${api}/history/${response.json().Values[0].Id}/undo`, method: "POST", header,
}, (error, response) => pm.test("is undone", () => {
  pm.expect(response.code).to.eql(200);
})));
