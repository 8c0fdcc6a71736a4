"""Imposes and lifts penalties on accounts, with an entry in history."""

from __future__ import annotations

from datetime import timedelta

from app.auth import guard
from app.auth.callers import Caller, NotPeer, callers
from app.core.changes import Applied, Change, Intent
from app.core.errors import RoleMissing
from app.core.naming import Lookup
from app.core.penalties import BAN, Penalty
from app.core.permissions import Permission
from app.core.types import Document
from app.http.masking import masked
from app.users.domain import revoke_tokens
from app.users.moderation.domain import BY_ADDRESS, READS
from app.users.staff.store import staff
from app.users.store import users

# Otherwise any tool could lock out all administrators.
ADMINISTERING = {Permission.USERS_MANAGE, Permission.STAFF_MANAGE}


def impose(penalty: Penalty, account: Lookup, args: Document, intent: Intent) -> Applied:
    """Impose a penalty for some days. A ban also makes all tokens of the account void."""
    by = masked(args["moderator"].strip()) or guard.caller().name
    fields = {
        penalty.flag: True,
        # Mask tokens in the reason: it is kept for long and shown to many.
        penalty.reason: masked(args["reason"].strip()) or None,
        penalty.until: users.now() + timedelta(days=args["duration"]),
        penalty.by: by,
    }

    def imposed(user: Document) -> Change:
        require_lower(user)
        ends = {BY_ADDRESS: args["ip"], **revoke_tokens(user).fields} if penalty is BAN else {}
        return Change({**fields, **ends}, None)

    meant = intent._replace(arguments={**intent.arguments, "Moderator": by})
    store = staff if penalty is BAN else users
    return store.change(account, READS, imposed, meant)


def may_punish(caller: Caller, user: Document) -> bool:
    """Tell whether a caller may ban or mute an account.

    The contract protects those who manage users from others. Where named roles or keys are
    involved, only somebody who may do as much bans or mutes staff.
    """
    # Somebody may enable the account again.
    rights = callers.rights({**user, "IsDisabled": False})
    if rights.permissions and (rights.roles or caller.rights.roles or caller.key):
        return guard.is_peer(user)
    return all(caller.may(permission) for permission in rights.permissions & ADMINISTERING)


def require_lower(user: Document) -> None:
    """Raise if the caller may not ban or mute an account."""
    caller = guard.caller()
    if may_punish(caller, user):
        return
    if caller.key or caller.rights.roles or callers.rights(user).roles:
        raise NotPeer
    raise RoleMissing(Permission.USERS_MANAGE.role.value)


def lift(penalty: Penalty, account: Lookup, _: Document, intent: Intent) -> Applied:
    """End a penalty early; change nothing if there is none."""

    def lifted(user: Document) -> Change:
        if not user.get(penalty.flag):
            return Change({}, None)
        ends = dict.fromkeys((penalty.reason, penalty.until, penalty.by))
        also = {BY_ADDRESS: False} if penalty is BAN else {}
        return Change({penalty.flag: False, **ends, **also}, None)

    return users.change(account, READS, lifted, intent)
