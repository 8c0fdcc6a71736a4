"""Entries of history in MongoDB."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from pymongo.read_preferences import ReadPreference

from app.core.errors import NotFound
from app.core.naming import Lookup, name_key
from app.core.operations import operation_names
from app.core.paging import CursorPage
from app.core.services import current
from app.core.types import Document
from app.history.domain import SERVED, public_entry
from app.storage.bulk import batches as in_chunks
from app.storage.client import Storage
from app.storage.history import HISTORY
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.search_fields import words

WALK_BATCH = 500
SERVED_AT_ONCE = 100
# The indexes by field, the most selective first.
INDEXES = {
    "Subject.Id": "subject",
    "By.Key": "key",
    "Authors": "author",
    "Objects": "object",
    "Words": "word",
    "Operation": "operation",
    "Subject.Kind": "time",
}


class History:
    def __init__(self, storage: Storage) -> None:
        # A secondary may lag behind the latest changes.
        primary = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._history = primary[HISTORY.name]
        self._transactions = storage.transactions

    def get(self, entry_id: str) -> Document:
        """Return an entry as stored; a majority confirms a NotFound."""
        found = self._transactions.find(lambda: self._history.find_one({"_id": entry_id}))
        if found is None:
            raise NotFound("entry of history", entry_id)
        return found

    def get_many(
        self, entry_ids: Sequence[str], filters: Document | None = None
    ) -> dict[str, Document]:
        """Return by id the entries that exist, and that match the filters."""
        found = self._history.find({**(filters or {}), "_id": {"$in": list(entry_ids)}})
        return {entry["_id"]: entry for entry in found}

    def ids_by_key(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return by Idempotency-Key and fingerprint the ids of entries."""
        where = {"IdempotencyKey": {"$in": [key for key, _ in keys]}}
        found = self._history.find(where, ["IdempotencyKey", "Fingerprint"])
        return {(e["IdempotencyKey"], e.get("Fingerprint") or ""): e["_id"] for e in found}

    def walk(self, filters: Document, skip: int = 0, limit: int = 0) -> Iterator[Document]:
        """Yield matching entries, as stored, the newest first; without a limit, all."""
        found = self._history.find(filters, sort=NEWEST_FIRST).batch_size(WALK_BATCH)
        yield from found.hint(_index_of(filters)).skip(skip).limit(limit)

    def holds(self, filters: Document) -> bool:
        """Return whether a majority holds a matching entry."""
        return self._transactions.holds(self._history, filters)

    def present(self, entries: Collection[Document]) -> Sequence[Document]:
        """Return the public form of entries, each with the id of the entry that undid it."""
        undone = self.undone([entry["_id"] for entry in entries])
        return [public_entry(entry, undone.get(entry["_id"])) for entry in entries]

    def present_all(self, filters: Document) -> Iterator[Document]:
        """Yield the public form of all matching entries, the newest first."""
        for entries in in_chunks(self.walk(filters), SERVED_AT_ONCE):
            yield from self.present(entries)

    def list(self, filters: Document, size: int, after: bytes | None = None) -> CursorPage:
        """Return a page of public entries."""
        # Without the search fields, which would only be decoded.
        fields = [*SERVED, "IdempotencyKey", "Fingerprint"]
        hint = _index_of(filters)
        page = newest_first.read(self._history, filters, filters, size, after, hint, fields)
        return page._replace(values=self.present(page.values))

    def count(self, filters: Document) -> int:
        return self._history.count_documents(filters, hint=_index_of(filters))

    def count_changes(self, begin: datetime, end: datetime) -> dict[str, int]:
        """Return by operation the number of entries of a period."""
        # Listing the operations lets the index "operation" cover the query for just this period.
        of_time = {"Operation": {"$in": operation_names()}, "At": {"$gte": begin, "$lt": end}}
        by_operation = {"$group": {"_id": "$Operation", "Count": {"$sum": 1}}}
        found = self._history.aggregate([{"$match": of_time}, by_operation], hint="operation")
        return {group["_id"]: group["Count"] for group in found}

    def undone(self, entry_ids: Sequence[str]) -> dict[str, str]:
        """Return by entry, or event of the game, the id of the entry that undid it."""
        found = self._history.find({"Undoes": {"$in": entry_ids}}, ["Undoes"]) if entry_ids else ()
        return {entry["Undoes"]: entry["_id"] for entry in found}


def filters_of(args: Document, kinds: Sequence[str], subject_id: str | None = None) -> Document:
    """Return the query for the entries that a list shows."""
    by, reason = args.get("by"), args.get("reason", "").strip()
    # A text without words, such as !!!, matches nothing.
    wanted = words(reason) or [reason]
    times = {"$gte": args.get("since"), "$lt": args.get("until")}
    bounds = {bound: time for bound, time in times.items() if time is not None}
    filters = {
        "Subject.Id": subject_id,
        "By.Key": args.get("key"),
        # Entries store the account id of their author, and the key of the name.
        "Authors": None if by is None else Lookup.parse(by).id or name_key(by),
        "Objects": args.get("item"),
        "Words": {"$all": wanted} if reason else None,
        "Operation": args.get("operation"),
        "Subject.Kind": {"$in": list(kinds)},
        "At": bounds or None,
    }
    return {field: value for field, value in filters.items() if value is not None}


def _index_of(filters: Document) -> str:
    return next(index for field, index in INDEXES.items() if field in filters)


history = current(History)
