pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/batches/${pm.response.json().Id}/advance`,
  method: "POST",
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => pm.test("is undone", () => {
  pm.expect(response.json()).to.include({ State: "done", Done: 1 });
}));
