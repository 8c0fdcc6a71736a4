"""The scripts of the Postman collection, in JavaScript. Pure."""

from __future__ import annotations

import json
from typing import Any

from app.openapi.postman_values import ANSWERED_BY_THE_GAME

# Runs before every request: takes the key if there is one, else signs in, or refreshes an access
# token that is about to expire.
SIGN_IN = """\
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
"""

# Run before single requests, to set the variables that they send.
BEFORE = {
    "registerUser": """\
// A unique name, so that the collection can be run repeatedly.
pm.collectionVariables.set("newUser", "pm" + Date.now().toString(36));
""",
    "renamePlayer": """\
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
""",
    "eraseUser": """\
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
""",
    "redeemResetCode": """\
// The code is mailed to the user; with users.manage, it can also be read from the user's record.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/users/${pm.variables.get("newUser")}`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  pm.collectionVariables.set("resetCode", response.json().PasswordResetCode);
});
""",
    "undoChange": """\
// Gives an item first, so that there is a change to undo, and looks for its entry in history.
const name = encodeURIComponent(pm.variables.get("player"));
const player = `${pm.variables.get("baseUrl")}/api/v1/players/${name}`;
const header = {
  Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
  "Content-Type": "application/json",
  "X-Reason": "Given%20to%20be%20undone",
};
const body = JSON.stringify({ itemid: pm.variables.get("itemId"), quantity: 1 });
pm.sendRequest({
  url: `${player}/items/give`, method: "POST", header, body: { mode: "raw", raw: body },
}, () => pm.sendRequest({
  url: `${player}/history?pageSize=1&operation=give`, header,
}, (error, response) => {
  pm.collectionVariables.set("entryId", response.json().Values[0].Id);
}));
""",
    "cancelBatch": """\
// Plans another batch, which is never run.
const give = { Player: pm.variables.get("player"), Operation: "give", Quantity: 1 };
const Rows = [{ ...give, ItemId: pm.variables.get("itemId") }];
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/batches`,
  method: "POST",
  header: {
    Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
    "Content-Type": "application/json",
    "X-Reason": "Planned%20to%20be%20cancelled",
  },
  body: { mode: "raw", raw: JSON.stringify({ Name: "Cancelled", Rows }) },
}, (error, response) => {
  pm.collectionVariables.set("batchId", response.json().Id);
});
""",
    "answerAction": """\
// Asks for something first, and takes it as a game would, so that there is an action to answer.
const api = `${pm.variables.get("baseUrl")}/api/v1`;
const header = {
  Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}`,
  "Content-Type": "application/json",
};
function post(path, body, then) {
  const raw = JSON.stringify(body);
  pm.sendRequest({ url: api + path, method: "POST", header, body: { mode: "raw", raw } }, then);
}
post("/chat/global", { Message: "A word from the collection." }, (error, response) => {
  pm.collectionVariables.set("actionId", response.json().ActionId);
  post("/game/actions", { Game: "postman", Most: 100 }, () => {});
});
""",
    "getAction": """\
// One that was answered, by whichever game.
pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/actions?pageSize=1`,
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => {
  pm.collectionVariables.set("actionId", response.json().Values[0].Id);
});
""",
    "revokeToken": """\
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
""",
    "endUserSignIn": """\
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
""",
}

# Runs after createToken: the collection uses the new token from then on.
STORE_TOKENS = """\

const { access_token, refresh_token, expires_in } = pm.response.json();
pm.collectionVariables.set("accessToken", access_token);
pm.collectionVariables.set("refreshToken", refresh_token);
pm.collectionVariables.set("expiresAt", Date.now() + expires_in * 1000);
"""


# Run after single responses, to set variables that later requests send, or to check more.
AFTER = {
    "createToken": STORE_TOKENS,
    # setVariable writes the value that was read, so that a run changes nothing.
    "getVariableValue": """\

pm.collectionVariables.set("value", pm.response.json().value);
""",
    # Brings the player back, so that a run changes nothing.
    "deletePlayer": """\

const api = `${pm.variables.get("baseUrl")}/api/v1`;
const header = { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` };
pm.sendRequest({
  url: `${api}/players/${pm.response.json().Id}/history?pageSize=1`, header,
}, (error, response) => pm.sendRequest({
  url: `${api}/history/${response.json().Values[0].Id}/undo`, method: "POST", header,
}, (error, response) => pm.test("is undone", () => {
  pm.expect(response.code).to.eql(200);
})));
""",
    "planBatch": """\

pm.collectionVariables.set("batchId", pm.response.json().Id);
""",
    # Carries out what it has planned, so that a run changes nothing.
    "undoBatch": """\

pm.sendRequest({
  url: `${pm.variables.get("baseUrl")}/api/v1/batches/${pm.response.json().Id}/advance`,
  method: "POST",
  header: { Authorization: `Bearer ${pm.collectionVariables.get("accessToken")}` },
}, (error, response) => pm.test("is undone", () => {
  pm.expect(response.json()).to.include({ State: "done", Done: 1 });
}));
""",
    "createUserKey": """\

pm.collectionVariables.set("keyId", pm.response.json().Id);
""",
    # So does setGlobalVariable.
    "getGlobalVariableValue": """\

pm.collectionVariables.set("value", pm.response.json().value);
""",
    # It runs after undoChange, and gets the change that was undone.
    "getHistoryEntry": """\

pm.test("tells what has undone it", () => {
  pm.expect(pm.response.json().UndoneBy).to.be.a("string");
});
""",
}


# What only a running game can do: in a run without one, it is refused.
GAME_ANSWERS = """\
pm.test("answers, or says that the game does not", () => {
  pm.expect(pm.response.code).to.be.oneOf([200, 202, 404, 409, 503]);
  pm.expect(pm.response.headers.get("Content-Type")).to.eql("application/json; charset=utf-8");
});
if (pm.response.code === 200) pm.test("has the documented shape", () => {
  pm.response.to.have.jsonSchema(@schema@);
});
"""


def tests(schema: dict[str, Any], operation: str) -> str:
    """Return the script that checks the status, the content type and the schema of a response."""
    after = AFTER.get(operation, "")
    if operation in ANSWERED_BY_THE_GAME:
        return GAME_ANSWERS.replace("@schema@", json.dumps(schema))
    return f"""\
pm.test("answers 200 in JSON", () => {{
  pm.response.to.have.status(200);
  pm.expect(pm.response.headers.get("Content-Type")).to.eql("application/json; charset=utf-8");
  pm.expect(pm.response.headers.get("X-Request-ID")).to.be.a("string");
}});
pm.test("has the documented shape", () => {{
  pm.response.to.have.jsonSchema({json.dumps(schema)});
}});
{after}"""
