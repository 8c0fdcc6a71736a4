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
    "api": "Use the API at all; enough for all that concerns players and the catalogue.",
    "users.query": "Read accounts and their history, register new ones, ban, mute and note.",
    "users.manage": "Change accounts without their passwords, their sign-ins and keys; erase.",
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
        "description": "With an access token, such as `quartermaster token NAME` prints, or with a "
        "key, such as `quartermaster key create` and `POST /api/v1/keys` make.",
    },
}
STATUSES = {
    400: "The request is malformed, or a field of it is.",
    401: "The access token or the key is missing, expired or revoked.",
    403: "The caller may not do this.",
    404: "There is no such thing.",
    409: "The state does not allow it; nothing was changed.",
    413: "The body is too large: over 1 MiB, or 32 MiB for a batch, unless set otherwise.",
    415: "The body is not JSON; a batch may also be CSV.",
    429: "Too many requests, or too many failed attempts.",
    500: "A fault of the service; nothing is half-written.",
    503: "The database or the mail server is unavailable.",
}


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


HEADERS = {
    "X-Request-ID": _header("The id of the request, as the log has it.", "5c8848779587481c9a62"),
    "Retry-After": _header("How many seconds to wait before trying again.", "2"),
    "WWW-Authenticate": _header("How to authenticate.", "Bearer"),
    "Idempotency-Replayed": _header("True if the same answer was given before.", "true"),
    "X-History-Id": _header("The history entry of this change; absent if nothing changed.", ENTRY),
    "Warning": _header(
        "Why the change is unusual; it was made nevertheless.",
        "299 quartermaster \"The catalogue holds no item with the id '...'.\"",
    ),
    "Deprecation": _header("When it was deprecated, in the format of RFC 9745.", "@1767225600"),
    "Link": _header(
        "Its replacement, with the relation successor-version.", "</api/v1/...>; rel=..."
    ),
}
