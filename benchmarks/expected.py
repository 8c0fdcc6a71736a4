"""The expected answers, derived from the stored documents independently of any server."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pymongo

from benchmarks.worlds import GIVEN_ITEM, LONG_SECONDS, World

Document = dict[str, Any]

NOT_SERVED = {"Inventory", "Bank", "Spells", "Variables", "NameKey", "NameTails"}
NOT_SERVED |= {"Version", "ChangedAt"}
TIMES = ("LastOnline", "LastSeen", "CreationDate", "At")
INVENTORY_SIZE = 35
NIL = "00000000-0000-0000-0000-000000000000"


def player(world: World, name: str) -> Document:
    return _record(_stored(world, name))


def players_by_name(world: World) -> Document:
    return _page(world, [("NameKey", 1)])


def players_by_rank(world: World) -> Document:
    return _page(world, [("Level", -1), ("Exp", -1), ("NameKey", 1)])


def players_found(world: World, text: str) -> Document:
    """Return the first page of a search, by scanning all names."""
    return _page(world, [("NameKey", 1)], {"NameKey": {"$regex": re.escape(text.casefold())}})


def online_count(world: World) -> Document:
    return {"onlineCount": world.db["players"].count_documents({"Online": True})}


def inventory(world: World, name: str) -> list[Document]:
    slots = _stored(world, name)["Inventory"]
    empty = {"ItemId": NIL, "Quantity": 0}
    return [
        {"Slot": number, "BagId": None, "StatBuffs": [0] * 5, **slots.get(str(number), empty)}
        for number in range(INVENTORY_SIZE)
    ]


def given(world: World, name: str) -> Document:
    """Return the expected answer to giving one item, before it is given."""
    stored = _stored(world, name)
    bank, held = held_of(stored["Bank"]), held_of(stored["Inventory"]) + 1
    counts = {"total": bank + held, "bank": bank, "inventory": held}
    return {"id": GIVEN_ITEM, "quantity": counts}


def held_of(slots: Document) -> int:
    return sum(held["Quantity"] for held in slots.values() if held["ItemId"] == GIVEN_ITEM)


def with_times(answer: Any) -> Any:
    """Parse the times in an answer, because servers may format them differently."""
    if isinstance(answer, list):
        return [with_times(value) for value in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: _time(value) if name in TIMES else with_times(value) for name, value in answer.items()
    }


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return datetime.fromisoformat(value.replace("Z", "+00:00"))


def _stored(world: World, name: str) -> Document:
    found = world.db["players"].find_one({"NameKey": name.casefold()})
    if found is None:
        raise LookupError(name)
    return found


def _record(stored: Document) -> Document:
    served = {name: value for name, value in stored.items() if name not in NOT_SERVED}
    return {"Id": served.pop("_id"), **served}


def _page(world: World, order: list[tuple[str, int]], where: Document | None = None) -> Document:
    players = world.db["players"]
    with pymongo.timeout(LONG_SECONDS):
        values = [_record(stored) for stored in players.find(where or {}, sort=order, limit=5)]
        total = players.count_documents(where) if where else world.players
    envelope = {"Total": total, "Page": 0, "PageSize": 5, "Count": len(values)}
    return {**envelope, "Values": values}
