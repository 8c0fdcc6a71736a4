"""Repairs that need no guessing. Pure.

Derived fields are computed again, missing fields get the default that readers assume, and empty
slots are removed. Nothing else changes: no item is ever lost or created.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from app.items.domain import is_empty
from app.naming import email_key, name_key, name_tails
from app.types import Document
from app.users.domain import NO_POWER

# Returns a repaired copy; the version must be one that no document has had before.
Repair = Callable[[Document, int], Document]

# The defaults that readers assume for missing fields.
PLAYER_IF_MISSING: Document = {
    "Inventory": {},
    "Bank": {},
    "Spells": {},
    "Variables": {},
    "Online": False,
    "LastOnline": None,
    "LastSeen": None,
}
USER_IF_MISSING: Document = {"PasswordHash": None, "MuteReason": None, "Reset": None}


def _repair(
    if_missing: Document, slot_maps: tuple[str, ...], document: Document, version: int
) -> Document:
    journal = document.get("Journal")
    repaired = {
        **if_missing,
        **document,
        # The swap only finds entries in a list: replacing another type loses no Idempotency-Key.
        "Journal": journal if isinstance(journal, list) else [],
        "Version": _count_or(document.get("Version"), version),
    }
    if isinstance(document.get("Name"), str):
        key = name_key(document["Name"])
        repaired |= {"NameKey": key, "NameTails": name_tails(key)}
    return repaired | {name: _without_empty_slots(repaired[name]) for name in slot_maps}


repair_player: Repair = partial(_repair, PLAYER_IF_MISSING, ("Inventory", "Bank"))
repair_bag: Repair = partial(_repair, {"Slots": {}}, ("Slots",))
repair_object: Repair = partial(_repair, {}, ())


def repair_user(user: Document, version: int) -> Document:
    repaired = _repair(USER_IF_MISSING, (), user, version)
    # Without a PasswordVersion, it is unknown which tokens are valid: a new version revokes all.
    repaired["PasswordVersion"] = _count_or(user.get("PasswordVersion"), version)
    if isinstance(repaired.get("Email"), str):
        repaired["EmailKey"] = email_key(repaired["Email"])
    if isinstance(repaired.get("Power"), dict):
        repaired["Power"] = {**NO_POWER, **repaired["Power"]}
    return repaired


def _count_or(count: Any, default: int) -> Any:
    # bool is a subclass of int.
    is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return count if is_count else default


def _without_empty_slots(slots: Any) -> Any:
    if not isinstance(slots, dict):
        return slots
    return {number: _without_nulls(slot) for number, slot in slots.items() if not is_empty(slot)}


def _without_nulls(slot: Any) -> Any:
    """Drop optional fields that are null: the validator requires them to be absent."""
    if not isinstance(slot, dict):
        return slot
    return {
        name: value
        for name, value in slot.items()
        if value is not None or name not in ("BagId", "StatBuffs")
    }
