"""The parts of the OpenAPI document that concern all operations."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from app.openapi.examples import ENTRY

GUIDE = """\
Read and change the player characters and user accounts of a game server.

**Signing in.** `POST /api/oauth/token` takes a username and the SHA-256 of the password in hex, and
gives an access token, which goes into the header `Authorization: Bearer ...`, and a refresh token
that gets the next pair. The roles are those of the account: `api` to use the API at all,
`users.query` for the users, `users.manage` to change them without their passwords. *Authorize* on
this page takes the password itself, hashes it before it is sent, and renews the token.

**Keys.** A tool has a key, which goes into the same header, `Authorization: Bearer qm_...`, and
needs no sign-in. It belongs to an account, may do what its scopes say and never more than the
account may, and ends by itself. It may be bound to networks, and to a budget of items. A scope, an
address or a budget that lacks is a 403 that names it; a key that is unknown, expired or revoked is
a 401. `POST /api/v1/keys` makes one, and shows it that once; `quartermaster key create` does the
same. Each operation below names the scopes that it needs.

**Lookup keys.** A key in a path that is a guid is an id, else it is a name. Names compare without
case and go percent-encoded into a path.

**Lists** come by page numbers, or as a walk: begin with an empty `after`, and go on with the `Next`
of each answer until it is null. A walk costs the same at any depth, and each record that stays in
its place comes exactly once. History, notes and sign-ins are walks alone.

**Bodies** are JSON objects with exactly the documented fields, in their case. Integers are
integers: `"5"`, `5.0` and `true` are not.

**Failures** have a status, a `Message` for a person, and where fields are at fault `Errors` by
field. 429 and 503 say in `Retry-After` when to try again. Others are not worth a retry: 400 has to
be mended, 401 needs a new token or another key, 409 will be refused again while the state is as it
is.

**Retries.** A change of a player, and a note, takes the header `Idempotency-Key`: repeated with the
same key, it is not made twice, however many other changes came between, for as long as history is
kept. Without a key, a 503 does not tell whether the change was made.

**History.** Every change leaves an entry: who made it, when, through which door and with which
request id, what was asked and what came of it. The header `X-Reason` adds why, in percent-encoded
UTF-8; a server may be set to refuse changes without it. `GET /api/v1/history` finds entries by
player, user, author, operation, item, time and words of the reason, and
`POST /api/v1/history/{id}/undo` takes a change of a player or of a global variable back, brings a
deleted player back, or hides a note, or tells with `DryRun` what it would do.

**Batches.** `POST /api/v1/batches` takes up to 100,000 changes as JSON or CSV, or all changes of a
person or a key in a time to undo, and makes a plan: each row has a verdict, and nothing is changed.
`POST /api/v1/batches/{id}/advance` carries out what fits into two seconds; it is called until the
batch is done, by as many callers as like, and no row is carried out twice.
`POST /api/v1/batches/{id}/undo` plans the way back.

**People.** `GET /api/v1/users/{lookupKey}/personal-data` has all that is stored about a person in
one document, and `POST /api/v1/users/{lookupKey}/erase` erases a person for good.

**The catalogue** says what the ids are: `GET /api/v1/gameobjects/{type}` lists the items, spells,
classes, maps and other objects of the game with all of their fields, and
`GET /api/v1/gameobjects/{type}/names` their names alone.

**Request ids.** Every answer carries `X-Request-ID`, which the log lines of that request hold
too. A request may bring its own. The answer to a change names its entry of history by
`X-History-Id`, and tells by `Warning` what is odd about it.
"""

# A relative server URL is right behind any proxy: it resolves against the document's own address.
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
    413: "The body is over the limit: 1 MiB, of a batch 32 MiB, unless set otherwise.",
    415: "The body is not JSON, nor of a batch CSV.",
    429: "Too many requests, or too many failed attempts.",
    500: "A fault of the service; nothing is half-written.",
    503: "The database or the mail server is away.",
}


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


HEADERS = {
    "X-Request-ID": _header("The id of the request, as the log has it.", "5c8848779587481c9a62"),
    "Retry-After": _header("In how many seconds to try again.", "2"),
    "WWW-Authenticate": _header("How to show who calls.", "Bearer"),
    "Idempotency-Replayed": _header("True where this answer was given before.", "true"),
    "X-History-Id": _header(
        "The entry of history of this change; absent where nothing changed.", ENTRY
    ),
    "Warning": _header(
        "What is odd about the change, although it was made.",
        "299 quartermaster \"The catalogue holds no item with the id '...'.\"",
    ),
    "Deprecation": _header("Since when, as RFC 9745 writes it.", "@1767225600"),
    "Link": _header("What replaces it, as rel successor-version.", "</api/v1/...>; rel=..."),
}
