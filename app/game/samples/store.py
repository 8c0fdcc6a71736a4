"""Samples in MongoDB: one document for each interval, to which every worker adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from app.core.services import current
from app.core.types import Document
from app.game.samples.domain import Traffic, increments
from app.storage.client import Storage
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import MOMENT, object_shape

SAMPLES = CollectionPlan("samples", object_shape({"_id": MOMENT, "ExpiresAt": MOMENT}), (expiry(),))
KEPT = timedelta(days=8)
DAY, AGES = timedelta(days=1), timedelta(days=36_500)
Count = Callable[[], Mapping[Any, int]]


class Samples:
    def __init__(self, storage: Storage) -> None:
        self._samples = storage.db[SAMPLES.name]
        self.now = storage.clock.now
        self._expiry_of = storage.entries.expiry_of

    def add(self, interval: datetime, online: int, traffic: Traffic) -> None:
        """Add to the sample of an interval; other workers add to the same sample."""
        update = {
            # All workers count the same players, at slightly different times.
            "$max": {"Online": online},
            "$inc": increments(traffic),
            "$setOnInsert": {"ExpiresAt": interval + KEPT},
        }
        self._samples.update_one({"_id": interval}, update, upsert=True)

    def complete(self, interval: datetime, field: str, count: Count) -> None:
        """Add counts that one worker makes for all, unless another worker was faster."""
        lacks = {"_id": interval, field: {"$exists": False}}
        if self._samples.find_one(lacks, ["_id"]) is not None:
            counts = {str(name): number for name, number in count().items()}
            self._samples.update_one(lacks, {"$set": {field: counts}})

    def note_active(self, hour: datetime, count: Callable[[datetime], int]) -> None:
        """Add how many players were active in the 24 hours before; kept as long as history."""
        known = {"_id": hour, "Active": {"$exists": True}}
        if self._samples.find_one(known, ["_id"]) is None:
            fields = {
                "Active": count(hour - DAY),
                "ExpiresAt": hour + AGES,
                **self._expiry_of(hour),
            }
            self._samples.update_one({"_id": hour}, {"$set": fields}, upsert=True)

    def active(self, begin: datetime, end: datetime) -> dict[datetime, int]:
        """Return how many players were active in the 24 hours before each full hour."""
        within = {"_id": {"$gte": begin, "$lte": end}, "Active": {"$exists": True}}
        return {found["_id"]: found["Active"] for found in self._samples.find(within, ["Active"])}

    def since(self, begin: datetime) -> Sequence[Document]:
        """Return all samples since a time, the oldest first."""
        # The count of active players is there before the first sample of its hour.
        taken = {"_id": {"$gte": begin}, "Online": {"$exists": True}}
        return list(self._samples.find(taken, {"Levels": 0}, sort=[("_id", 1)]))

    def levels(self) -> dict[int, int]:
        """Return how many players have each level, from the latest count."""
        found = self._samples.find_one(
            {"Levels": {"$exists": True}}, ["Levels"], sort=[("_id", -1)]
        )
        counts = found["Levels"] if found else {}
        return {int(level): count for level, count in counts.items()}


samples = current(Samples)
