"""LIMIT: the least that this stack can do. A bare WSGI callable, no framework.

Run by the same gunicorn with the same settings as the service, it checks the same tokens with the
same code, asks MongoDB for the same fields and encodes with the same orjson. It knows no roles, no
request ids, no log line, no validation beyond what its code trips over.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from pymongo import MongoClient, ReturnDocument

from app.auth.tokens import AccessTokens
from app.core.errors import Unauthorized
from benchmarks.peers import giving
from benchmarks.peers.shared import (
    CLIENT,
    DATABASE,
    NOT_SERVED,
    PAGE_SIZE,
    SECRET,
    URI,
    Document,
    encode,
    given,
    inventory,
    page,
    record,
    utc_now,
)

PREFIX = "/api/v1/players"
PHRASES = {200: "200 OK", 401: "401 Unauthorized", 404: "404 Not Found", 409: "409 Conflict"}

tokens = AccessTokens([SECRET], 0)
players = MongoClient(URI, **CLIENT)[DATABASE]["players"]


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    return answered(start_response, *respond(environ))


def whole(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Serve as LIMIT does, but without a guess where the stack to give to is."""
    return answered(start_response, *respond(environ, tries=(giving.anywhere,)))


def answered(start_response: Callable[..., Any], status: int, answer: Any) -> Iterable[bytes]:
    body = encode(answer)
    headers = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
    ]
    start_response(PHRASES[status], headers)
    return [body]


def respond(
    environ: dict[str, Any], tries: tuple[giving.Try, ...] = giving.TRIES
) -> tuple[int, Any]:
    try:
        tokens.check(environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer "))
    except Unauthorized:
        return 401, {"Message": "Authorization has been denied for this request."}
    path: str = environ["PATH_INFO"]
    if path == PREFIX:
        return 200, first_page()
    name, _, rest = path[len(PREFIX) + 1 :].partition("/")
    key = name_key(name)
    if rest == "items/give":
        return give(key, orjson.loads(environ["wsgi.input"].read()), tries)
    if rest == "items/inventory":
        found = players.find_one({"NameKey": key}, {"Inventory": 1, "_id": 0})
        return (200, inventory(found["Inventory"])) if found else unknown(name)
    found = players.find_one({"NameKey": key}, NOT_SERVED)
    return (200, record(found, utc_now())) if found else unknown(name)


def first_page() -> Document:
    """Return the first page, with the total that MongoDB's own counter tells at each request."""
    found = list(players.find({}, NOT_SERVED, sort=[("NameKey", 1)], limit=PAGE_SIZE))
    return page(found, players.estimated_document_count(), utc_now())


def give(key: str, body: Document, tries: tuple[giving.Try, ...]) -> tuple[int, Any]:
    item, quantity = body["itemid"], body["quantity"]
    for make in tries:
        where, update = make(key, item, quantity)
        after = players.find_one_and_update(
            where, update, giving.RETURNED, return_document=ReturnDocument.AFTER
        )
        if after:
            return 200, given(after, item)
    return 409, {"Message": f"There is no player '{key}', or no room."}


def unknown(name: str) -> tuple[int, Any]:
    return 404, {"Message": f"There is no player '{name}'."}


def name_key(name: str) -> str:
    """Return a name as players are found by it; WSGI hands paths over as Latin-1."""
    return unicodedata.normalize("NFC", name.encode("latin1").decode()).casefold()
