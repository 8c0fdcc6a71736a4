"""Bags and the item catalogue in MongoDB."""

from __future__ import annotations

import math
import time
from typing import Any

from app.errors import NotFound
from app.items.domain import BAG_SHAPE, Limits, served
from app.storage.client import Storage
from app.storage.journal import UNMOVED
from app.storage.schema.plan import CollectionPlan
from app.types import Document, whole

BAGS = CollectionPlan("bags", BAG_SHAPE, (UNMOVED,))
CATALOGUE_SECONDS = 60


class Bags:
    """The bags of one application."""

    def __init__(self, storage: Storage) -> None:
        self._bags = storage.db[BAGS.name]

    def get(self, bag_id: str) -> Document:
        """Return a bag with all its slots."""
        bag = self._bags.find_one({"_id": bag_id}, ["SlotCount", "Slots"])
        if bag is None:
            raise NotFound("bag", bag_id)
        stored, size = bag.get("Slots"), whole(bag.get("SlotCount")) or 0
        slots = served(stored if isinstance(stored, dict) else {}, size)
        return {"Id": bag["_id"], "SlotCount": size, "Slots": slots}

    def is_filled(self, bag_id: str) -> bool:
        """Tell whether a bag holds something."""
        return (
            self._bags.find_one({"_id": bag_id, "Slots": {"$nin": [{}, None]}}, ["_id"]) is not None
        )


class Catalogue:
    """The limits of each item. The game may keep lower stack limits in ``items``."""

    def __init__(self, storage: Storage, inventory: int, bank: int, stack: int) -> None:
        self._items = storage.db["items"]
        self._limits = Limits(inventory, bank, stack)
        self._stacks: dict[str, int] = {}
        self._read_at = float("-inf")

    def limits(self, item: str) -> Limits:
        """Return the limits of an item, as they were at most a minute ago."""
        if time.monotonic() - self._read_at > CATALOGUE_SECONDS:
            self._stacks = self._read_stacks()
            self._read_at = time.monotonic()
        stack = min(self._limits.stack, self._stacks.get(item, self._limits.stack))
        return self._limits._replace(stack=stack)

    def _read_stacks(self) -> dict[str, int]:
        found = self._items.find({"StackLimit": {"$exists": True}}, ["StackLimit"])
        limits = {str(item["_id"]).lower(): _whole(item["StackLimit"]) for item in found}
        return {item: limit for item, limit in limits.items() if limit}


def _whole(limit: Any) -> int:
    """Return a stack limit as an int; 0 if it is unusable, because the game owns the collection.

    Many languages store every number as a double: 20.0 is 20, and 20.5 is rounded down.
    """
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    return int(limit) if is_number and 1 <= limit < math.inf else 0
