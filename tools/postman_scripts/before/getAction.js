// One that was answered, by whichever game.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/actions?pageSize=1`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  pm.collectionVariables.set("actionId", response.json().Values[0].Id);
});
