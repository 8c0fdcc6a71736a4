// Looks for a player who is not used otherwise and not online, and gives it the name that it has.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/players?sortDirection=Descending&pageSize=50`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  const used = pm.variables.get("player");
  const spare = response.json().Values.find(({ Name, Online }) => !Online && Name !== used);
  pm.collectionVariables.set("sparePlayer", spare.Id);
  pm.collectionVariables.set("spareName", spare.Name);
});
