"""What the hand-written peers share: where the data is, and what of it is served."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from typing import Any

import orjson

Document = dict[str, Any]

URI = os.environ["QM_MONGODB_URI"]
DATABASE = os.environ["QM_MONGODB_DATABASE"]
SECRET = os.environ["QM_SECRET_KEY"]
# As durable as the service itself: a write is answered when a majority has it.
CLIENT = {"w": "majority", "serverSelectionTimeoutMS": 3000, "maxPoolSize": 32}

ONLINE_TTL = timedelta(seconds=300)
PAGE_SIZE = 5
SLOTS = 35
STACK_LIMIT = 1_000_000
NIL = "00000000-0000-0000-0000-000000000000"
NO_BUFFS = [0, 0, 0, 0, 0]
# Times come out of the driver naive, which is cheapest, and are served as what they are: UTC.
OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z

NOT_SERVED = {
    **{"Inventory": 0, "Bank": 0, "Spells": 0, "Variables": 0},
    **{"NameKey": 0, "NameTails": 0, "Version": 0, "ChangedAt": 0},
}


def encode(value: Any) -> bytes:
    return orjson.dumps(value, option=OPTIONS)


def utc_now() -> datetime:
    return datetime.now(timezone.utc).replace(tzinfo=None)


def record(stored: Document, now: datetime) -> Document:
    """Return a player as it is served; Online counts only while it is fresh."""
    if stored["Online"] and stored["LastSeen"] < now - ONLINE_TTL:
        stored["Online"] = False
    return {"Id": stored.pop("_id"), **stored}


def page(
    stored: list[Document], total: int, now: datetime, number: int = 0, size: int = PAGE_SIZE
) -> Document:
    values = [record(player, now) for player in stored]
    envelope = {"Total": total, "Page": number, "PageSize": size, "Count": len(values)}
    return {**envelope, "Values": values}


EMPTY_SLOTS = [
    {"Slot": number, "BagId": None, "ItemId": NIL, "Quantity": 0, "StatBuffs": NO_BUFFS}
    for number in range(SLOTS)
]


def inventory(slots: Document) -> list[Document]:
    served = EMPTY_SLOTS.copy()
    for number, held in slots.items():
        slot = int(number)
        served[slot] = {
            "Slot": slot,
            "BagId": held.get("BagId"),
            "ItemId": held["ItemId"],
            "Quantity": held["Quantity"],
            "StatBuffs": held.get("StatBuffs", NO_BUFFS),
        }
    return served


def given(player: Document, item: str) -> Document:
    """Return the answer to a give: what the player has of the item now."""
    bank, held = count(player["Bank"], item), count(player["Inventory"], item)
    return {"id": item, "quantity": {"total": bank + held, "bank": bank, "inventory": held}}


def count(slots: Document, item: str) -> int:
    return sum(held["Quantity"] for held in slots.values() if held["ItemId"] == item)
