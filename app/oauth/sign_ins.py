"""Sign-ins of an account: one's own, or with users.manage anybody's."""

from __future__ import annotations

from app.auth import guard
from app.auth.callers import Callers
from app.auth.roles import Role
from app.changes import Applied
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import intent
from app.naming import Lookup, name_key
from app.oauth.operations import REVOKE_TOKENS
from app.oauth.store import RefreshTokens
from app.paging import CursorPage
from app.types import Document
from app.users.store import Users

callers = current(Callers)
cursors = current(Cursors)
refresh_tokens = current(RefreshTokens)
users = current(Users)


def owner(key: Lookup) -> Document:
    """Return the user of a lookup key: the caller itself, or with users.manage anybody."""
    caller = guard.caller()
    if caller.id != key.id and name_key(caller.name) != key.name_key:
        caller.require(Role.USERS_MANAGE)
    # A game may have written the account, and left them out.
    return {"Name": str(key), "PasswordVersion": None, **users.get(key, "Name", "PasswordVersion")}


def list_sign_ins(key: Lookup, size: int, after: str = "") -> CursorPage:
    """Return a page of the sign-ins of an account that are in use."""
    return refresh_tokens.list_sign_ins(owner(key), size, cursors.read(after))


def end_sign_in(key: Lookup, chain: str) -> Document:
    """End one sign-in, and return whose it was."""
    user = owner(key)
    refresh_tokens.end_sign_in(user, chain)
    callers.forget()
    return user


def end_all(key: Lookup) -> tuple[Document, Applied]:
    """End all sign-ins of an account, and return whose they were."""
    user = owner(key)
    applied = users.revoke_tokens(Lookup.parse(user["_id"]), intent(REVOKE_TOKENS))
    callers.forget()
    return user, applied
