"""Repairs that need no guess. Pure.

Derived fields are derived again, missing fields get the value that readers assume for them, and
empty slots are removed. Nothing else changes: no item is ever lost or created.
"""

from __future__ import annotations

from typing import Any

from app.items.domain import is_empty
from app.naming import email_key, name_key, name_tails
from app.types import Document
from app.users.domain import NO_POWER

# The values that readers assume where a field is missing.
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
BAG_IF_MISSING: Document = {"Slots": {}}


def repaired_player(player: Document, version: int) -> Document:
    """Return a repaired copy; version is one that no document has had before."""
    repaired = _with_swap_fields({**PLAYER_IF_MISSING, **player}, version)
    _derive_keys(repaired)
    repaired["Inventory"] = _without_empty_slots(repaired["Inventory"])
    repaired["Bank"] = _without_empty_slots(repaired["Bank"])
    return repaired


def repaired_user(user: Document, version: int) -> Document:
    repaired = _with_swap_fields({**USER_IF_MISSING, **user}, version)
    # Without its PasswordVersion nobody knows which tokens are valid: an unused one revokes all.
    repaired["PasswordVersion"] = _count_or(user.get("PasswordVersion"), version)
    _derive_keys(repaired)
    if isinstance(repaired.get("Email"), str):
        repaired["EmailKey"] = email_key(repaired["Email"])
    if isinstance(repaired.get("Power"), dict):
        repaired["Power"] = {**NO_POWER, **repaired["Power"]}
    return repaired


def repaired_bag(bag: Document, version: int) -> Document:
    repaired = _with_swap_fields({**BAG_IF_MISSING, **bag}, version)
    return {**repaired, "Slots": _without_empty_slots(repaired["Slots"])}


def repaired_object(found: Document, version: int) -> Document:
    repaired = _with_swap_fields(found, version)
    _derive_keys(repaired)
    return repaired


def _with_swap_fields(document: Document, version: int) -> Document:
    """Add the Journal and Version that compare-and-swap relies on.

    The swap finds entries in a list only, so replacing any other type forgets no idempotency key.
    """
    journal = document.get("Journal")
    kept = {"Journal": journal if isinstance(journal, list) else []}
    return {**document, **kept, "Version": _count_or(document.get("Version"), version)}


def _count_or(count: Any, default: int) -> Any:
    # bool is a subclass of int.
    is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return count if is_count else default


def _derive_keys(document: Document) -> None:
    if isinstance(document.get("Name"), str):
        key = name_key(document["Name"])
        document |= {"NameKey": key, "NameTails": name_tails(key)}


def _without_empty_slots(slots: Any) -> Any:
    if not isinstance(slots, dict):
        return slots
    return {number: _without_nulls(slot) for number, slot in slots.items() if not is_empty(slot)}


def _without_nulls(slot: Any) -> Any:
    """Drop the optional fields that are null: the validator wants them absent instead."""
    if not isinstance(slot, dict):
        return slot
    return {
        name: value
        for name, value in slot.items()
        if value is not None or name not in ("BagId", "StatBuffs")
    }
