"""Counts over a period of history, for reports. Each query uses an index and has a time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pymongo
from pymongo.errors import PyMongoError

from app.core.errors import Invalid
from app.core.types import Document
from app.storage.client import storage

SECONDS = 5.0
# A page of which this is a part does not wait longer.
AUTHORS_SECONDS = 2.0
TOO_MUCH = "Counting {what} takes too long in this period. Choose a shorter one."


class Period(NamedTuple):
    # Whole days in the zone.
    begin: datetime
    end: datetime
    zone: str


def new_players(period: Period) -> dict[str, int]:
    """Return by day how many of today's players were created."""
    return _by_day("players", period, "CreationDate", {}, "created")


def changes(period: Period, kinds: Sequence[str]) -> dict[str, int]:
    of_kinds = {"Subject.Kind": {"$in": list(kinds)}}
    return _by_day("history", period, "At", of_kinds, "time")


def operations(period: Period, name: str) -> dict[str, int]:
    return _by_day("history", period, "At", {"Operation": name}, "operation")


def sum_moves(
    period: Period, kinds: Sequence[str], moves: Mapping[str, Sequence[str]]
) -> list[Document]:
    """Return how many changes there were by person, key and item, and items in them.

    moves contains the operations whose items are summed, by the name of the sum.
    """
    where = {"Subject.Kind": {"$in": list(kinds)}, **_within(period, "At")}
    names = {"User": "$By.UserId", "Key": "$By.Key", "Item": "$Arguments.ItemId"}
    group = {"_id": names, "Name": {"$last": "$By.Name"}, **_sums(moves)}
    what = "changes by person, key and item"
    return _count("history", [{"$match": where}, {"$group": group}], "time", what)


def by_author(
    user_ids: Sequence[str], since: datetime, moves: Mapping[str, Sequence[str]]
) -> dict[str, Document]:
    """Return the same by account."""
    where = {"Authors": {"$in": user_ids}, "At": {"$gte": since}}
    stages = [{"$match": where}, {"$group": {"_id": "$By.UserId", **_sums(moves)}}]
    found = _count("history", stages, "author", "changes by person", AUTHORS_SECONDS)
    return {group["_id"]: group for group in found}


def _sums(moves: Mapping[str, Sequence[str]]) -> Document:
    sums = {
        name: {"$sum": {"$cond": [{"$in": ["$Operation", those]}, "$Arguments.Quantity", 0]}}
        for name, those in moves.items()
    }
    return {"Changes": {"$sum": 1}, **sums}


def _by_day(
    collection: str, period: Period, field: str, where: Document, hint: str
) -> dict[str, int]:
    """Return the number of documents by day, such as 2026-11-18."""
    zone = {} if period.zone == "UTC" else {"timezone": period.zone}
    day = {"$dateToString": {"format": "%Y-%m-%d", "date": f"${field}", **zone}}
    group = {"$group": {"_id": day, "Count": {"$sum": 1}}}
    stages = [{"$match": {**where, **_within(period, field)}}, group]
    return {one["_id"]: one["Count"] for one in _count(collection, stages, hint, collection)}


def _count(
    collection: str, stages: list[Document], hint: str, what: str, seconds: float = SECONDS
) -> list[Any]:
    """Run a query for some seconds; pymongo sets maxTimeMS, so the server stops, too."""
    try:
        with pymongo.timeout(seconds):
            return list(storage.db[collection].aggregate(stages, hint=hint))
    except PyMongoError as error:
        if not error.timeout:
            raise
        raise Invalid(TOO_MUCH.format(what=what)) from None


def _within(period: Period, field: str) -> Document:
    return {field: {"$gte": period.begin, "$lt": period.end}}
