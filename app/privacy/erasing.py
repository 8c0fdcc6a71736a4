"""Erases a person at the request of a caller or a command."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from app.approvals.kinds import KINDS, Kind, find_user, key_of
from app.auth import guard
from app.auth.callers import Caller
from app.auth.permissions import RIGHTS
from app.changes import Applied, Intent
from app.errors import NotFound
from app.http.context import current
from app.naming import Lookup, name_key
from app.players.domain import PlayerOnline
from app.players.store import Players
from app.privacy.domain import ERASE, ErasureUnderWay, NotConfirmed, OwnAccount, digest_of
from app.privacy.operations import ERASE_USER
from app.privacy.store import Erasures
from app.request_scope import arrival, renew_time_limit
from app.staff.store import Roles
from app.types import Document
from app.users.store import Users

erasures = current(Erasures)
players = current(Players)
roles = current(Roles)
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
    _require_erasable(user, confirm, intent.origin.user_id)
    if intent.origin.user_id is not None and intent.origin.approved_by is None:
        guard.require_peer(user)
    with roles.keeping_one(user):
        if erasures.delay and intent.origin.via != "cli":
            return erasures.schedule(user["_id"], intent)
        # Another process may have finished it meanwhile.
        with suppress(NotFound):
            erasures.begin(user["_id"], intent)
    return erasures.finish(user["_id"], _deadline(), advance)


def _require_erasable(user: Document, confirm: str, by: str | None) -> None:
    if name_key(confirm) != name_key(str(user.get("Name"))):
        raise NotConfirmed
    if user["_id"] == by:
        raise OwnAccount
    if online := erasures.online_characters(user["_id"], players.online_since()):
        raise PlayerOnline(online[0])


def _finish(record: Document, confirm: str, advance: Callable[[int], None]) -> Document:
    """Continue the erasure of an account that is already deleted."""
    if digest_of(confirm) != record.get("NameDigest", digest_of(confirm)):
        raise NotConfirmed
    return erasures.finish(record["_id"], _deadline(), advance)


def _deadline() -> float | None:
    """Return the time until which this request works on the erasure; None for a command."""
    renew_time_limit()
    return None if arrival() is None else monotonic() + erasures.request_seconds


def _allow(caller: Caller, request: Document) -> None:
    if request["Subject"]["Id"] == caller.id:
        raise OwnAccount


def _preview_erasure(request: Document) -> list[Document]:
    """Raise if a person cannot be erased now."""
    user = users.get(key_of(request), "Name", *RIGHTS)
    _require_erasable(user, request["Arguments"]["Confirm"], None)
    guard.require_peer(user)
    return []


def _erase_approved(request: Document, intent: Intent) -> Applied:
    # An erasure that has begun continues by itself.
    with suppress(ErasureUnderWay):
        erase(key_of(request), request["Arguments"]["Confirm"], intent._replace(arguments={}))
    return Applied(None)


KINDS[ERASE] = Kind(
    ERASE_USER.arguments,
    find_user,
    ERASE_USER.permissions,
    _preview_erasure,
    _erase_approved,
    title="Erase the person",
    is_sensitive=True,
    allow=_allow,
)
