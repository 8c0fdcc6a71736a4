"""The rules of banning and muting accounts. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from app.core.changes import Change
from app.core.penalties import BAN, MUTE, Penalty, end_of, is_in_force
from app.core.permissions import RIGHTS
from app.core.types import Document

BY_ADDRESS = "BanByAddress"
# The fields of an account that a change reads.
READS = (*BAN, *MUTE, BY_ADDRESS, *RIGHTS, "PasswordVersion")


def impose(
    user: Document,
    *,
    penalty: Penalty,
    days: int,
    reason: str | None,
    by: str,
    by_address: bool,
    require_lower: Callable[[Document], None],
    now: datetime,
) -> Change:
    """Impose a penalty for some days. A ban also makes all tokens of the account void."""
    require_lower(user)
    fields = {
        penalty.flag: True,
        penalty.reason: reason,
        penalty.until: now + timedelta(days=days),
        penalty.by: by,
    }
    if penalty is BAN:
        fields |= {BY_ADDRESS: by_address, "PasswordVersion": user["PasswordVersion"] + 1}
    return Change(fields, None)


def lift(user: Document, *, penalty: Penalty) -> Change:
    """End a penalty; change nothing if there is none."""
    if not user.get(penalty.flag):
        return Change({}, None)
    fields = {penalty.flag: False, penalty.reason: None, penalty.until: None, penalty.by: None}
    return Change({**fields, BY_ADDRESS: False} if penalty is BAN else fields, None)


def penalties_in_force(user: Document, now: datetime) -> Document:
    """Return which penalties of an account are in force."""
    record: Document = {}
    for penalty in (BAN, MUTE):
        counts = is_in_force(user, penalty, now)
        record[penalty.flag] = counts
        record[penalty.reason] = user.get(penalty.reason) if counts else None
        record[penalty.until] = end_of(user, penalty) if counts else None
        record[penalty.by] = user.get(penalty.by) if counts else None
    return {**record, BY_ADDRESS: record[BAN.flag] and user.get(BY_ADDRESS) is True}
