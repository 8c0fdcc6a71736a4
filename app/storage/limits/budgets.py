"""How many items a key has moved today, exact across all workers and machines.

What a change is about to move is reserved before it is made, and given back where it was not made.
A worker that dies in between leaves its reservation: the key may then move less, never more.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import NamedTuple

from pymongo.errors import DuplicateKeyError, PyMongoError

from app.storage.client import Storage
from app.storage.committed import majority_holds
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import COUNT, MOMENT, TEXT, object_shape

log = logging.getLogger("quartermaster")

BUDGETS = CollectionPlan(
    "budgets", object_shape({"_id": TEXT, "Used": COUNT, "ExpiresAt": MOMENT}), (expiry(),)
)
# A day that is over is kept for one more, so that the TTL monitor never deletes one that counts.
KEPT = timedelta(days=2)


class Reservation(NamedTuple):
    """Items that a key is about to move on a day."""

    id: str
    items: int


class Budgets:
    """Counts the items that keys move each day, in UTC."""

    def __init__(self, storage: Storage) -> None:
        self._budgets = storage.db[BUDGETS.name]
        self._clock = storage.clock

    def reserve(self, key_id: str, count: int, limit: int) -> Reservation | None:
        """Reserve so many items of today's limit; None if fewer are left."""
        now = self._clock.now()
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        id_ = f"{key_id} {day:%Y-%m-%d}"
        while count <= limit:
            has_room = {"_id": id_, "Used": {"$lte": limit - count}}
            used = {"$inc": {"Used": count}, "$setOnInsert": {"ExpiresAt": day + KEPT}}
            try:
                self._budgets.update_one(has_room, used, upsert=True)
                return Reservation(id_, count)
            except DuplicateKeyError:
                # Too much is used, or somebody else has just inserted the first of the day.
                if majority_holds(self._budgets, {"_id": id_, "Used": {"$gt": limit - count}}):
                    return None
        return None

    def give_back(self, reservation: Reservation) -> None:
        """Return what was not moved; where that fails, the key may move less today."""
        less = {"$inc": {"Used": -reservation.items}}
        try:
            self._budgets.update_one(
                {"_id": reservation.id, "Used": {"$gte": reservation.items}}, less
            )
        except PyMongoError as error:
            log.warning("A reservation of a key's budget was not given back: %s", error)

    def used_today(self, key_ids: list[str]) -> dict[str, int]:
        """Return by key how many items it has moved today."""
        day = f"{self._clock.now():%Y-%m-%d}"
        found = self._budgets.find({"_id": {"$in": [f"{id_} {day}" for id_ in key_ids]}})
        used = {entry["_id"].partition(" ")[0]: int(entry["Used"]) for entry in found}
        return {id_: used.get(id_, 0) for id_ in key_ids}
