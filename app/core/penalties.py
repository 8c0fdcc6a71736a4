"""Bans and mutes of an account, which end by themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class Penalty(NamedTuple):
    """The names of the fields that describe a penalty of an account."""

    flag: str
    reason: str
    # The end of the penalty; null if the game imposed it without an end.
    until: str
    by: str


BAN = Penalty("IsBanned", "BanReason", "BannedUntil", "BannedBy")
MUTE = Penalty("IsMuted", "MuteReason", "MutedUntil", "MutedBy")
# The fields that decide whether an account is banned.
BAN_STATE = (BAN.flag, BAN.until)


def is_in_force(account: Mapping[str, Any], penalty: Penalty, now: datetime) -> bool:
    """Tell whether a penalty is imposed and has not ended."""
    until = account.get(penalty.until)
    return account.get(penalty.flag) is True and (until is None or until > now)
