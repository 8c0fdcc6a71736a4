"""The parts of the OpenAPI document that apply to all operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from app.core.errors import (
    Invalid,
    InvalidField,
    KeyNotAllowed,
    NotFound,
    QuartermasterError,
    RateLimited,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
    Unavailable,
)
from app.core.naming import Lookup
from app.core.types import Document
from app.http.intents import REASON_PATTERN
from app.http.openapi import examples

GUIDE = Path(__file__).with_name("guide.md").read_text()

# A relative server URL works behind any proxy: it is resolved against the document's own URL.
ABOUT: dict[str, Any] = {
    "info": {"description": GUIDE},
    "version": version("quartermaster"),
    "servers": [{"url": "/"}],
}
ROLES = {
    "api": "Use the API: enough for players and the catalogue.",
    "users.query": "Read accounts and their history, register accounts, ban, mute and write notes.",
    "users.manage": "Change accounts without their passwords; end sign-ins, manage keys, erase.",
    "approve": "Not a role but a permission, which only a role of staff has: approve requests.",
}
SECURITY: dict[str, Any] = {
    "password": {
        "type": "oauth2",
        "description": "With a username and a password; this page hashes the password.",
        "flows": {"password": {"tokenUrl": "/api/oauth/token", "scopes": ROLES}},
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "With an access token, for example from `quartermaster token NAME`, or with "
        "a key, for example from `quartermaster key create` or `POST /api/v1/keys`.",
    },
}
STATUSES = {
    400: "The request or one of its fields is invalid.",
    401: "The access token or the key is missing, expired or revoked.",
    403: "The caller may not do this.",
    404: "It does not exist.",
    409: "The current state does not allow it; nothing was changed.",
    413: "The body is too large: over 1 MiB, or 32 MiB for a batch, by default.",
    415: "The body is not JSON; a batch may also be CSV.",
    429: "Too many requests, or too many failed attempts.",
    500: "An internal error; no change is half made.",
    503: "The database or the mail server is unavailable.",
}
# The errors that many operations answer, whose responses are shared; without any, Flask answers.
FAILURES: dict[int, Sequence[QuartermasterError]] = {
    400: (
        InvalidField("pageSize", "Must be a whole number."),
        Invalid("The header X-Reason is required: give the reason for the change."),
    ),
    401: (Unauthorized(),),
    403: (RoleMissing("api"), ScopeMissing("players.read"), KeyNotAllowed()),
    413: (),
    415: (),
    429: (RateLimited("caller", 17, "requests"),),
    500: (),
    503: (Unavailable("The database is not available at the moment; please try again."),),
}


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


HEADERS = {
    "X-Request-ID": _header("The id of the request, as in the log.", "5c8848779587481c9a62"),
    "Retry-After": _header("How many seconds to wait before trying again.", "2"),
    "WWW-Authenticate": _header("How to authenticate.", "Bearer"),
    "Idempotency-Replayed": _header("True if an earlier request got this answer.", "true"),
    "X-History-Id": _header(
        "The history entry of this change; absent if nothing changed.", examples.ENTRY
    ),
    "X-Version": _header(
        "The Version of the player: a save may require that it is still this.", "7"
    ),
    "Warning": _header(
        "What is unusual about the request, or was not done as requested.",
        "299 quartermaster \"The catalogue holds no item with the id '...'.\"",
    ),
    "Deprecation": _header("When it was deprecated, in the format of RFC 9745.", "@1767225600"),
    "Link": _header(
        "Its replacement, with the relation successor-version.", "</api/v1/...>; rel=..."
    ),
}
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": (
        "Makes retries safe: a repeated request with the same key changes nothing and gets the "
        "first answer, as long as history is kept. Printable ASCII characters."
    ),
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
}
REASON = {
    "in": "header",
    "name": "X-Reason",
    "description": (
        "The reason for the change, for the history: percent-encoded UTF-8, up to 500 characters."
    ),
    "required": False,
    "schema": {"type": "string", "pattern": REASON_PATTERN},
}


class PathParameter(NamedTuple):
    """A documented path parameter."""

    name: str
    description: str
    example: str
    # The example of a 404; None if the parameter can only be malformed.
    missing: NotFound | None = None
    is_guid: bool = False

    def to_openapi(self) -> Document:
        return {
            "in": "path",
            "name": self.name,
            "required": True,
            "description": self.description,
            "example": self.example,
            "schema": {"type": "string", **({"format": "uuid"} if self.is_guid else {})},
        }


_guid = partial(PathParameter, is_guid=True)
NO_PLAYER = NotFound("player", Lookup.parse("nobody"))
NO_USER = NotFound("user", Lookup.parse("nobody"))
NO_ENTRY = NotFound("entry of history", "nobody")
NO_ROLE = NotFound("role", "nobody")
PLAYER = PathParameter("lookupKey", "A character's name or id.", examples.PLAYER, NO_PLAYER)
USER = PathParameter("lookupKey", "A username or user id.", examples.USER, NO_USER)
PLACE = "A character's id, name, or position in the user's list, from 0."

# By the argument in the rule, with its converter; in some groups, by that after their name.
PATH_PARAMETERS = {
    "player:key": PLAYER,
    "Game lookup:key": PLAYER,
    "lookup:key": USER,
    "lookup:character": PathParameter("lookupKey2", PLACE, examples.PLAYER, NO_PLAYER),
    "lookup:player_key": PLAYER._replace(name="id"),
    "lookup:user_key": USER._replace(name="id"),
    "Credentials lookup:key": USER._replace(name="username", example="demo"),
    "player:player_id": _guid("lookupKey", "A character's id.", examples.PLAYER_ID),
    "bag_id": _guid("bagId", "The id of a bag.", examples.BAG),
    "variable_id": _guid("variableId", "The id of a variable.", examples.VARIABLE),
    "Global variables variable_id": _guid(
        "id", "The id of a global variable.", examples.GLOBAL_VARIABLE
    ),
    "entry_id": PathParameter("id", "The id of an entry.", examples.ENTRY, NO_ENTRY),
    "batch_id": _guid("id", "The id of a batch.", examples.BATCH),
    "request_id": _guid("id", "The id of a request.", examples.BATCH),
    "guild_id": _guid("guildId", "The id of a guild.", examples.GUILD),
    "map_id": _guid("mapId", "The id of a map.", examples.MAP),
    "action_id": _guid("id", "The id of an action.", examples.ACTION),
    "object_type:type_name": PathParameter(
        "type", "A type of objects, such as item, spell or map.", "item"
    ),
    "object_id": _guid("id", "The id of an object.", examples.ITEM),
    "key_id": _guid("id", "The id of a key.", examples.KEY_ID),
    "role": PathParameter("name", "The name of a role.", "support", NO_ROLE),
    "token_id": _guid("tokenId", "The refresh token.", examples.TOKEN),
    "sign_in_id": _guid("id", "The id of a sign-in.", examples.SIGN_IN),
}
