"""A give as one find_one_and_update, for the peers that want to be as fast as can be.

The players that the bench gives to hold a plain stack of the item in their first slot. So the
first try adds to that stack by the cheapest update that there is, whose filter sees to it that the
slot holds what it should. For every other player this finds nothing, and the second try, a
pipeline that MongoDB evaluates on the document, applies the whole rule: the first plain stack
with room, else the first empty slot. In the bench the second try never happens; it is there so
that what is measured is a give, and not a counter.

The version counts up, as the service asks of all who write beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers.shared import NO_BUFFS, SLOTS, STACK_LIMIT, Document

RETURNED = {"Inventory": 1, "Bank": 1}
Try = Callable[[str, str, int], tuple[Document, Any]]
SLOT_NUMBERS = [str(number) for number in range(SLOTS)]


def into_first_slot(name_key: str, item: str, quantity: int) -> tuple[Document, Document]:
    """Return the filter and the update that add to a plain stack in the first slot."""
    where = {
        "NameKey": name_key,
        "Inventory.0.ItemId": item,
        "Inventory.0.Quantity": {"$lte": STACK_LIMIT - quantity},
        "Inventory.0.BagId": None,
        "Inventory.0.StatBuffs": None,
    }
    return where, {"$inc": {"Inventory.0.Quantity": quantity, "Version": 1}}


def anywhere(name_key: str, item: str, quantity: int) -> tuple[Document, list[Document]]:
    """Return the filter and the pipeline of the whole rule; without room nothing is found."""
    slot = {"$ifNull": [_lowest(_with_room(item, quantity)), _first_empty()]}
    held = {"$ifNull": [{"$first": _slots_where([{"$eq": ["$$this.k", "$$slot"]}])}, {"v": {}}]}
    grown = {
        "ItemId": item,
        "Quantity": {"$add": [{"$ifNull": ["$$held.v.Quantity", 0]}, quantity]},
    }
    filled = {"$arrayToObject": [[{"k": "$$slot", "v": {"$mergeObjects": ["$$held.v", grown]}}]]}
    placed = {"$mergeObjects": ["$Inventory", filled]}
    inside = {"$let": {"vars": {"held": held}, "in": placed}}
    where = {"NameKey": name_key, "$expr": {"$ne": [slot, None]}}
    fields = {
        "Inventory": {"$let": {"vars": {"slot": slot}, "in": inside}},
        "Version": {"$add": ["$Version", 1]},
    }
    return where, [{"$set": fields}]


def _with_room(item: str, quantity: int) -> Document:
    """Return the slots that hold a plain stack of the item with room for so many more."""
    plain = [
        {"$eq": ["$$this.v.ItemId", item]},
        {"$eq": [{"$ifNull": ["$$this.v.BagId", None]}, None]},
        {"$eq": [{"$ifNull": ["$$this.v.StatBuffs", NO_BUFFS]}, NO_BUFFS]},
        {"$lte": ["$$this.v.Quantity", STACK_LIMIT - quantity]},
    ]
    return _slots_where(plain)


def _slots_where(conditions: list[Document]) -> Document:
    slots = {"$objectToArray": "$Inventory"}
    return {"$filter": {"input": slots, "as": "this", "cond": {"$and": conditions}}}


def _lowest(slots: Document) -> Document:
    numbers = {"$map": {"input": slots, "as": "this", "in": {"$toInt": "$$this.k"}}}
    # A minimum of no numbers is null, and stays so as text.
    return {"$toString": {"$min": numbers}}


def _first_empty() -> Document:
    taken = {"$map": {"input": {"$objectToArray": "$Inventory"}, "as": "this", "in": "$$this.k"}}
    empty: dict[str, Any] = {
        "input": SLOT_NUMBERS,
        "as": "number",
        "cond": {"$not": [{"$in": ["$$number", taken]}]},
    }
    return {"$ifNull": [{"$first": {"$filter": empty}}, None]}


# What a peer tries, in this order, until one of them finds the player.
TRIES = (into_first_slot, anywhere)
