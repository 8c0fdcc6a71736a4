// Registers somebody who is erased at once.
const goneUser = "gone" + Date.now().toString(36);
pm.collectionVariables.set("goneUser", goneUser);
const password = pm.collectionVariables.get("passwordHash");
const account = { username: goneUser, email: `${goneUser}@example.com`, password };
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/users/register`,
  method: "POST",
  header: {
    Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
    "Content-Type": "application/json",
  },
  body: { mode: "raw", raw: JSON.stringify(account) },
}, () => {});
