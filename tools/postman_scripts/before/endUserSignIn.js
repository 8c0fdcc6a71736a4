// Signs in once more, so that the sign-in that this collection uses goes on. It is the last to end.
const signIns = `${pm.variables.get("baseUrl")}/api/oauth/sign-ins/${pm.variables.get("username")}`;
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/oauth/token`,
  method: "POST",
  body: { mode: "urlencoded", urlencoded: [
    { key: "grant_type", value: "password" },
    { key: "username", value: pm.variables.get("username") },
    { key: "password", value: pm.collectionVariables.get("passwordHash") },
  ] },
}, () => pm.sendRequest({
  url: `${signIns}?pageSize=1`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  pm.collectionVariables.set("signInId", response.json().Values[0].Id);
}));
