"""The log of history entries in the order of their arrival, for tools that poll it.

The log is a sequence of numbered documents, each with the ids of some entries. A process that moves
entries appends a document with the next number. If another process has taken that number, it tries
the next one. So a document never appears before one that a reader has already seen. A reader that
remembers a number misses nothing, whatever the clocks. A unique index on the ids keeps entries from
being logged twice, and an entry leaves its Journal only after it is in the log.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bson import ObjectId
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import Busy
from app.storage.committed import committed, majority_holds
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import ARRAY, COUNT, STAMP, object_shape
from app.types import Document

EVENTS = CollectionPlan(
    "events",
    object_shape({"_id": COUNT, "Entries": ARRAY, "Stamp": STAMP}),
    (index("entries", "Entries", unique=True), expiry()),
)
# The maximum number of entries in one document, and so of those that a reader skips.
MOST_ENTRIES = 500
ATTEMPTS = 100
LONGEST_PAUSE = 0.02
# How many documents a reader fetches at once: on a busy day, each is full.
READ_AT_ONCE = 8


class Place(NamedTuple):
    """The position of a reader: the last entry it has read; the stamp identifies the log."""

    number: int
    offset: int
    stamp: ObjectId | None


BEGINNING = Place(0, 0, None)


class PlaceLost(Exception):
    """The log no longer contains the position of a reader: it expired, or a backup was restored."""


class EventLog:
    """The log of one database."""

    def __init__(self, db: Database[Document]) -> None:
        self._events = db[EVENTS.name]
        self._committed = committed(self._events)

    def append(self, entry_ids: Sequence[str], expires: Document) -> None:
        """Append the ids of entries that are not in the log yet."""
        for some in range(0, len(entry_ids), MOST_ENTRIES):
            self._append(entry_ids[some : some + MOST_ENTRIES], expires)

    def _append(self, entry_ids: Sequence[str], expires: Document) -> None:
        for _ in range(ATTEMPTS):
            # Only committed numbers: a rollback would leave a gap that is filled later.
            last = self._committed.find_one({}, ["_id"], sort=[("_id", -1)])
            number = last["_id"] + 1 if last else 1
            event = {"_id": number, "Entries": entry_ids, "Stamp": ObjectId(), **expires}
            try:
                self._events.insert_one(event)
            except DuplicateKeyError:
                # Another process has taken this number, or logged some of the entries.
                entry_ids = self.missing(entry_ids)
            else:
                return
            if not entry_ids:
                return
            # A majority will soon hold what another process has just inserted.
            time.sleep(random.uniform(0, LONGEST_PAUSE))  # nosec B311 # noqa: S311 (no secret)
        raise Busy("log of events")

    def missing(self, entry_ids: Sequence[str]) -> Sequence[str]:
        """Return the entries that are not in the log, as a majority holds it."""
        known: set[str] = set()
        for event in self._committed.find({"Entries": {"$in": entry_ids}}, ["Entries"]):
            known.update(event["Entries"])
        return [id_ for id_ in entry_ids if id_ not in known]

    def first(self) -> Sequence[str]:
        """Return the ids of the entries in the first document of the log."""
        found = self._committed.find_one({}, ["Entries"], sort=[("_id", 1)])
        return list(found["Entries"]) if found else []

    def end(self) -> Place:
        """Return the position after the last entry."""
        last = self._committed.find_one({}, sort=[("_id", -1)])
        return Place(last["_id"], len(last["Entries"]), last["Stamp"]) if last else BEGINNING

    def after(self, place: Place) -> Iterator[tuple[str, Place]]:
        """Yield the ids of entries after a position, each with the position after it."""
        events = self._from(place.number)
        if place.number and not _begins_with(events, place):
            # A primary that is cut off may not know it yet; then this write fails, and the reader
            # can retry.
            if not majority_holds(self._events, {"_id": place.number, "Stamp": place.stamp}):
                raise PlaceLost
            events = self._from(place.number)
        skip = place.offset
        while events:
            for event in events:
                for offset, entry_id in enumerate(event["Entries"][skip:], start=skip + 1):
                    yield entry_id, Place(event["_id"], offset, event["Stamp"])
                skip = 0
            events = self._from(events[-1]["_id"] + 1)

    def _from(self, number: int) -> Sequence[Document]:
        """Return some documents, starting with a number."""
        found = self._committed.find({"_id": {"$gte": number}}, sort=[("_id", 1)])
        return list(found.limit(READ_AT_ONCE))


def _begins_with(events: Sequence[Document], place: Place) -> bool:
    return bool(events and events[0]["Stamp"] == place.stamp)
