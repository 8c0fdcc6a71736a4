"""Counts over a period of history, for reports. Each query uses an index and has a time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pymongo
from pymongo.errors import PyMongoError

from app.core.errors import Invalid
from app.core.services import current
from app.core.types import Document
from app.storage.client import Storage

SECONDS = 5.0
TOO_MUCH = "Counting {what} takes too long in this period. Choose a shorter one."


class Period(NamedTuple):
    # Whole days in the zone.
    begin: datetime
    end: datetime
    zone: str


class Reports:
    def __init__(self, storage: Storage) -> None:
        self._db = storage.db

    def new_players(self, period: Period) -> dict[str, int]:
        """Return by day how many of today's players were created."""
        return self._by_day("players", period, "CreationDate", {}, "created")

    def changes(self, period: Period, kinds: Sequence[str]) -> dict[str, int]:
        of_kinds = {"Subject.Kind": {"$in": list(kinds)}}
        return self._by_day("history", period, "At", of_kinds, "time")

    def operations(self, period: Period, name: str) -> dict[str, int]:
        return self._by_day("history", period, "At", {"Operation": name}, "operation")

    def moved(
        self, period: Period, kinds: Sequence[str], moves: Mapping[str, Sequence[str]]
    ) -> list[Document]:
        """Return how many changes there were by person, key and item, and items in them.

        moves contains the operations whose items are summed, by the name of the sum.
        """
        where = {"Subject.Kind": {"$in": list(kinds)}, **_within(period, "At")}
        names = {"User": "$By.UserId", "Key": "$By.Key", "Item": "$Arguments.ItemId"}
        sums = {
            name: {"$sum": {"$cond": [{"$in": ["$Operation", those]}, "$Arguments.Quantity", 0]}}
            for name, those in moves.items()
        }
        group = {"_id": names, "Name": {"$last": "$By.Name"}, "Changes": {"$sum": 1}, **sums}
        what = "changes by person, key and item"
        return self._count("history", [{"$match": where}, {"$group": group}], "time", what)

    def _by_day(
        self, collection: str, period: Period, field: str, where: Document, hint: str
    ) -> dict[str, int]:
        """Return the number of documents by day, such as 2026-11-18."""
        zone = {} if period.zone == "UTC" else {"timezone": period.zone}
        day = {"$dateToString": {"format": "%Y-%m-%d", "date": f"${field}", **zone}}
        group = {"$group": {"_id": day, "Count": {"$sum": 1}}}
        stages = [{"$match": {**where, **_within(period, field)}}, group]
        return {
            one["_id"]: one["Count"] for one in self._count(collection, stages, hint, collection)
        }

    def _count(self, collection: str, stages: list[Document], hint: str, what: str) -> list[Any]:
        """Run a query for some seconds; pymongo sets maxTimeMS, so the server stops, too."""
        try:
            with pymongo.timeout(SECONDS):
                return list(self._db[collection].aggregate(stages, hint=hint))
        except PyMongoError as error:
            if not error.timeout:
                raise
            raise Invalid(TOO_MUCH.format(what=what)) from None


def _within(period: Period, field: str) -> Document:
    return {field: {"$gte": period.begin, "$lt": period.end}}


reports = current(Reports)
