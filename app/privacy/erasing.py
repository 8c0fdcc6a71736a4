"""Erases a person at the request of a caller or a command."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from app.auth import guard
from app.auth.permissions import RIGHTS
from app.changes import Intent
from app.errors import NotFound
from app.http.context import current
from app.naming import Lookup, name_key
from app.players.domain import PlayerOnline
from app.players.store import Players
from app.privacy.domain import NotConfirmed, OwnAccount, digest_of
from app.privacy.store import Erasures
from app.request_scope import arrival, renew_time_limit
from app.types import Document
from app.users.store import Users

erasures = current(Erasures)
players = current(Players)
users = current(Users)


def erase(
    key: Lookup,
    confirm: str,
    intent: Intent,
    advance: Callable[[int], None] = lambda _: None,
) -> Document:
    """Erase a person, or continue the erasure; return its record."""
    try:
        user = users.get(key, "Name", *RIGHTS)
    except NotFound:
        if (record := erasures.find(key.id, key.text)) is None:
            raise
        return _finish(record, confirm, advance)
    if name_key(confirm) != name_key(str(user.get("Name"))):
        raise NotConfirmed
    if user["_id"] == intent.origin.user_id:
        raise OwnAccount
    if intent.origin.user_id is not None:
        guard.require_peer(user)
    if online := erasures.online_characters(user["_id"], players.online_since()):
        raise PlayerOnline(online[0])
    # Another process may have finished it meanwhile.
    with suppress(NotFound):
        erasures.begin(user["_id"], intent)
    return erasures.finish(user["_id"], _deadline(), advance)


def _finish(record: Document, confirm: str, advance: Callable[[int], None]) -> Document:
    """Continue the erasure of an account that is already deleted."""
    if digest_of(confirm) != record.get("NameDigest", digest_of(confirm)):
        raise NotConfirmed
    return erasures.finish(record["_id"], _deadline(), advance)


def _deadline() -> float | None:
    """Return the time until which this request works on the erasure; None for a command."""
    renew_time_limit()
    return None if arrival() is None else monotonic() + erasures.request_seconds
