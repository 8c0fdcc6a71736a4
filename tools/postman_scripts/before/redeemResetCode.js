// The code is mailed to the user; with users.manage, it can also be read from the user's record.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/users/${pm.variables.get("newUser")}`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  pm.collectionVariables.set("resetCode", response.json().PasswordResetCode);
});
