"""Bags and the item catalogue in MongoDB."""

from __future__ import annotations

from collections.abc import Iterable

from app.catalogue.domain import is_stack_limit
from app.catalogue.store import KnownObjects
from app.core.errors import NotFound
from app.core.services import current
from app.core.types import Document, whole
from app.players.items.domain import (
    BAG_SHAPE,
    LARGEST_BAG,
    Limits,
    bags_in,
    slot_records,
)
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.storage.client import Storage
from app.storage.commands import read_one
from app.storage.schema.plan import CollectionPlan

BAGS = CollectionPlan("bags", BAG_SHAPE)
# The maps of slots by collection. The copy of a deleted player returns if the deletion is undone.
HOLDERS = {
    PLAYERS.name: ("Inventory", "Bank"),
    DELETED_PLAYERS.name: ("Player.Inventory", "Player.Bank"),
    BAGS.name: ("Slots",),
    "guilds": ("Bank",),
}


class Bags:
    def __init__(self, storage: Storage) -> None:
        self._db, self._bags = storage.db, storage.db[BAGS.name]

    def get(self, bag_id: str) -> Document:
        bag = read_one(self._bags, {"_id": bag_id}, ["SlotCount", "Slots"])
        if bag is None:
            raise NotFound("bag", bag_id)
        # A game may have stored any SlotCount, and all slots are served.
        size = max(0, min(whole(bag.get("SlotCount")) or 0, LARGEST_BAG))
        stored = bag.get("Slots")
        slots = slot_records(stored if isinstance(stored, dict) else {}, size)
        return {"Id": bag["_id"], "SlotCount": size, "Slots": slots}

    def carried_by(self, holders: Iterable[Document]) -> list[Document]:
        """Return the bags in the slots of players, then the bags inside those, and so on."""
        found: dict[str, Document] = {}
        while wanted := set().union(*map(bags_in, holders)) - found.keys():
            of_these = {"_id": {"$in": sorted(wanted)}}
            holders = list(self._bags.find(of_these, ["SlotCount", "Slots"]))
            found |= {bag["_id"]: bag for bag in holders}
        return list(found.values())

    def is_filled(self, bag_id: str) -> bool:
        return (
            self._bags.find_one({"_id": bag_id, "Slots": {"$nin": [{}, None]}}, ["_id"]) is not None
        )

    def exists(self, bag_id: str) -> bool:
        return self._bags.find_one({"_id": bag_id}, ["_id"]) is not None

    def is_carried(self, bag_id: str) -> bool:
        """Tell whether a bag is in a slot, or returns with a deleted player.

        In a transaction, which reads all at one moment: a bag that moves could else be missed.
        """
        return any(
            self._db[name].find_one({"$expr": {"$in": [bag_id, _bags(field)]}}, ["_id"])
            for name, fields in HOLDERS.items()
            for field in fields
        )

    def write(self, bag_id: str) -> None:
        """Write a bag that is given back: of two transactions with one bag, only one commits."""
        self._bags.update_one({"_id": bag_id}, {"$inc": {"Version": 1}})


def _bags(field: str) -> Document:
    """Return the expression for the bags in a map of slots; a game may have stored no map."""
    is_map = {"$eq": [{"$type": f"${field}"}, "object"]}
    slots = {"$objectToArray": {"$cond": [is_map, f"${field}", {}]}}
    return {"$map": {"input": slots, "in": "$$this.v.BagId"}}


def bags_in_slots(field: str) -> list[Document]:
    """Return the stages that find the id of each bag in the slots of a collection."""
    return [
        {"$project": {"Bags": _bags(field)}},
        {"$unwind": "$Bags"},
        {"$match": {"Bags": {"$type": "string"}}},
        {"$group": {"_id": "$Bags"}},
    ]


class Catalogue:
    """The limits of items: the catalogue may lower the stack limit of the settings."""

    def __init__(self, known: KnownObjects, limits: Limits) -> None:
        self._known = known
        self._limits = limits

    def limits(self, item: str) -> Limits:
        """Return the limits of an item, which may be some seconds old."""
        found = self._known.find("item", item) or {}
        limit = found.get("StackLimit")
        # The game owns the collection. Many languages store every number as a double: 20.0 is 20.
        if limit is None or not is_stack_limit(limit):
            return self._limits
        return self._limits._replace(stack=min(self._limits.stack, int(limit)))


bags = current(Bags)


catalogue = current(Catalogue)
