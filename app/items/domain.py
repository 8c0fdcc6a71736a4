"""Item slots: how they are stored, and how they are served. Pure.

Stored is a map from slot number to what the slot holds, without the empty ones and without
defaults. Served is a list of full slot records in slot order, the empty ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.keys import NIL

Slots = Mapping[str, Mapping[str, Any]]

NO_BUFFS = [0, 0, 0, 0, 0]


def served_slot(number: int, held: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Slot": number,
        "BagId": held.get("BagId"),
        "ItemId": held["ItemId"],
        "Quantity": held["Quantity"],
        "StatBuffs": held.get("StatBuffs", NO_BUFFS),
    }


EMPTY = {"ItemId": NIL, "Quantity": 0}


def served(slots: Slots, size: int) -> list[dict[str, Any]]:
    """Return all slots in order; one beyond the size, from before it was lowered, is not hidden."""
    end = max(size, 1 + max(map(int, slots), default=-1))
    return [served_slot(number, slots.get(str(number), EMPTY)) for number in range(end)]


def filled(slots: Slots) -> list[dict[str, Any]]:
    """Return the records of the slots that hold something, in order."""
    return [served_slot(number, slots[str(number)]) for number in sorted(map(int, slots))]


def stored(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Turn slot records into what is stored of them."""
    slots = {}
    for record in sorted(records, key=lambda record: int(record["Slot"])):
        if record["Quantity"] == 0:
            continue
        held = {"ItemId": record["ItemId"], "Quantity": record["Quantity"]}
        if record.get("BagId"):
            held["BagId"] = record["BagId"]
        if any(record.get("StatBuffs") or ()):
            held["StatBuffs"] = list(record["StatBuffs"])
        slots[str(record["Slot"])] = held
    return slots
