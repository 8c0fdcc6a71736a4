"""The scripts of the Postman collection, in JavaScript. Pure."""

from __future__ import annotations

import json
from typing import Any

# Before every request: a token, or the next one where the last is about to expire.
SIGN_IN = """\
const { SHA256 } = require("crypto-js");
const vars = pm.collectionVariables;
const baseUrl = pm.variables.get("baseUrl");
const account = `${pm.variables.get("username")} at ${baseUrl}`;
const passwordHash = SHA256(pm.variables.get("password")).toString();
vars.set("passwordHash", passwordHash);

function ask(fields, then) {
  const urlencoded = Object.entries(fields).map(([key, value]) => ({ key, value }));
  const body = { mode: "urlencoded", urlencoded };
  pm.sendRequest({ url: `${baseUrl}/api/oauth/token`, method: "POST", body }, then);
}

function keep(error, response) {
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
  ask({ grant_type: "password", username, password: passwordHash }, keep);
}

function refresh() {
  const refresh_token = vars.get("refreshToken");
  ask({ grant_type: "refresh_token", refresh_token }, (error, response) => {
    if (error || response.code !== 200) signIn();
    else keep(error, response);
  });
}

const secondsLeft = (Number(vars.get("expiresAt") || 0) - Date.now()) / 1000;
if (vars.get("account") !== account) signIn();
else if (secondsLeft < 30) refresh();
"""

# Before some requests: what they are about.
BEFORE = {
    "registerUser": """\
// A name that nobody has yet, so that the collection can be run again.
pm.collectionVariables.set("newUser", "pm" + Date.now().toString(36));
""",
    "redeemResetCode": """\
// The code is in the mail; who may manage users finds it in the user's record as well.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/users/${pm.variables.get("newUser")}`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  pm.collectionVariables.set("resetCode", response.json().PasswordResetCode);
});
""",
    "revokeToken": """\
// A token to revoke, other than the one that this collection goes on with.
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
""",
}

# After a token was fetched by a request of its own: the collection goes on with it.
KEEP = """\

const { access_token, refresh_token, expires_in } = pm.response.json();
pm.collectionVariables.set("accessToken", access_token);
pm.collectionVariables.set("refreshToken", refresh_token);
pm.collectionVariables.set("expiresAt", Date.now() + expires_in * 1000);
"""


# After some answers: what later requests go on with.
AFTER = {
    "createToken": KEEP,
    # It is set to what it is, so that a run changes nothing.
    "getVariableValue": """\

pm.collectionVariables.set("value", pm.response.json().value);
""",
}


def tests(shape: dict[str, Any], operation: str) -> str:
    """Return what is checked of an answer: its status, its type, its shape."""
    after = AFTER.get(operation, "")
    return f"""\
pm.test("answers 200 in JSON", () => {{
  pm.response.to.have.status(200);
  pm.expect(pm.response.headers.get("Content-Type")).to.eql("application/json; charset=utf-8");
  pm.expect(pm.response.headers.get("X-Request-ID")).to.be.a("string");
}});
pm.test("has the documented shape", () => {{
  pm.response.to.have.jsonSchema({json.dumps(shape)});
}});
{after}"""
