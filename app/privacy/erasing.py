"""Erases a person at the request of a caller or a command."""

from __future__ import annotations

from functools import partial
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
from app.privacy.domain import ERASE, NotConfirmed, OwnAccount
from app.privacy.operations import ERASE_USER
from app.privacy.store import Erasures
from app.request_scope import renew_time_limit
from app.staff.store import Roles
from app.types import Document
from app.users.store import Users

erasures = current(Erasures)
players = current(Players)
roles = current(Roles)
users = current(Users)


def finish(user_id: str) -> Document:
    """Carry out an erasure that has begun; return its record, or raise ErasureUnderWay."""
    renew_time_limit()
    return erasures.finish(user_id, monotonic() + erasures.request_seconds)


def begin(key: Lookup, confirm: str, intent: Intent) -> Applied:
    """Begin an erasure, unless it has begun; the answer is the id of the account."""
    try:
        return users.in_transaction(partial(_begin, key, confirm, intent), intent)
    except NotFound:
        # The account is deleted, and its name is stored nowhere any more.
        record = erasures.find(key.id) if key.id else erasures.find_earlier(intent)
        if record is None:
            raise
        return Applied(record["_id"])


def _begin(key: Lookup, confirm: str, intent: Intent) -> Applied:
    user = users.get(key, "Name", *RIGHTS)
    _require_erasable(user, confirm, intent.origin.user_id)
    if intent.origin.user_id is not None and intent.origin.approved_by is None:
        guard.require_peer(user)
    roles.keep_one(user)
    return erasures.begin(user["_id"], intent)._replace(answer=user["_id"])


def _require_erasable(user: Document, confirm: str, by: str | None) -> None:
    if name_key(confirm) != name_key(str(user.get("Name"))):
        raise NotConfirmed
    if user["_id"] == by:
        raise OwnAccount
    if online := erasures.online_characters(user["_id"], players.online_since()):
        raise PlayerOnline(online[0])


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
    """Begin the erasure, in the transaction of the approval; it continues by itself."""
    meant = intent._replace(arguments={})
    return begin(key_of(request), request["Arguments"]["Confirm"], meant)


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
