"""Entries in MongoDB: in the collection history, and in the Journals of documents."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pymongo
from pymongo.errors import PyMongoError
from pymongo.read_preferences import ReadPreference

from app.changes import SubjectKind
from app.errors import AlreadyUndone, NotFound
from app.history.domain import (
    SERVED,
    Filters,
    matches,
    may_be_undone,
    public_entry,
    subject_of,
)
from app.operations import operation_names
from app.paging import CursorPage
from app.storage.client import Storage
from app.storage.committed import confirm_absent
from app.storage.history_entries import entries_of
from app.storage.journal import HISTORY
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST, Position
from app.storage.search_fields import history_document
from app.types import Document

WALK_BATCH = 500
# A page that counts changes does not wait longer.
COUNT_SECONDS = 1.0
MOST_COUNTED = 5_000
# The indexes by filter, the most selective first.
INDEXES = (
    ("subject_id", "Subject.Id", "subject"),
    ("key", "By.Key", "key"),
    ("author", "Authors", "author"),
    ("item", "Objects", "object"),
    ("operation", "Operation", "operation"),
)


class History:
    def __init__(self, storage: Storage, kinds: dict[str, SubjectKind]) -> None:
        self._db = storage.db
        self._history = storage.db[HISTORY.name]
        # A secondary may lag behind the latest changes.
        self._primary = self._history.with_options(read_preference=ReadPreference.PRIMARY)
        self._journals = storage.journals
        self._clock = storage.clock
        self._kinds = {kind.name: kind for kind in kinds.values()}

    def get(self, entry_id: str) -> Document:
        """Return an entry as stored, from history or from a Journal."""
        found = self._find(entry_id)
        if found is None:
            raise NotFound("entry of history", entry_id)
        return found

    def confirm_missing(self, entry_id: str) -> None:
        """Raise Unavailable if a majority has an entry that was not found here."""
        if subject := subject_of(entry_id):
            in_journal = {"_id": subject[1], "Journal._id": entry_id}
            confirm_absent(self._db[self._kinds[subject[0]].collection], in_journal)
        confirm_absent(self._history, {"_id": entry_id})

    def get_many(self, entry_ids: Sequence[str]) -> dict[str, Document]:
        """Return by id the entries that exist, from history or from Journals."""
        found = {e["_id"]: e for e in self._primary.find({"_id": {"$in": list(entry_ids)}})}
        for entry_id in entry_ids:
            if entry_id not in found and (unmoved := self._find(entry_id)):
                found[entry_id] = unmoved
        return found

    def ids_by_key(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return by Idempotency-Key and fingerprint the ids of entries in history."""
        where = {"IdempotencyKey": {"$in": [key for key, _ in keys]}}
        found = self._primary.find(where, ["IdempotencyKey", "Fingerprint"])
        return {(e["IdempotencyKey"], e.get("Fingerprint") or ""): e["_id"] for e in found}

    def move_all(self) -> None:
        """Move the entries of all changes so far to history, so that lists contain them."""
        until = self._clock.now()
        for kind in self._kinds.values():
            self._journals.move_all(kind, until)

    def walk(self, filters: Filters) -> Iterator[Document]:
        """Yield all matching entries of the collection history, as stored, the newest first."""
        where, hint = _query(filters)
        found = self._primary.find(where, sort=NEWEST_FIRST).batch_size(WALK_BATCH)
        yield from found.hint(hint) if hint else found

    def require_not_undone(self, entry_id: str) -> None:
        if by := self._undone([entry_id]).get(entry_id):
            raise AlreadyUndone(entry_id, by)

    def serve(
        self,
        entries: Iterable[Document],
        journal: Sequence[Document] | None = None,
        is_whole: bool = False,
    ) -> Sequence[Document]:
        """Return the public form of entries, each with the id of the entry that undid it.

        A change and its undo have the same subject. So what a caller has read of one subject saves
        queries: its Journal, or its whole history.
        """
        shown = list(entries)
        if is_whole:
            undone = _undoes(shown)
        else:
            undone = self._undone([e["_id"] for e in shown if may_be_undone(e)], journal)
        return [public_entry(entry, undone.get(entry["_id"])) for entry in shown]

    def list(self, filters: Filters, size: int, after: bytes | None = None) -> CursorPage:
        position = newest_first.parse(filters, after) if after else None
        # Read the Journal first: an entry that moves in between is found twice, but never missed.
        journal = self._unmoved(filters)
        unmoved = [
            entry
            for entry in journal or ()
            if matches(entry, filters, history_document(entry, None))
            and (position is None or (entry["At"], entry["_id"]) < position)
        ]
        moved = self._moved(filters, position, size + 1)
        ids = {entry["_id"] for entry in moved}
        both = [*moved, *(entry for entry in unmoved if entry["_id"] not in ids)]
        page = heapq.nlargest(size + 1, both, key=lambda entry: (entry["At"], entry["_id"]))
        has_more = len(page) > size
        following = newest_first.position(filters, page[size - 1]) if has_more else None
        is_whole = filters.is_whole_subject() and position is None and not has_more
        return CursorPage(self.serve(page[:size], journal, is_whole), following)

    def unmoved(self, kind: str, id_: str) -> Sequence[Document]:
        """Return the entries of a document that are not in the collection history yet."""
        # Read the Journal first: an entry that moves in between is in both, and left out here.
        entries = self._journal(self._kinds[kind], id_)
        ids = [entry["_id"] for entry in entries]
        moved = {entry["_id"] for entry in self._history.find({"_id": {"$in": ids}}, ["_id"])}
        return [entry for entry in entries if entry["_id"] not in moved]

    def moved(self, kind: str, id_: str, skip: int, limit: int) -> Sequence[Document]:
        """Return entries of a document in the collection history, the newest first."""
        found = self._history.find(_about(kind, id_), sort=NEWEST_FIRST).hint("subject")
        return list(found.skip(skip).limit(limit))

    def count_moved(self, kind: str, id_: str) -> int:
        return self._history.count_documents(_about(kind, id_), hint="subject")

    def count_changes(self, begin: datetime, end: datetime) -> dict[str, int]:
        """Return by operation the number of entries of a period in the collection history."""
        # Listing the operations lets the index "operation" cover the query for just this period.
        of_time = {"Operation": {"$in": operation_names()}, "At": {"$gte": begin, "$lt": end}}
        by_operation = {"$group": {"_id": "$Operation", "Count": {"$sum": 1}}}
        found = self._history.aggregate([{"$match": of_time}, by_operation], hint="operation")
        return {group["_id"]: group["Count"] for group in found}

    def count_by_author(
        self, user_ids: Sequence[str], since: datetime
    ) -> dict[str, Document] | None:
        """Return by account how much it changed, gave and took, in its newest entries.

        Of each account, it reads MOST_COUNTED entries: a batch may have changed a hundred thousand
        players. Return None if that takes too long.
        """
        try:
            with pymongo.timeout(COUNT_SECONDS):
                return {id_: self._count_of(id_, since) for id_ in user_ids}
        except PyMongoError as error:
            if not error.timeout:
                raise
            return None

    def _count_of(self, user_id: str, since: datetime) -> Document:
        sums = {"Count": {"$sum": 1}, "Items": {"$sum": "$Arguments.Quantity"}}
        pipeline: list[Document] = [
            {"$match": {"Authors": user_id, "At": {"$gte": since}}},
            {"$sort": dict(NEWEST_FIRST)},
            {"$limit": MOST_COUNTED + 1},
            {"$group": {"_id": "$Operation", **sums}},
        ]
        found = {group["_id"]: group for group in self._history.aggregate(pipeline, hint="author")}
        count = sum(group["Count"] for group in found.values())
        return {
            "Changes": min(count, MOST_COUNTED),
            "IsMore": count > MOST_COUNTED,
            "Given": found.get("give", {}).get("Items", 0),
            "Taken": found.get("take", {}).get("Items", 0),
        }

    def _moved(self, filters: Filters, position: Position | None, limit: int) -> Sequence[Document]:
        where, hint = _query(filters)
        if position:
            where = {"$and": [where, newest_first.after(position)]}
        # Without the search fields, which would only be decoded.
        fields = [*SERVED, "IdempotencyKey"]
        found = self._history.find(where, fields, sort=NEWEST_FIRST).limit(limit)
        return list(found.hint(hint) if hint else found)

    def _unmoved(self, filters: Filters) -> Sequence[Document] | None:
        """Return the Journal entries of the subject of a list; None without a subject."""
        if filters.subject_id is None:
            return None
        found: Sequence[Document] = []
        for name in filters.kinds:
            kind = self._kinds[name]
            found = [*found, *self._journal(kind, filters.subject_id)]
        return found

    def _journal(self, kind: SubjectKind, id_: str) -> Sequence[Document]:
        """Return the Journal entries of a document, with their final ids."""
        document = self._db[kind.collection].find_one({"_id": id_}, ["Name", "Journal"])
        return self._journals.with_unique_ids(entries_of(document)) if document else ()

    def _find(self, entry_id: str) -> Document | None:
        subject = subject_of(entry_id)
        if subject is None:
            return None
        kind = self._kinds[subject[0]]
        unmoved = self._journal(kind, subject[1])
        in_journal = next((entry for entry in unmoved if entry["_id"] == entry_id), None)
        return in_journal or self._history.find_one({"_id": entry_id})

    def restored_by(self, ids: Sequence[str], player_ids: Sequence[str]) -> dict[str, str]:
        """Return, by event of the game, the ids of the entries that gave back what was lost."""
        subjects = {self._kinds["player"]: set(player_ids)}
        return self._undone(ids, list(self._journal_undos(subjects, ids)))

    def _undone(
        self, entry_ids: Sequence[str], journal: Sequence[Document] | None = None
    ) -> dict[str, str]:
        """Return by entry the id of the entry that undid it; journal has those not yet moved."""
        if not entry_ids:
            return {}
        if journal is None:
            journal = list(self._journal_undos(self._subjects(entry_ids), entry_ids))
        found = self._history.find({"Undoes": {"$in": entry_ids}}, ["Undoes"])
        return _undoes(journal) | _undoes(found)

    def _journal_undos(
        self, subjects: dict[SubjectKind, set[str]], entry_ids: Sequence[str]
    ) -> Iterator[Document]:
        """Yield the entries in Journals of these documents, if one of them undid an entry."""
        for kind, ids in subjects.items():
            undoes = {"_id": {"$in": list(ids)}, "Journal.Undoes": {"$in": entry_ids}}
            for document in self._db[kind.collection].find(undoes, ["Name", "Journal"]):
                yield from entries_of(document)

    def _subjects(self, entry_ids: Sequence[str]) -> dict[SubjectKind, set[str]]:
        found: dict[SubjectKind, set[str]] = {}
        for entry_id in entry_ids:
            if subject := subject_of(entry_id):
                found.setdefault(self._kinds[subject[0]], set()).add(subject[1])
        return found


def _undoes(entries: Iterable[Document]) -> dict[str, str]:
    """Return by undone entry the id of the entry that undid it."""
    return {entry["Undoes"]: entry["_id"] for entry in entries if "Undoes" in entry}


def _about(kind: str, id_: str) -> Document:
    return {"Subject.Id": id_, "Subject.Kind": kind}


def _query(filters: Filters) -> tuple[Document, str | None]:
    """Return the query of the filters, and its index."""
    where: Document = {"Subject.Kind": {"$in": list(filters.kinds)}}
    hint = "time"
    for name, field, index in reversed(INDEXES):
        value = getattr(filters, name)
        if value is not None:
            where[field] = value
            hint = index
    if filters.words:
        where["Words"] = {"$all": list(filters.words)}
        hint = "word" if hint in ("time", "operation") else hint
    times: Document = {}
    if filters.since is not None:
        times["$gte"] = filters.since
    if filters.until is not None:
        times["$lt"] = filters.until
    return ({**where, "At": times} if times else where), hint
