"""The order, paths, bodies and environment of the Postman collection. Pure."""

from __future__ import annotations

from app.openapi import examples
from app.types import Document

FOLDERS = ("Players", "Users", "History", "Credentials")
ENVIRONMENT = {
    "baseUrl": "http://127.0.0.1:8000",
    "username": "demo",
    "password": "demo",
    "player": examples.PLAYER,
    "user": examples.USER,
    "itemId": examples.ITEM,
    "spellId": examples.SPELL,
    "variableId": examples.VARIABLE,
    "bagId": examples.BAG,
}
# The order in which a run sends the requests: reads first, then changes that undo each other.
ORDER = [
    "listPlayers",
    "rankPlayers",
    "listOnlinePlayers",
    "countOnlinePlayers",
    "getPlayer",
    "listVariables",
    "getVariable",
    "getVariableValue",
    "setVariable",
    "getItems",
    "getInventory",
    "getBank",
    "getBag",
    "giveItem",
    "takeItem",
    "listSpells",
    "teachSpell",
    "forgetSpell",
    "listPlayerHistory",
    "listPlayersByBody",
    "listUsers",
    "getUser",
    "registerUser",
    "validatePassword",
    "changeEmail",
    "changePassword",
    "sendResetCode",
    "redeemResetCode",
    "listCharacters",
    "getCharacter",
    "manageEmail",
    "managePassword",
    "listUserHistory",
    "listUsersByBody",
    "listHistory",
    "undoChange",
    "getHistoryEntry",
    "createToken",
    "revokeToken",
    "revokeTokens",
]
PATH_VALUES = {
    ("Players", "lookupKey"): "{{player}}",
    ("Players", "variableId"): "{{variableId}}",
    ("Players", "bagId"): "{{bagId}}",
    ("Users", "lookupKey"): "{{newUser}}",
    ("Users", "lookupKey1"): "{{user}}",
    ("Users", "lookupKey2"): "0",
    ("History", "id"): "{{entryId}}",
    ("Credentials", "username"): "{{username}}",
    ("Credentials", "tokenId"): "{{spareToken}}",
}
# The headers of requests that leave an entry in history.
HEADER_VALUES = {"Idempotency-Key": "{{$guid}}", "X-Reason": "Trying%20the%20collection"}
# Reads of a user of the demo world, who has characters, unlike the one that the run registers.
READ_DEMO_USER = {"getUser", "listCharacters"}
BODY_VALUES: dict[str, Document] = {
    "setVariable": {"value": "{{value}}"},
    "giveItem": {"itemid": "{{itemId}}"},
    "takeItem": {"itemid": "{{itemId}}"},
    "teachSpell": {"spellid": "{{spellId}}"},
    "forgetSpell": {"spellid": "{{spellId}}"},
    "registerUser": {"username": "{{newUser}}", "email": "{{newUser}}@example.com"},
    "changeEmail": {"new": "{{newUser}}.moved@example.com"},
    "manageEmail": {"new": "{{newUser}}.managed@example.com"},
    "redeemResetCode": {"code": "{{resetCode}}"},
    "createToken": {"username": "{{username}}", "password": "{{passwordHash}}"},
}
