"""Imposes and lifts penalties on accounts, with an entry in history."""

from __future__ import annotations

from functools import partial

from app.auth import guard
from app.auth.callers import Caller, Callers, NotPeer
from app.core.changes import Applied, Intent, Rule
from app.core.errors import RoleMissing
from app.core.naming import Lookup
from app.core.penalties import MUTE, Penalty
from app.core.permissions import RIGHTS, Permission
from app.core.types import Document
from app.http.context import current
from app.http.masking import masked
from app.users.moderation.domain import READS, impose, lift
from app.users.staff.store import TURN, Roles
from app.users.store import Users

# Otherwise any tool could lock out all administrators.
ADMINISTERING = {Permission.USERS_MANAGE, Permission.STAFF_MANAGE}

callers = current(Callers)
roles = current(Roles)
users = current(Users)


def impose_on(penalty: Penalty, account: Lookup, args: Document, intent: Intent) -> Applied:
    # Mask tokens in the reason: it is kept for long and shown to many.
    why = masked(args["reason"].strip()) or None
    by = masked(args["moderator"].strip()) or guard.caller().name
    rule = partial(
        impose,
        penalty=penalty,
        days=args["duration"],
        reason=why,
        by=by,
        by_address=args["ip"],
        require_lower=require_lower,
        now=users.now(),
    )
    meant = intent._replace(arguments={**intent.arguments, "Moderator": by})
    if penalty is MUTE:
        return users.change(account, READS, rule, meant)
    applied = users.in_transaction(partial(_ban, account, rule, meant), meant, TURN)
    users.sweep_tokens(account)
    callers.forget()
    return applied


def _ban(account: Lookup, rule: Rule, intent: Intent) -> Applied:
    if earlier := users.find_earlier(account, intent):
        return earlier
    # Whoever may not ban the account is told so by the rule, not that it is the last of its kind.
    decision = users.decide(account, READS, rule, intent)
    roles.keep_one(users.get(account, *RIGHTS))
    return users.write(decision)


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


def lift_from(penalty: Penalty, account: Lookup, _: Document, intent: Intent) -> Applied:
    """End a penalty early; change nothing if there is none."""
    rule = partial(lift, penalty=penalty)
    return users.change(account, READS, rule, intent)
