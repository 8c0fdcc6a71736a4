"""The log of history entries in the order of their arrival, for tools that poll it.

The log is a sequence of numbered documents, each with the ids of some entries. A reader that
remembers a number misses nothing, whatever the clocks, because a document never appears before one
that a reader has already seen: who appends one knows that a majority has the one before.

One worker at a time, by a lease, reads what is inserted into history from a change stream, and
appends it together with the stream's resume token, so whoever takes over continues behind the last
document. Two workers that both believe to have the lease do no harm: numbers are unique, and so are
the entries of all documents. If the stream cannot be resumed, because the oplog is too short or
history was restored, the worker looks for what the log lacks, and begins a new stream.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any, NamedTuple

import pymongo
from bson import ObjectId
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError, OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference

from app.core.changes import KINDS
from app.core.errors import InvalidCursor
from app.core.types import Document
from app.storage.background import Background
from app.storage.client import LONG_WORK_SECONDS, Storage
from app.storage.errors import explain
from app.storage.history import HISTORY
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import ARRAY, COUNT, MOMENT, STAMP, TEXT, object_shape

log = logging.getLogger("quartermaster")

EVENTS = CollectionPlan(
    "events",
    object_shape({"_id": COUNT, "Entries": ARRAY, "Stamp": STAMP}),
    (index("entries", "Entries", unique=True), expiry()),
)
LOCKS = CollectionPlan("locks", object_shape({"_id": TEXT, "By": TEXT, "Until": MOMENT}))
# The maximum number of entries in one document, and so of those that a reader skips.
MOST_ENTRIES = 500
PAUSE_SECONDS = 0.01
# How many documents a reader fetches at once: on a busy day, each is full.
READ_AT_ONCE = 8

LEASE = {"_id": "events"}
LEASE_TIME = timedelta(seconds=3)
# How often the leader renews its lease, and the others try to take it.
RENEW_SECONDS = 1.0
# For so long, entries are collected: a document for each would cost several times as much.
COLLECT_SECONDS = 0.05
# How often a quiet stream is read.
QUIET_SECONDS = 0.2
# An entry may be older than the log's last one by the length of a transaction, or by what a game
# has done to the clock of a document.
LOOK_BACK = timedelta(days=2)
# Dates near the ends of what Python can represent were written by a game.
EARLIEST = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATEST = datetime(9000, 1, 1, tzinfo=timezone.utc)
INSERTS: list[Document] = [
    {"$match": {"operationType": "insert"}},
    {"$project": {"documentKey": 1}},
]


class Position(NamedTuple):
    """The position of a reader: the last entry it has read; the stamp identifies the log."""

    number: int
    offset: int
    stamp: ObjectId | None


BEGINNING = Position(0, 0, None)
# Stands in for the last document of an empty log.
EMPTY: Document = {"_id": 0, "Entries": [], "Stamp": None}


def entries_after(db: Database[Document], position: Position) -> Iterator[tuple[str, Position]]:
    """Yield the ids of entries after a position, each with the position after it.

    Only in a transaction is it known that a majority holds them, or that a position is lost.
    """
    events = db[EVENTS.name]
    at_position = {"_id": position.number, "Stamp": position.stamp}
    if position.number and events.find_one(at_position, ["_id"]) is None:
        raise InvalidCursor(
            "Is older than what is kept, or from before a backup was restored: begin anew."
        )
    found = events.find({"_id": {"$gte": position.number}}, sort=[("_id", 1)])
    for event in found.batch_size(READ_AT_ONCE):
        for offset, entry_id in enumerate(event["Entries"], start=1):
            if (event["_id"], offset) > (position.number, position.offset):
                yield entry_id, Position(event["_id"], offset, event["Stamp"])


def _majority_reads(collection: Collection[Document]) -> Collection[Document]:
    """Return a collection that only reads what a majority holds."""
    return collection.with_options(
        read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority")
    )


def append(db: Database[Document], entry_ids: Sequence[str], number: int, **fields: Any) -> int:
    """Append entries behind a number, unless the log has them; return the last number."""
    while entry_ids:
        event = {"_id": number + 1, "Entries": entry_ids, "Stamp": ObjectId(), **fields}
        try:
            db[EVENTS.name].insert_one(event)
            return number + 1
        except DuplicateKeyError:
            # Another worker has taken this number, or logged some of the entries. A majority
            # will soon hold what it has inserted, or this primary will step down.
            time.sleep(PAUSE_SECONDS)
            entry_ids, number = missing(db, entry_ids), last_event(db)["_id"]
    return number


def missing(db: Database[Document], entry_ids: Sequence[str]) -> Sequence[str]:
    """Return the entries that are not in the log, as a majority holds it."""
    known: set[str] = set()
    for event in _majority_reads(db[EVENTS.name]).find(
        {"Entries": {"$in": entry_ids}}, ["Entries"]
    ):
        known.update(event["Entries"])
    return [id_ for id_ in entry_ids if id_ not in known]


def last_event(db: Database[Document]) -> Document:
    """Return the last document of the log, as a majority holds it."""
    return _majority_reads(db[EVENTS.name]).find_one({}, sort=[("_id", -1)]) or EMPTY


def catch_up(
    db: Database[Document],
    expiry: Document,
    oldest: datetime = LATEST,
    renew: Callable[[], object] = lambda: None,
) -> None:
    """Append the entries that the log lacks, and let the stream begin after them.

    The oldest is the time of an entry that was added to history late.
    """
    # mongomock has no such time.
    start = db.command("ping").get("operationTime")
    now, last = start.as_datetime() if start else datetime.now(timezone.utc), last_event(db)
    logged = last["Stamp"].generation_time if last["Stamp"] else now
    since = max(EARLIEST, min(oldest, logged, now)) - LOOK_BACK
    stages: list[Document] = [
        {"$match": {"Subject.Kind": {"$in": KINDS}, "At": {"$gte": since}}},
        {"$sort": {"At": 1, "Version": 1, "_id": 1}},
        {"$project": {"_id": 1}},
    ]
    number = last["_id"]
    with pymongo.timeout(LONG_WORK_SECONDS):
        if start is None:
            found: Iterator[Document] = iter(db[HISTORY.name].aggregate(stages))
        else:
            # All entries of one moment: the stream has the others, and keeps their order.
            found = db.cursor_command(
                "aggregate",
                HISTORY.name,
                pipeline=stages,
                allowDiskUse=True,
                cursor={},
                readConcern={"level": "snapshot", "atClusterTime": start},
            )
        while some := [entry["_id"] for entry in islice(found, MOST_ENTRIES)]:
            number = append(db, missing(db, some), number, **expiry)
            renew()
    begin = {"start_at_operation_time": start} if start else None
    position = {"Number": number, "Start": begin}
    nobody = {"By": "", "Until": EARLIEST}
    update = {"$set": position, "$setOnInsert": nobody}
    db[LOCKS.name].update_one(LEASE, update, upsert=True)


class Feed(Background):
    """The thread of a worker that appends new entries to the log while it has the lease."""

    failure = "The events cannot be continued"
    pause = RENEW_SECONDS

    def __init__(self, storage: Storage, is_ready: Callable[[], bool] = lambda: True) -> None:
        super().__init__(is_ready)
        self._storage = storage
        self._history = _majority_reads(storage.db[HISTORY.name])
        self._locks = storage.db[LOCKS.name]
        self._name = str(ObjectId())

    def step(self) -> None:
        """Append new entries for as long as this worker has the lease."""
        if not self._renew():
            return
        last, lease = (
            last_event(self._storage.db),
            _majority_reads(self._locks).find_one(LEASE) or {},
        )
        # Documents of earlier releases, and those of catch_up, have no token.
        start = {"resume_after": last["Token"]} if "Token" in last else None
        if lease.get("Number") == last["_id"]:
            start = lease["Start"]
        # mongomock has no change streams, and so no start.
        is_followed = start and self._follow(last["_id"], start)
        # A restore drops history.
        if not is_followed and self.is_ready():
            self.catch_up()

    def _renew(self, **position: Any) -> bool:
        """Take the lease or keep it, with a position in the stream; return whether one has it."""
        now = self._storage.clock.now()
        free = {**LEASE, "$or": [{"Until": {"$lt": now}}, {"By": self._name}]}
        mine = {"By": self._name, "Until": now + LEASE_TIME, **position}
        try:
            self._locks.update_one(free, {"$set": mine}, upsert=True)
        except DuplicateKeyError:
            return False
        return True

    def _follow(self, number: int, start: Document) -> bool:
        """Append what the stream brings; return False if it cannot be resumed."""
        # It never waits for changes: a waiting cursor returns each of them alone.
        options = {**start, "max_await_time_ms": 1, "batch_size": MOST_ENTRIES}
        renewed, pause = time.monotonic(), COLLECT_SECONDS
        try:
            with self._history.watch(INSERTS, **options) as stream:
                while stream.alive and self.is_ready() and not self.ended.wait(pause):
                    new: list[str] = []
                    while len(new) < MOST_ENTRIES and (change := stream.try_next()):
                        new.append(change["documentKey"]["_id"])
                    token = stream.resume_token
                    if new:
                        number = append(
                            self._storage.db, new, number, **self._expiry(), Token=token
                        )
                    pause = COLLECT_SECONDS if new else QUIET_SECONDS
                    if time.monotonic() > renewed + RENEW_SECONDS:
                        # Other writes fill the oplog: the token of a last entry becomes too old.
                        if not self._renew(Number=number, Start={"resume_after": token}):
                            return True
                        renewed = time.monotonic()
                # It ends when history is dropped.
                return bool(stream.alive)
        except OperationFailure as error:
            if explain(error):
                raise
            log.warning("The events begin a new stream, and look for missing entries: %s", error)
            return False

    def catch_up(self) -> None:
        """Append the entries that the log lacks, and let the stream begin after them."""
        catch_up(self._storage.db, self._expiry(), renew=self._renew)

    def _expiry(self) -> Document:
        return self._storage.entries.expiry_of(self._storage.clock.now())
