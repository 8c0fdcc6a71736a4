"""The parts of the OpenAPI document that apply to all operations."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.core.errors import (
    Invalid,
    InvalidField,
    KeyNotAllowed,
    QuartermasterError,
    RateLimited,
    RoleMissing,
    ScopeMissing,
    Unauthorized,
    Unavailable,
)
from app.http.examples import ENTRY
from app.http.intents import REASON_PATTERN

# A relative server URL works behind any proxy: it is resolved against the document's own URL.
ABOUT: dict[str, Any] = {
    "info": {"description": Path(__file__).with_name("guide.md").read_text()},
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
WARNING = "299 quartermaster \"The catalogue holds no item with the id '...'.\""
HEADERS = {
    name: {"description": about, "schema": {"type": "string"}, "example": example}
    for name, about, example in (
        ("X-Request-ID", "The id of the request, as in the log.", "5c8848779587481c9a62"),
        ("Retry-After", "How many seconds to wait before trying again.", "2"),
        ("WWW-Authenticate", "How to authenticate.", "Bearer"),
        ("Idempotency-Replayed", "True if an earlier request got this answer.", "true"),
        ("X-History-Id", "The history entry of this change; absent if nothing changed.", ENTRY),
        ("X-Version", "The Version of the player: a save may require that it is still this.", "7"),
        ("Warning", "What is unusual about the request, or was not done as requested.", WARNING),
        ("Deprecation", "When it was deprecated, in the format of RFC 9745.", "@1767225600"),
        ("Link", "Its replacement, with the relation successor-version.", "</api/v1/...>; rel=..."),
    )
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
