"""Bans and mutes of an account, which end by themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class Penalty(NamedTuple):
    """The fields of an account that tell of a penalty."""

    flag: str
    reason: str
    # The time of its end; null for one that the game has imposed without an end.
    until: str
    by: str


BAN = Penalty("IsBanned", "BanReason", "BannedUntil", "BannedBy")
MUTE = Penalty("IsMuted", "MuteReason", "MutedUntil", "MutedBy")
# What tells whether an account is banned.
BAN_STATE = (BAN.flag, BAN.until)


def is_in_force(account: Mapping[str, Any], penalty: Penalty, now: datetime) -> bool:
    """Tell whether a penalty has been imposed and is not over."""
    # A game may have stored anything under these names before they meant something here.
    until = end_of(account, penalty)
    return account.get(penalty.flag) is True and (until is None or until > now)


def end_of(account: Mapping[str, Any], penalty: Penalty) -> datetime | None:
    """Return when a penalty ends; None for one without an end."""
    until = account.get(penalty.until)
    return until if isinstance(until, datetime) else None
