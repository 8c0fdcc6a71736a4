"""The order, paths, bodies and environment of the Postman collection. Pure."""

from __future__ import annotations

from app.core.types import Document
from app.http import examples

FOLDERS = (
    "Players",
    "Guilds",
    "Users",
    "History",
    "Batches",
    "Approvals",
    "Game",
    "Catalogue",
    "Global variables",
    "Info",
    "Logs",
    "Credentials",
    "Keys",
    "Staff",
)
ENVIRONMENT = {
    "baseUrl": "http://127.0.0.1:8000",
    "username": "demo",
    "password": "demo",
    # If a key is set, it is used instead of the password.
    "key": "",
    "player": examples.PLAYER,
    "user": examples.USER,
    "itemId": examples.ITEM,
    "spellId": examples.SPELL,
    "variableId": examples.VARIABLE,
    "bagId": examples.BAG,
    "globalVariableId": examples.GLOBAL_VARIABLE,
    "mapId": examples.MAP,
    "guildId": examples.GUILD,
    "roleName": "postman",
}
# A request that needs the result of another one runs right after it. All other requests run in
# the order of the document.
RUNS_AFTER = {
    "setVariable": "getVariableValue",
    "savePlayer": "renamePlayer",
    "savePlayers": "savePlayer",
    "deletePlayer": "savePlayers",
    "deleteUser": "eraseUser",
    "getHistoryEntry": "undoChange",
    "cancelBatch": "undoBatch",
    "withdrawRequest": "declineRequest",
    "getRole": "createNewRole",
    "replaceRole": "getRole",
    "deleteRole": "replaceRole",
    "getAction": "answerAction",
    "withdrawLetter": "getAction",
    "setGlobalVariable": "getGlobalVariableValue",
}
PATH_VALUES = {
    ("Players", "lookupKey"): "{{player}}",
    ("Players", "variableId"): "{{variableId}}",
    ("Players", "bagId"): "{{bagId}}",
    ("Users", "lookupKey"): "{{newUser}}",
    ("Users", "lookupKey1"): "{{user}}",
    ("Users", "lookupKey2"): "0",
    ("Guilds", "guildId"): "{{guildId}}",
    ("History", "id"): "{{entryId}}",
    ("Batches", "id"): "{{batchId}}",
    ("Approvals", "id"): "{{approvalId}}",
    ("Game", "lookupKey"): "{{player}}",
    ("Game", "guildId"): "{{guildId}}",
    ("Game", "variableId"): "{{variableId}}",
    ("Game", "mapId"): "{{mapId}}",
    ("Game", "id"): "{{actionId}}",
    ("Catalogue", "type"): "item",
    ("Catalogue", "id"): "{{itemId}}",
    ("Global variables", "id"): "{{globalVariableId}}",
    ("Logs", "id"): "{{user}}",
    ("Credentials", "username"): "{{username}}",
    ("Credentials", "tokenId"): "{{spareToken}}",
    ("Credentials", "id"): "{{signInId}}",
    ("Keys", "id"): "{{keyId}}",
    ("Staff", "name"): "{{roleName}}",
    ("Staff", "lookupKey"): "{{newUser}}",
}
# The headers of requests that add a history entry.
HEADER_VALUES = {"Idempotency-Key": "{{$guid}}", "X-Reason": "Trying%20the%20collection"}
# A player has at most a hundred notes: with a fixed key, all runs write the same note.
FIXED_HEADERS = {"writePlayerNote": {"Idempotency-Key": "the-note-of-the-collection"}}
# Operations with other values in their path.
OWN_PATHS = {
    # A user of the demo world with characters; the user that the run registers has none.
    **dict.fromkeys(("getUser", "listCharacters"), "{{user}}"),
    "listPlayerActivity": "{{player}}",
    # A player that no other request uses, so that a run can be repeated.
    **dict.fromkeys(("renamePlayer", "savePlayer", "deletePlayer"), "{{sparePlayer}}"),
    # Registered right before, by tools/postman_scripts/before/eraseUser.js.
    **dict.fromkeys(("eraseUser", "deleteUser"), "{{goneUser}}"),
    "revokeTokens": "{{newUser}}",
}
# Operations that may be refused: the game may not be running, the player may be offline, the user
# may have no second factor or a password already, the sender may have too few items, and nobody
# decides on their own request.
MAY_BE_REFUSED = {
    *("kickPlayer", "killPlayer", "warpPlayer", "warpPlayerToPlace"),
    *("kickUser", "killUser", "warpUser", "warpUserToPlace"),
    *("sayToEverybody", "sayOnMap", "sayToPlayer", "answerAction"),
    *("resetSecondFactor", "approveRequest", "declineRequest", "inviteStaffAgain", "transferItem"),
    *("giveBackItem", "withdrawLetter", "restartGame", "setGuildVariable"),
}
# Bodies that replace the whole example.
WHOLE_BODIES: dict[str, Document] = {
    # The example has players beside rows, of which a batch has one.
    "planBatch": {
        "Rows": [
            {"Player": "{{player}}", "Operation": "give", "ItemId": "{{itemId}}", "Quantity": 1}
        ]
    },
    "savePlayer": {"Name": "{{spareName}}"},
    "savePlayers": {"Players": [{"Id": "{{sparePlayer}}", "Level": 17}]},
    "reportOnline": {"Offline": ["{{sparePlayer}}"]},
    "takeActions": {"Game": "postman"},
    "answerAction": {"Game": "postman"},
}
BODY_VALUES: dict[str, Document] = {
    "askForApproval": {
        "Subject": "{{player}}",
        "Arguments": {"itemid": "{{itemId}}", "quantity": 1},
    },
    "warpPlayer": {"mapid": "{{mapId}}"},
    "warpPlayerToPlace": {"mapid": "{{mapId}}"},
    "warpUser": {"mapid": "{{mapId}}"},
    "warpUserToPlace": {"mapid": "{{mapId}}"},
    "setVariable": {"value": "{{value}}"},
    "setGlobalVariable": {"value": "{{value}}"},
    "giveItem": {"itemid": "{{itemId}}"},
    "takeItem": {"itemid": "{{itemId}}"},
    "teachSpell": {"spellid": "{{spellId}}"},
    "forgetSpell": {"spellid": "{{spellId}}"},
    "registerUser": {"username": "{{newUser}}", "email": "{{newUser}}@example.com"},
    "changeEmail": {"new": "{{newUser}}.moved@example.com"},
    "manageEmail": {"new": "{{newUser}}.managed@example.com"},
    "renamePlayer": {"Name": "{{spareName}}"},
    "eraseUser": {"Confirm": "{{goneUser}}"},
    # To the name that it has, which the requests after this one use.
    "renameUser": {"Name": "{{newUser}}"},
    "createNewRole": {"Name": "{{roleName}}"},
    "setStaffRoles": {"Roles": ["viewer"]},
    # Another name in each run: a name can be invited once.
    "inviteStaff": {"Name": "pm{{$timestamp}}", "Email": "pm{{$timestamp}}@example.com"},
    "createUserKey": {"Name": "postman {{$guid}}", "Addresses": None, "Budget": None},
    "redeemResetCode": {"code": "{{resetCode}}"},
    "createToken": {"username": "{{username}}", "password": "{{passwordHash}}"},
}
