"""Reading all that is stored about a person, and erasing it."""

from __future__ import annotations

from functools import partial
from time import monotonic

from app.auth import guard
from app.auth.spending import refuse_unknown
from app.core.changes import Applied, Intent
from app.core.errors import NotFound
from app.core.limits import renew_time_limit
from app.core.naming import Lookup, name_key
from app.core.permissions import RIGHTS, Permission
from app.core.types import Document
from app.players.domain import PlayerOnline
from app.players.store import players
from app.privacy.domain import ERASE, EXPORT, NotConfirmed, OwnAccount
from app.privacy.schemas import EraseArgs
from app.privacy.store import erasures
from app.users.operations import account_operation
from app.users.staff.store import roles
from app.users.store import users


def begin(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Begin an erasure, unless it has begun; the answer is the id of the account."""
    try:
        return roles.keep_administrator(partial(_begin, key, args, intent), intent)
    except NotFound:
        # The account is deleted, and its name is stored nowhere any more.
        if erasures.find(key.id) is None:
            raise
        return Applied(key.id)


def _begin(key: Lookup, args: Document, intent: Intent) -> Applied:
    user = _erasable(key, args, intent.origin.user_id)
    if intent.origin.approved_by is None:
        guard.require_peer(user)
    return erasures.begin(user["_id"], intent)


def _erasable(key: Lookup, args: Document, by: str | None = None) -> Document:
    """Return an account, or raise if it cannot be erased now."""
    user = users.get(key, "Name", *RIGHTS)
    confirm = args["Confirm"]
    if confirm is not None and name_key(confirm) != name_key(str(user.get("Name"))):
        raise NotConfirmed
    if user["_id"] == by:
        raise OwnAccount
    for player in players.list_of_user(user["_id"]):
        if player["Online"]:
            raise PlayerOnline(str(player.get("Name")))
    return user


def preview_erasure(key: Lookup, args: Document, _: Intent) -> list[Document]:
    guard.require_peer(_erasable(key, args))
    return []


def finish(user_id: str) -> Document:
    """Carry out an erasure that has begun; return its record, or raise ErasureUnderWay."""
    renew_time_limit()
    return erasures.finish(user_id, monotonic() + erasures.request_seconds)


EXPORT_PERSONAL_DATA = account_operation(
    EXPORT,
    no_undo="what was handed out is known",
    sentence="Personal data exported",
    needs=(Permission.USERS_FIND, Permission.PRIVACY_EXPORT),
)
ERASE_USER = account_operation(
    ERASE,
    no_undo="a person who was erased stays so",
    sentence="Account erased",
    arguments=EraseArgs(),
    needs=(Permission.USERS_FIND, Permission.PRIVACY_ERASE),
    approval="erasures",
    title="Erase the person",
    requires=(lambda *_: refuse_unknown("erasing a person, with all characters,"),),
    run=begin,
    preview=preview_erasure,
    own_account=OwnAccount,
)
