"""The parts of the OpenAPI document that apply to all operations."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.openapi.examples import ENTRY

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


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


HEADERS = {
    "X-Request-ID": _header("The id of the request, as in the log.", "5c8848779587481c9a62"),
    "Retry-After": _header("How many seconds to wait before trying again.", "2"),
    "WWW-Authenticate": _header("How to authenticate.", "Bearer"),
    "Idempotency-Replayed": _header("True if an earlier request got this answer.", "true"),
    "X-History-Id": _header("The history entry of this change; absent if nothing changed.", ENTRY),
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
