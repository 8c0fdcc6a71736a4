"""The way of entries from the journals of documents to the collection history.

A change and its entry are one atomic update: the entry is appended to the Journal of the document
(app/storage/swap.py). From there it moves to history in four steps that may be repeated: read what
a majority holds, insert it under an id of its own, append that id to the log of events
(app/storage/event_log.py), remove the entry from the Journal. Whoever dies in between leaves
entries in both places, and the next one finishes the work. So a Journal holds what has not moved,
and nothing else; an index finds the documents that have any.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from bson.errors import InvalidDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    BulkWriteError,
    DocumentTooLarge,
    OperationFailure,
    PyMongoError,
    WriteError,
)
from pymongo.read_preferences import ReadPreference

from app import metrics
from app.changes import PENDING, Intent, SubjectKind
from app.storage.committed import committed
from app.storage.erasure_records import ErasureRecords
from app.storage.errors import explain, has_only_duplicate_keys, is_forbidden
from app.storage.event_log import EventLog
from app.storage.history_entries import entries_of, is_entry
from app.storage.mentions import QUOTED, document_texts, entry_texts
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import ARRAY, MOMENT, TEXT, object_shape
from app.storage.search_fields import archived
from app.storage.update_from_difference import as_read
from app.types import Document

log = logging.getLogger("quartermaster")

NAME = "history"
HAS_ENTRIES: Document = {"Journal.0": {"$exists": True}}
MOVABLE: Document = {**HAS_ENTRIES, PENDING: {"$exists": False}}
# The index of every collection with journals: by the oldest entry that has not moved.
UNMOVED = index("unmoved", "Journal.At", partialFilterExpression=HAS_ENTRIES)
# The index of named documents with notes of staff, of which there are few.
NOTED = index("noted", "NameKey", "_id", partialFilterExpression={"Notes": {"$exists": True}})


def _where_it_exists(field: str) -> Document:
    return {"partialFilterExpression": {field: {"$exists": True}}}


HISTORY = CollectionPlan(
    NAME,
    object_shape(
        {
            "_id": TEXT,
            "At": MOMENT,
            "Subject": object_shape({"Kind": TEXT, "Id": {}}),
            "Operation": TEXT,
            "Changes": ARRAY,
        }
    ),
    (
        index("time", "Subject.Kind", "At", "_id"),
        index("subject", "Subject.Id", "At", "_id"),
        index("author", "Authors", "At", "_id"),
        index("operation", "Operation", "At", "_id"),
        index("object", "Objects", "At", "_id"),
        index("word", "Words", "At", "_id", **_where_it_exists("Words")),
        index("key", "By.Key", "At", "_id", **_where_it_exists("By.Key")),
        index("undoes", "Undoes", **_where_it_exists("Undoes")),
        index(
            "idempotency_key",
            "IdempotencyKey",
            "Subject.Id",
            **_where_it_exists("IdempotencyKey"),
        ),
        expiry(),
    ),
)
# What a document raises that MongoDB does not store.
UNACCEPTABLE = (BulkWriteError, WriteError, DocumentTooLarge, InvalidDocument, OverflowError)
BATCH = 500
# What is read of a document with entries.
READ = ["Name", "UserId", "Stamp", "Journal"]
# Others are found by the index.
MOST_NOTED = 10_000


class Holder(NamedTuple):
    """A document with entries that have not moved."""

    document: Document
    entries: list[Document]

    def has_only_entries(self) -> bool:
        """Tell whether its Journal holds nothing but entries with a stamp, by which to remove."""
        return all(map(is_entry, self.document["Journal"]))


class MovedEntries:
    """The moved entries that some changes have to know of, read after their documents.

    In this order: an entry that is moving is in one of both.
    """

    def __init__(self, history: Collection[Document], intents: Sequence[Intent]) -> None:
        keys = [intent.key for intent in intents if intent.key is not None]
        undone = [intent.undoes["_id"] for intent in intents if intent.undoes]
        self._by_key: dict[tuple[Any, str], Document] = {}
        self._undoes: dict[str, Document] = {}
        self._stamps: set[tuple[Any, Any]] = set()
        if keys:
            found = history.find({"IdempotencyKey": {"$in": keys}})
            self._by_key = {(e["Subject"]["Id"], e["IdempotencyKey"]): e for e in found}
        if undone:
            undoes = history.find({"Undoes": {"$in": undone}}, ["Undoes"])
            self._undoes = {entry["Undoes"]: entry for entry in undoes}
            moved = history.find({"_id": {"$in": undone}}, ["Subject.Id", "Stamp"])
            self._stamps = {(entry["Subject"]["Id"], entry.get("Stamp")) for entry in moved}

    def find_key(self, subject_id: Any, key: str | None) -> Document | None:
        """Return the entry of a change that came with this Idempotency-Key, if it has moved."""
        return self._by_key.get((subject_id, str(key)))

    def find_undo(self, entry_id: str) -> Document | None:
        """Return the entry of the change that undid another, if it has moved."""
        return self._undoes.get(entry_id)

    def has_moved(self, subject_id: Any, stamp: Any) -> bool:
        """Return whether the entry of a write has moved."""
        return (subject_id, stamp) in self._stamps


class Journals:
    """Moves entries of one database, and finds those that have moved."""

    def __init__(self, db: Database[Document], days: int) -> None:
        self._db = db
        self._kept = timedelta(days=days) if days else None
        # A secondary may lag behind the document that was read, and not have its moved entries yet.
        self._history = db[NAME].with_options(read_preference=ReadPreference.PRIMARY)
        # The threads of a worker add to it, and the mover replaces it.
        self._noted: dict[SubjectKind, set[Any]] = {}
        self._noted_lock = threading.Lock()
        self._may_bypass = True
        self._event_log = EventLog(db)
        self._erasures = ErasureRecords(db)

    def note(self, kind: SubjectKind, id_: Any) -> None:
        """Remember a document that this process has just changed, for move_noted."""
        with self._noted_lock:
            noted = self._noted.setdefault(kind, set())
            if len(noted) < MOST_NOTED:
                noted.add(id_)

    def move_noted(self) -> None:
        """Move the entries of all documents that this process has changed since the last time."""
        with self._noted_lock:
            noted, self._noted = self._noted, {}
        for kind, changed in noted.items():
            ids = list(changed)
            for some in range(0, len(ids), BATCH):
                self.move(kind, ids[some : some + BATCH])

    def move_all(
        self, kind: SubjectKind, until: datetime, advance: Callable[[int], None] = lambda _: None
    ) -> None:
        """Move the entries of all documents of a kind that were made until a time, by whomever."""
        left = {**MOVABLE, "Journal.At": {"$lte": until}}
        collection = self.committed(kind)
        while moved := self._move_found(
            kind, collection.find(left, READ, sort=[("Journal.At", 1)]).limit(BATCH)
        ):
            advance(moved)

    def find_moved(self, intents: Sequence[Intent]) -> MovedEntries:
        """Read what some changes have to know of the entries that have moved."""
        return MovedEntries(self._history, intents)

    def find_undo(self, entry_id: str) -> Document | None:
        """Return the entry of the change that undid another, if it has moved."""
        return self._history.find_one({"Undoes": entry_id})

    def has_moved(self, subject_id: Any, stamp: Any) -> bool:
        """Tell whether the entry of a write has moved."""
        same_write = {"Subject.Id": subject_id, "Stamp": stamp}
        return self._history.find_one(same_write, {"_id": 1}) is not None

    def move(self, kind: SubjectKind, ids: list[Any]) -> int:
        """Move the entries of these documents; return how many of them had any."""
        # Without the hint, MongoDB would try out each time whether the index of journals is better.
        found = self.committed(kind).find({"_id": {"$in": ids}, **MOVABLE}, READ).hint("_id_")
        return self._move_found(kind, found)

    def committed(self, kind: SubjectKind) -> Collection[Document]:
        """Return the documents of a kind as a majority holds them."""
        return committed(self._db[kind.collection])

    def _move_found(self, kind: SubjectKind, found: Iterable[Document]) -> int:
        collection = self._db[kind.collection]
        holders = [Holder(document, entries_of(document)) for document in found]
        try:
            self._move(collection, holders)
        except UNACCEPTABLE as error:
            if isinstance(error, PyMongoError) and explain(error):
                raise  # It is the database that takes nothing at the moment.
            # One entry that history does not take must not keep those of others.
            return sum(self._moves_alone(collection, holder) for holder in holders)
        return len(holders)

    def _moves_alone(self, collection: Collection[Document], holder: Holder) -> bool:
        try:
            self._move(collection, [holder])
        except UNACCEPTABLE:
            log.exception("History does not take the entries of %s.", holder.document["_id"])
            return False
        return True

    def _move(self, collection: Collection[Document], holders: list[Holder]) -> None:
        if not holders:
            return
        entries = [entry for holder in holders for entry in holder.entries]
        metrics.HISTORY_MOVED.labels(collection.name).inc(self._archive(entries))
        # Before the entries leave their Journals: who dies in between leaves it to the next mover.
        self._erasures.meet(_accounts_in(holders), lambda: _texts_in(collection, holders))
        self._remove(collection, [holder for holder in holders if holder.has_only_entries()])
        for holder in holders:
            if not holder.has_only_entries():
                _empty_journal(collection, holder.document)

    def _remove(self, collection: Collection[Document], holders: list[Holder]) -> None:
        """Remove from the Journals what has moved; entries that have come since stay."""
        if not holders:
            return
        ids = [holder.document["_id"] for holder in holders]
        stamps = [entry["Stamp"] for holder in holders for entry in holder.entries]
        # One command: an update for each document would cost more than all else here. The rest of
        # the document is as valid as before, and to check it would double the cost.
        change = {"_id": {"$in": ids}}, {"$pull": {"Journal": {"Stamp": {"$in": stamps}}}}
        try:
            collection.update_many(*change, bypass_document_validation=self._may_bypass)
        except OperationFailure as error:
            if not self._may_bypass or not is_forbidden(error):
                raise
            # An account with the role readWrite alone.
            self._may_bypass = False
            collection.update_many(*change)

    def oldest(self, kind: SubjectKind) -> datetime | None:
        """Return the time of the oldest entry that has not moved."""
        dated = {**HAS_ENTRIES, "Journal.At": {"$type": "date"}}
        found = self._db[kind.collection].find_one(
            dated, {"Journal.At": 1}, sort=[("Journal.At", 1)]
        )
        entries = [entry for entry in (found or {}).get("Journal", []) if isinstance(entry, dict)]
        times = [entry["At"] for entry in entries if isinstance(entry.get("At"), datetime)]
        return min(times, default=None)

    def expiry_of(self, at: datetime) -> Document:
        """Return when something of this time expires, together with its entry; {}: never."""
        return {"ExpiresAt": at + self._kept} if self._kept else {}

    def keeps(self, at: Any, now: datetime) -> bool:
        """Tell whether an entry of this time is still kept; False if it is no time."""
        return isinstance(at, datetime) and (self._kept is None or now - at < self._kept)

    def with_unique_ids(self, entries: list[Document]) -> list[Document]:
        """Return entries of one document under the ids that they have when they have moved.

        Two writes may have made the same version: a game that saves whole documents sets it back.
        """
        ids = [entry["_id"] for entry in entries]
        moved = self._history.find({"_id": {"$in": ids}}, ["Stamp"]) if ids else ()
        owners = {entry["_id"]: entry.get("Stamp") for entry in moved}
        return [
            entry
            if owners.setdefault(entry["_id"], entry["Stamp"]) == entry["Stamp"]
            else {**entry, "_id": f"{entry['_id']}:{entry['Stamp']}"}
            for entry in entries
        ]

    def _archive(self, entries: list[Document]) -> int:
        """Insert entries that are not there yet, and return how many that were."""
        if not entries:
            return 0
        moved = [archived(entry, self._kept) for entry in entries]
        refused = _insert_missing(self._history, moved)
        renamed = self.with_unique_ids(refused)
        others = [entry for entry in renamed if entry not in refused]
        refused_again = _insert_missing(self._history, others)
        # Those that were there before may be missing in the log: who moved them may have died.
        ids = {entry["Stamp"]: entry["_id"] for entry in (*moved, *renamed)}
        newest = max(entry["At"] for entry in moved)
        self._event_log.append(list(ids.values()), self.expiry_of(newest))
        return len(moved) - len(refused) + len(others) - len(refused_again)


def _accounts_in(holders: Iterable[Holder]) -> dict[Any, Any]:
    """Return by id, with a name, whose documents these are, and by whom their entries are."""
    accounts: dict[Any, Any] = {}
    for document, entries in holders:
        accounts[document.get("UserId", document["_id"])] = document.get("Name")
        accounts |= {entry["By"].get("UserId"): entry["By"].get("Name") for entry in entries}
    return accounts


def _texts_in(collection: Collection[Document], holders: Sequence[Holder]) -> Iterator[Any]:
    """Yield what people have written in entries, and in the documents that these are about."""
    for holder in holders:
        for entry in holder.entries:
            yield from entry_texts(entry)
    ids = [holder.document["_id"] for holder in holders]
    for document in committed(collection).find({"_id": {"$in": ids}}, ["Notes", *QUOTED]):
        yield from document_texts(document)


def _insert_missing(history: Collection[Document], entries: list[Document]) -> list[Document]:
    """Insert entries; return those whose id is taken."""
    try:
        if entries:
            history.insert_many(entries, ordered=False)
    except BulkWriteError as error:
        if not has_only_duplicate_keys(error):
            raise
        return [entries[fault["index"]] for fault in error.details["writeErrors"]]
    return []


def _empty_journal(collection: Collection[Document], document: Document) -> None:
    """Empty a Journal with entries from before there was a history, or with a game's own values.

    Unless somebody has changed the document since: then the next move does it.
    """
    unchanged = {"_id": document["_id"], "Stamp": as_read(document, "Stamp")}
    collection.update_one(unchanged, {"$set": {"Journal": []}})
