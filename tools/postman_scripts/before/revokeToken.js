// Revokes a token of its own, so that the one that this collection uses stays valid.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/oauth/token`,
  method: "POST",
  body: { mode: "urlencoded", urlencoded: [
    { key: "grant_type", value: "password" },
    { key: "username", value: pm.variables.get("username") },
    { key: "password", value: pm.collectionVariables.get("passwordHash") },
  ] },
}, (error, response) => {
  pm.collectionVariables.set("spareToken", response.json().refresh_token);
});
