const { SHA256 } = require("crypto-js");
const vars = pm.collectionVariables;
const key = pm.variables.get("key");
const baseUrl = pm.variables.get("baseUrl");
const account = `${pm.variables.get("username")} at ${baseUrl}`;
const passwordHash = SHA256(pm.variables.get("password")).toString();
vars.set("passwordHash", passwordHash);

function requestToken(fields, then) {
  const urlencoded = Object.entries(fields).map(([key, value]) => ({ key, value }));
  const body = { mode: "urlencoded", urlencoded };
  pm.sendRequest({ url: `${baseUrl}/api/oauth/token`, method: "POST", body }, then);
}

function storeTokens(error, response) {
  if (error || response.code !== 200) {
    throw new Error(`No token for ${account}: ${error || response.text()}`);
  }
  const { access_token, refresh_token, expires_in } = response.json();
  vars.set("accessToken", access_token);
  vars.set("refreshToken", refresh_token);
  vars.set("expiresAt", Date.now() + expires_in * 1000);
  vars.set("account", account);
}

function signIn() {
  const username = pm.variables.get("username");
  requestToken({ grant_type: "password", username, password: passwordHash }, storeTokens);
}

function refresh() {
  const refresh_token = vars.get("refreshToken");
  requestToken({ grant_type: "refresh_token", refresh_token }, (error, response) => {
    if (error || response.code !== 200) signIn();
    else storeTokens(error, response);
  });
}

const secondsLeft = (Number(vars.get("expiresAt") || 0) - Date.now()) / 1000;
if (key) vars.set("accessToken", key);
else if (vars.get("account") !== account) signIn();
else if (secondsLeft < 30) refresh();
