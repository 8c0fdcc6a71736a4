"""What is in force of the bans and mutes of an account. Pure."""

from __future__ import annotations

from datetime import datetime

from app.core.penalties import BAN, MUTE, is_in_force
from app.core.permissions import RIGHTS
from app.core.types import Document

BY_ADDRESS = "BanByAddress"
# The fields of an account that a change reads.
READS = (*BAN, *MUTE, BY_ADDRESS, *RIGHTS, "PasswordVersion")


def penalties_in_force(user: Document, now: datetime) -> Document:
    """Return which penalties of an account are in force."""
    record: Document = {}
    for penalty in (BAN, MUTE):
        counts = is_in_force(user, penalty, now)
        record |= {name: user.get(name) if counts else None for name in penalty}
        record[penalty.flag] = counts
    return {**record, BY_ADDRESS: record[BAN.flag] and user.get(BY_ADDRESS) is True}
