"""Counts over a period of history, for reports. Each query uses an index and has a time limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import pymongo
from pymongo.errors import PyMongoError

from app.errors import Invalid
from app.storage.client import Storage
from app.storage.journal import HISTORY
from app.types import Document

SECONDS = 5.0
TOO_MUCH = "Counting this takes too long. Choose a shorter period."


class Period(NamedTuple):
    """Whole days in a time zone, as the moments of its beginning and end."""

    begin: datetime
    end: datetime
    zone: str

    def within(self, field: str) -> Document:
        return {field: {"$gte": self.begin, "$lt": self.end}}

    def day_of(self, field: str) -> Document:
        """Return the expression for the day of a field, such as 2026-11-18."""
        zone = {} if self.zone == "UTC" else {"timezone": self.zone}
        return {"$dateToString": {"format": "%Y-%m-%d", "date": f"${field}", **zone}}


class Reports:
    def __init__(self, storage: Storage) -> None:
        self._history = storage.db[HISTORY.name]
        self._players = storage.db["players"]

    def new_players(self, period: Period) -> dict[str, int]:
        """Return by day how many of today's players were created."""
        return self._by_day(self._players, period, "CreationDate", {}, "created")

    def changes(self, period: Period, kinds: Sequence[str]) -> dict[str, int]:
        of_kinds = {"Subject.Kind": {"$in": list(kinds)}}
        return self._by_day(self._history, period, "At", of_kinds, "time")

    def operations(self, period: Period, name: str) -> dict[str, int]:
        return self._by_day(self._history, period, "At", {"Operation": name}, "operation")

    def moved(
        self, period: Period, kinds: Sequence[str], moves: Mapping[str, str]
    ) -> list[Document]:
        """Return how many changes there were by person, key and item, and items in them.

        moves contains the operations whose items are summed, by the name of the sum.
        """
        where = {"Subject.Kind": {"$in": list(kinds)}, **period.within("At")}
        names = {"User": "$By.UserId", "Key": "$By.Key", "Item": "$Arguments.ItemId"}
        sums = {
            name: {
                "$sum": {"$cond": [{"$eq": ["$Operation", operation]}, "$Arguments.Quantity", 0]}
            }
            for name, operation in moves.items()
        }
        group = {"_id": names, "Name": {"$last": "$By.Name"}, "Changes": {"$sum": 1}, **sums}
        with _bounded():
            return list(
                self._history.aggregate([{"$match": where}, {"$group": group}], hint="time")
            )

    def _by_day(
        self, collection: Any, period: Period, field: str, where: Document, hint: str
    ) -> dict[str, int]:
        group = {"$group": {"_id": period.day_of(field), "Count": {"$sum": 1}}}
        stages = [{"$match": {**where, **period.within(field)}}, group]
        with _bounded():
            return {day["_id"]: day["Count"] for day in collection.aggregate(stages, hint=hint)}


@contextmanager
def _bounded() -> Iterator[None]:
    """Run a query for at most some seconds; pymongo sets maxTimeMS, so the server stops, too."""
    try:
        with pymongo.timeout(SECONDS):
            yield
    except PyMongoError as error:
        if not error.timeout:
            raise
        raise Invalid(TOO_MUCH) from None
