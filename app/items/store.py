"""Bags and the item catalogue in MongoDB."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from app.errors import NotFound
from app.items.domain import BAG_SHAPE, LARGEST_BAG, LARGEST_QUANTITY, Limits, bags_in, served
from app.objects.domain import is_stack_limit
from app.objects.store import OBJECTS
from app.storage.client import Storage
from app.storage.journal import UNMOVED
from app.storage.schema.plan import CollectionPlan
from app.types import Document, whole

BAGS = CollectionPlan("bags", BAG_SHAPE, (UNMOVED,))
CACHED_ITEMS = 10_000


class Bags:
    """The bags of one application."""

    def __init__(self, storage: Storage) -> None:
        self._bags = storage.db[BAGS.name]

    def get(self, bag_id: str) -> Document:
        """Return a bag with all its slots."""
        bag = self._bags.find_one({"_id": bag_id}, ["SlotCount", "Slots"])
        if bag is None:
            raise NotFound("bag", bag_id)
        # A game may have stored any number, and each slot is served.
        size = max(0, min(whole(bag.get("SlotCount")) or 0, LARGEST_BAG))
        stored = bag.get("Slots")
        slots = served(stored if isinstance(stored, dict) else {}, size)
        return {"Id": bag["_id"], "SlotCount": size, "Slots": slots}

    def carried_by(self, holders: Iterable[Document]) -> list[Document]:
        """Return the bags in the slots of players, and those within them after the outer ones."""
        found: dict[str, Document] = {}
        wanted = set().union(*map(bags_in, holders))
        while wanted:
            of_these = {"_id": {"$in": sorted(wanted)}}
            read = list(self._bags.find(of_these, ["SlotCount", "Slots"]))
            found |= {bag["_id"]: bag for bag in read}
            wanted = set().union(*map(bags_in, read)) - found.keys()
        return list(found.values())

    def is_filled(self, bag_id: str) -> bool:
        """Tell whether a bag holds something."""
        return (
            self._bags.find_one({"_id": bag_id, "Slots": {"$nin": [{}, None]}}, ["_id"]) is not None
        )


class Catalogue:
    """The limits of each item: the stack limit is the setting's, or a lower one of the catalogue.

    What was read of an item counts for some seconds, so that a change reaches all workers soon.
    """

    def __init__(self, storage: Storage, limits: Limits, seconds: float) -> None:
        self._objects = storage.db[OBJECTS.name]
        self._limits = limits
        self._seconds = seconds
        # By item: until when it counts, and the stack limit.
        self._stacks: dict[str, tuple[float, int]] = {}

    def limits(self, item: str) -> Limits:
        """Return the limits of an item, as they were at most some seconds ago."""
        now = time.monotonic()
        until, stack = self._stacks.get(item, (0.0, 0))
        if now >= until:
            stack = self._read_stack(item)
            if len(self._stacks) >= CACHED_ITEMS:
                self._stacks.clear()
            self._stacks[item] = (now + self._seconds, stack)
        return self._limits._replace(stack=stack)

    def _read_stack(self, item: str) -> int:
        found = self._objects.find_one({"_id": item, "Type": "item"}, ["StackLimit"])
        return min(self._limits.stack, _whole((found or {}).get("StackLimit")) or LARGEST_QUANTITY)


def _whole(limit: Any) -> int:
    """Return a stack limit as an int; 0 if it is unusable, because the game owns the collection.

    Many languages store every number as a double: 20.0 is 20, and 20.5 is rounded down.
    """
    return int(limit) if limit is not None and is_stack_limit(limit) else 0
