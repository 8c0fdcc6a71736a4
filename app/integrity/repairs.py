"""What of an unsound document can be set right without a guess. Pure.

What is derived is derived again, what is missing gets the value that its absence is read as, and
slots that hold nothing go. Nothing else is touched: no item is ever lost or made.
"""

from __future__ import annotations

from typing import Any

from app.items.domain import is_empty
from app.keys import email_key, name_key, name_tails
from app.types import Document
from app.users.domain import NO_POWER

# Where these are missing, that is what everybody takes them for.
PLAYER_ABSENCES: Document = {
    **{"Inventory": {}, "Bank": {}, "Spells": {}, "Variables": {}},
    **{"Online": False, "LastOnline": None, "LastSeen": None},
}
USER_ABSENCES: Document = {"PasswordHash": None, "MuteReason": None, "Reset": None}
BAG_ABSENCES: Document = {"Slots": {}}


def mended_player(player: Document, version: int) -> Document:
    """Return a player with all set right that can be; version is one that no document has had."""
    mended = _changed_by_swap({**PLAYER_ABSENCES, **player}, version)
    _derive_keys(mended)
    mended["Inventory"] = _without_nothing(mended["Inventory"])
    mended["Bank"] = _without_nothing(mended["Bank"])
    return mended


def mended_user(user: Document, version: int) -> Document:
    """Return an account with all set right that can be."""
    mended = _changed_by_swap({**USER_ABSENCES, **user}, version)
    # Of an account whose count of passwords is lost, no token may count.
    mended["PasswordVersion"] = _count(user.get("PasswordVersion"), version)
    _derive_keys(mended)
    if isinstance(mended.get("Email"), str):
        mended["EmailKey"] = email_key(mended["Email"])
    if isinstance(mended.get("Power"), dict):
        mended["Power"] = {**NO_POWER, **mended["Power"]}
    return mended


def mended_bag(bag: Document, version: int) -> Document:
    """Return a bag with all set right that can be."""
    mended = _changed_by_swap({**BAG_ABSENCES, **bag}, version)
    return {**mended, "Slots": _without_nothing(mended["Slots"])}


def _changed_by_swap(document: Document, version: int) -> Document:
    """Return a document with what the compare-and-swap keeps on it.

    In a journal that is no list no entry was ever found, so none is forgotten with it.
    """
    journal = document.get("Journal")
    kept = {"Journal": journal if isinstance(journal, list) else []}
    return {**document, **kept, "Version": _count(document.get("Version"), version)}


def _count(count: Any, lost: int) -> Any:
    is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return count if is_count else lost


def _derive_keys(document: Document) -> None:
    if isinstance(document.get("Name"), str):
        key = name_key(document["Name"])
        document |= {"NameKey": key, "NameTails": name_tails(key)}


def _without_nothing(slots: Any) -> Any:
    """Return slots without the empty ones, and without fields that say nothing by a null."""
    if not isinstance(slots, dict):
        return slots
    return {number: _held(held) for number, held in slots.items() if not is_empty(held)}


def _held(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    return {
        name: value
        for name, value in held.items()
        if value is not None or name not in ("BagId", "StatBuffs")
    }
