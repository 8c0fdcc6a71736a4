"""Erases a person at the request of a caller or a command."""

from __future__ import annotations

from functools import partial
from time import monotonic

from app.auth import guard
from app.auth.spending import refuse_unknown
from app.core.changes import Applied, Intent
from app.core.errors import NotFound
from app.core.naming import Lookup, name_key
from app.core.permissions import RIGHTS
from app.core.request_scope import renew_time_limit
from app.core.types import Document
from app.http.context import current
from app.players.domain import PlayerOnline
from app.players.store import Players
from app.privacy.domain import NotConfirmed, OwnAccount
from app.privacy.store import Erasures
from app.users.staff.store import Roles
from app.users.store import Users

erasures = current(Erasures)
players = current(Players)
roles = current(Roles)
users = current(Users)


def finish(user_id: str) -> Document:
    """Carry out an erasure that has begun; return its record, or raise ErasureUnderWay."""
    renew_time_limit()
    return erasures.finish(user_id, monotonic() + erasures.request_seconds)


def begin(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Begin an erasure, unless it has begun; the answer is the id of the account."""
    try:
        return users.in_transaction(partial(_begin, key, args["Confirm"], intent), intent)
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


def refuse_limits(_: Lookup, __: Document) -> None:
    refuse_unknown("erasing a person, with all characters,")


def preview_erasure(key: Lookup, args: Document, _: Intent) -> list[Document]:
    """Raise if a person cannot be erased now."""
    user = users.get(key, "Name", *RIGHTS)
    _require_erasable(user, args["Confirm"], None)
    guard.require_peer(user)
    return []


def _require_erasable(user: Document, confirm: str, by: str | None) -> None:
    if name_key(confirm) != name_key(str(user.get("Name"))):
        raise NotConfirmed
    if user["_id"] == by:
        raise OwnAccount
    if online := erasures.online_characters(user["_id"], players.online_since()):
        raise PlayerOnline(online[0])
