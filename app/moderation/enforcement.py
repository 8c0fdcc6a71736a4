"""Imposes and lifts penalties on accounts, with an entry in history."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.auth import guard
from app.auth.callers import Callers
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.changes import Applied
from app.http.context import current
from app.http.intents import intent
from app.http.masking import masked
from app.moderation.domain import READS, impose, lift
from app.moderation.operations import IMPOSE, LIFT
from app.moderation.penalties import MUTE, Penalty
from app.naming import Lookup
from app.users.store import Users

callers = current(Callers)
users = current(Users)


def impose_on(account: Lookup, penalty: Penalty, args: dict[str, Any]) -> Applied:
    caller = guard.caller()
    manages = caller.may(Role.USERS_MANAGE, Scope.USERS_MANAGE)
    # Mask tokens in the reason: it is kept for long and shown to many.
    why = masked(args["reason"].strip()) or None
    by = masked(args["moderator"].strip()) or caller.name
    rule = partial(
        impose,
        penalty=penalty,
        days=args["duration"],
        reason=why,
        by=by,
        by_address=args["ip"],
        roles=caller.roles if manages else caller.roles - {Role.USERS_MANAGE},
        now=users.now(),
    )
    told = {"Duration": args["duration"], "Moderator": by, "Ip": args["ip"]}
    meant = intent(IMPOSE[penalty], why, **told)
    if penalty is MUTE:
        return users.change(account, READS, rule, meant)
    applied = users.change_and_sweep(account, READS, rule, meant)
    callers.forget()
    return applied


def lift_from(account: Lookup, penalty: Penalty) -> Applied:
    """End a penalty early; change nothing if there is none."""
    rule = partial(lift, penalty=penalty)
    return users.change(account, READS, rule, intent(LIFT[penalty]))
