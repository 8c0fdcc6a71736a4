"""Imposes and lifts penalties on accounts, with an entry in history."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.auth import guard
from app.auth.callers import Caller, Callers
from app.auth.permissions import Permission
from app.changes import Applied
from app.http.context import current
from app.http.intents import intent
from app.http.masking import masked
from app.moderation.domain import READS, impose, lift
from app.moderation.operations import IMPOSE, LIFT
from app.moderation.penalties import MUTE, Penalty
from app.naming import Lookup
from app.types import Document
from app.users.store import Users

# Otherwise any tool could lock out all administrators.
ADMINISTERING = {Permission.USERS_MANAGE, Permission.STAFF_MANAGE}

callers = current(Callers)
users = current(Users)


def impose_on(account: Lookup, penalty: Penalty, args: dict[str, Any]) -> Applied:
    caller = guard.caller()
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
        may_punish=partial(may_punish, caller),
        now=users.now(),
    )
    told = {"Duration": args["duration"], "Moderator": by, "Ip": args["ip"]}
    meant = intent(IMPOSE[penalty], why, **told)
    if penalty is MUTE:
        return users.change(account, READS, rule, meant)
    applied = users.change_and_sweep(account, READS, rule, meant)
    callers.forget()
    return applied


def may_punish(caller: Caller, user: Document) -> bool:
    """Tell whether a caller may ban or mute an account: only peers may lock out administrators."""
    held = callers.rights(user).permissions & ADMINISTERING
    return all(caller.may(permission) for permission in held)


def lift_from(account: Lookup, penalty: Penalty) -> Applied:
    """End a penalty early; change nothing if there is none."""
    rule = partial(lift, penalty=penalty)
    return users.change(account, READS, rule, intent(LIFT[penalty]))
