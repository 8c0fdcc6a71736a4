"""Moves entries from the Journals of documents to the history collection.

A change and its entry are one atomic update: the entry is appended to the Journal of the document
(app/storage/swap.py). From there it moves to history in three repeatable steps: read what a
majority holds, insert it under its own id, and remove the entry from the Journal. If a process dies
in between, entries are in both places, and the next mover finishes the work. So a Journal only
contains entries that have not moved. An index finds the documents that have any.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
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
from app.changes import JOURNAL_LENGTH, PENDING, Intent, SubjectKind
from app.storage.committed import committed
from app.storage.erasure_records import ErasureRecords
from app.storage.errors import explain, has_only_duplicate_keys, is_forbidden
from app.storage.history_entries import entries_of
from app.storage.mentions import QUOTED, document_texts, entry_texts
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import ARRAY, MOMENT, TEXT, object_shape
from app.storage.search_fields import history_document
from app.storage.update_from_difference import as_read
from app.types import Document

log = logging.getLogger("quartermaster")

NAME = "history"
HAS_ENTRIES: Document = {"Journal.0": {"$exists": True}}
MOVABLE: Document = {**HAS_ENTRIES, PENDING: {"$exists": False}}
# The index of every collection with Journals, by the oldest unmoved entry.
UNMOVED = index("unmoved", "Journal.At", partialFilterExpression=HAS_ENTRIES)
# The index of named documents with notes of staff, which are few.
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
        index("approver", "ApprovedBy.UserId", **_where_it_exists("ApprovedBy.UserId")),
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
# The errors for a document that MongoDB does not accept.
UNACCEPTABLE = (BulkWriteError, WriteError, DocumentTooLarge, InvalidDocument, OverflowError)
BATCH = 500
# The fields that are read of a document with entries.
READ = ["Name", "UserId", "Stamp", "Journal"]
# The maximum number of remembered documents; the index finds the others.
MOST_NOTED = 10_000
# After so many changes of a document by one worker, its entries move at once: a change of a
# document with a full Journal must move them first.
URGENT = JOURNAL_LENGTH // 4


class Holder(NamedTuple):
    """A document with unmoved entries."""

    document: Document
    entries: list[Document]

    def has_only_entries(self) -> bool:
        """Return whether its Journal contains only entries with a stamp, needed to remove them."""
        return len(self.entries) == len(self.document["Journal"])


class MovedEntries:
    """The moved entries that some changes need, read after their documents.

    In this order, an entry that is moving is found in at least one place.
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
        """Return the moved entry with this Idempotency-Key, or None."""
        return self._by_key.get((subject_id, str(key)))

    def find_undo(self, entry_id: str) -> Document | None:
        """Return the moved entry of the change that undid another, or None."""
        return self._undoes.get(entry_id)

    def has_moved(self, subject_id: Any, stamp: Any) -> bool:
        """Return whether the entry of a write has moved."""
        return (subject_id, stamp) in self._stamps


class Journals:
    """Moves the entries of one database, and finds moved ones."""

    def __init__(self, db: Database[Document], days: int) -> None:
        self._db = db
        self._kept = timedelta(days=days) if days else None
        # A secondary may lag behind the document that was read, and lack its moved entries.
        self._history = db[NAME].with_options(read_preference=ReadPreference.PRIMARY)
        # The threads of a worker add to it, and the mover replaces it.
        self._noted: dict[SubjectKind, Counter[Any]] = {}
        self._noted_lock = threading.Lock()
        # Wakes the mover.
        self.is_urgent = threading.Event()
        self._may_bypass = True
        self._erasures = ErasureRecords(db)

    def note(self, kind: SubjectKind, id_: Any) -> None:
        """Remember a document that this process has just changed, for move_noted."""
        with self._noted_lock:
            noted = self._noted.setdefault(kind, Counter())
            if len(noted) < MOST_NOTED:
                noted[id_] += 1
            if noted[id_] == URGENT:
                self.is_urgent.set()

    def move_noted(self) -> None:
        """Move the entries of all documents that this process has changed since the last call."""
        with self._noted_lock:
            noted, self._noted = self._noted, {}
        for kind, changed in noted.items():
            ids = list(changed)
            for some in range(0, len(ids), BATCH):
                self.move(kind, ids[some : some + BATCH])

    def move_all(
        self, kind: SubjectKind, until: datetime, advance: Callable[[int], None] = lambda _: None
    ) -> None:
        """Move all entries of a kind of document up to a time, whoever wrote them."""
        left = {**MOVABLE, "Journal.At": {"$lte": until}}
        collection = self.committed(kind)
        while moved := self._move_found(
            kind, collection.find(left, READ, sort=[("Journal.At", 1)]).limit(BATCH)
        ):
            advance(moved)

    def find_moved(self, intents: Sequence[Intent]) -> MovedEntries:
        """Read the moved entries that some changes need."""
        return MovedEntries(self._history, intents)

    def find_undo(self, entry_id: str) -> Document | None:
        """Return the moved entry of the change that undid another, or None."""
        return self._history.find_one({"Undoes": entry_id})

    def has_moved(self, subject_id: Any, stamp: Any) -> bool:
        """Return whether the entry of a write has moved."""
        same_write = {"Subject.Id": subject_id, "Stamp": stamp}
        return self._history.find_one(same_write, {"_id": 1}) is not None

    def move(self, kind: SubjectKind, ids: list[Any]) -> int:
        """Move the entries of these documents; return how many documents had any."""
        # Without the hint, MongoDB would each time try out the index of Journals.
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
                raise  # The database accepts no writes at the moment.
            # One entry that history does not accept must not block those of other documents.
            return sum(self._try_to_move_alone(collection, holder) for holder in holders)
        return len(holders)

    def _try_to_move_alone(self, collection: Collection[Document], holder: Holder) -> bool:
        try:
            self._move(collection, [holder])
        except UNACCEPTABLE:
            log.exception(
                "The entries of %s could not be moved to history.", holder.document["_id"]
            )
            return False
        return True

    def _move(self, collection: Collection[Document], holders: list[Holder]) -> None:
        if not holders:
            return
        entries = [entry for holder in holders for entry in holder.entries]
        metrics.HISTORY_MOVED.labels(collection.name).inc(self._archive(entries))
        # Before the entries leave their Journals: after a crash in between, the next mover does it.
        self._erasures.reopen_named(_accounts_in(holders), lambda: _texts_in(collection, holders))
        self._remove(collection, [holder for holder in holders if holder.has_only_entries()])
        for holder in holders:
            if not holder.has_only_entries():
                _empty_journal(collection, holder.document)

    def _remove(self, collection: Collection[Document], holders: list[Holder]) -> None:
        """Remove moved entries from the Journals; newer entries stay."""
        if not holders:
            return
        ids = [holder.document["_id"] for holder in holders]
        stamps = [entry["Stamp"] for holder in holders for entry in holder.entries]
        # One command: an update per document would cost more than everything else here. The rest of
        # the document is unchanged, and validating it would double the cost.
        change = {"_id": {"$in": ids}}, {"$pull": {"Journal": {"Stamp": {"$in": stamps}}}}
        try:
            collection.update_many(*change, bypass_document_validation=self._may_bypass)
        except OperationFailure as error:
            if not self._may_bypass or not is_forbidden(error):
                raise
            # The account has only the role readWrite.
            self._may_bypass = False
            collection.update_many(*change)

    def oldest(self, kind: SubjectKind) -> datetime | None:
        """Return the time of the oldest unmoved entry."""
        dated = {**HAS_ENTRIES, "Journal.At": {"$type": "date"}}
        found = self._db[kind.collection].find_one(
            dated, {"Journal.At": 1}, sort=[("Journal.At", 1)]
        )
        entries = [entry for entry in (found or {}).get("Journal", []) if isinstance(entry, dict)]
        times = [entry["At"] for entry in entries if isinstance(entry.get("At"), datetime)]
        return min(times, default=None)

    def expiry_of(self, at: datetime) -> Document:
        """Return the expiry of an entry of this time, and of what expires with it; {}: never."""
        return {"ExpiresAt": at + self._kept} if self._kept else {}

    def keeps(self, at: Any, now: datetime) -> bool:
        """Return whether history still keeps an entry of this time; False if it is not a time."""
        return isinstance(at, datetime) and (self._kept is None or now - at < self._kept)

    def with_unique_ids(self, entries: list[Document]) -> list[Document]:
        """Return the entries of one document with the ids that they have in history.

        Two writes may have the same version: a game that saves whole documents sets it back.
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
        """Insert the entries that history lacks, and return their number."""
        if not entries:
            return 0
        moved = [history_document(entry, self._kept) for entry in entries]
        refused = _insert_missing(self._history, moved)
        renamed = self.with_unique_ids(refused)
        others = [entry for entry in renamed if entry not in refused]
        refused_again = _insert_missing(self._history, others)
        return len(moved) - len(refused) + len(others) - len(refused_again)


def _accounts_in(holders: Iterable[Holder]) -> dict[Any, Any]:
    """Return the owners of these documents and the authors of their entries: names by id."""
    accounts: dict[Any, Any] = {}
    for document, entries in holders:
        accounts[document.get("UserId", document["_id"])] = document.get("Name")
        for entry in entries:
            for by in (entry["By"], entry.get("ApprovedBy") or {}):
                accounts[by.get("UserId")] = by.get("Name")
    return accounts


def _texts_in(collection: Collection[Document], holders: Sequence[Holder]) -> Iterator[Any]:
    """Yield the free texts in entries, and in the documents that they are about."""
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
    """Empty a Journal that contains entries from before there was a history, or values of a game.

    If the document has changed since it was read, the next move does this.
    """
    unchanged = {"_id": document["_id"], "Stamp": as_read(document, "Stamp")}
    collection.update_one(unchanged, {"$set": {"Journal": []}})
