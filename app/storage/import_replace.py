"""Replaces whole documents by imported ones, without losing changes or history entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bson
from bson.codec_options import CodecOptions
from pymongo import InsertOne, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from app.changes import JOURNAL_LENGTH, SWAP_FIELDS, Intent, SubjectKind, field_changes
from app.errors import Conflict
from app.storage.client import Storage
from app.storage.decisions import WRITE_IDENTITY
from app.storage.errors import has_only_duplicate_keys
from app.storage.history_entries import entries_of
from app.storage.update_from_difference import as_read
from app.types import Document

# How often to read a document again that is changed concurrently.
ATTEMPTS = 20
_DECODED: CodecOptions[Document] = CodecOptions(tz_aware=True)


class Replacer:
    """Writes imported documents of one kind, each with a history entry for the import."""

    def __init__(
        self,
        storage: Storage,
        kind: SubjectKind,
        intent: Intent,
        kept: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Each group of fields in kept stays as stored if an imported document has none of them."""
        self._journals = storage.journals
        self._swapper = storage.swapper(kind)
        self._kind = kind
        self._intent = intent
        self._groups = kept

    def replace(self, collection: Collection[Document], batch: list[Any]) -> None:
        """Insert documents or replace those with the same id; skip those that are identical.

        A document that is changed in between is read and compared again.
        """
        left = {raw["_id"]: raw for raw in batch}
        written: dict[Any, Any] = {}
        for _ in range(ATTEMPTS):
            found = collection.find({"_id": {"$in": list(left)}})
            stored = {document["_id"]: document for document in found}
            documents = {
                id_: replacement
                for id_, raw in left.items()
                if not self._is_written(stored.get(id_), written.get(id_))
                and (replacement := self._replacement(raw, stored.get(id_)))
            }
            if _write_all(collection, stored, documents):
                return
            left = {id_: left[id_] for id_ in documents}
            written = {id_: document["Stamp"] for id_, document in documents.items()}
            # A Journal may be full: move its entries.
            self._journals.move(self._kind, list(left))
        raise Conflict(f"Others keep changing the {collection.name} to replace; try again.")

    def _is_written(self, stored: Document | None, stamp: Any) -> bool:
        """Return whether an earlier attempt has written a document, whatever was written later."""
        if stored is None or stamp is None:
            return False
        entries = entries_of(stored)
        is_here = stored.get("Stamp") == stamp or any(e["Stamp"] == stamp for e in entries)
        return is_here or self._journals.has_moved(stored["_id"], stamp)

    def _replacement(self, raw: Any, before: Document | None) -> Document | None:
        """Return the document to write, or None if nothing would change."""
        if before is None:
            inserted: Document = raw
            return inserted
        imported = bson.decode(raw.raw, _DECODED)
        new = {name: value for name, value in imported.items() if name not in SWAP_FIELDS}
        for group in self._groups:
            if all(new.get(name) is None for name in group):
                new |= {name: before[name] for name in group if name in before}
        new |= self._kind.carried(before, new)
        gone = {name: None for name in before if name not in new and name not in SWAP_FIELDS}
        changes = field_changes(self._kind, before, {**new, **gone})
        if not changes and all(before.get(name) == new.get(name) for name in self._kind.derived):
            return None
        kept = {name: before[name] for name in SWAP_FIELDS if name in before}
        journal = before.get("Journal")
        entries = journal if isinstance(journal, list) else []
        document = {**new, **kept, "Journal": entries}
        return self._swapper.with_entry(document, self._intent, changes)


def _write_all(
    collection: Collection[Document], stored: Document, documents: dict[Any, Document]
) -> bool:
    """Write each document unless it changed since it was read; return whether all were written."""
    writes: list[Any] = []
    for id_, document in documents.items():
        if id_ not in stored:
            writes.append(InsertOne(document))
            continue
        unchanged = {name: as_read(stored[id_], name) for name in WRITE_IDENTITY}
        has_room = {f"Journal.{JOURNAL_LENGTH - 1}": {"$exists": False}}
        writes.append(ReplaceOne({"_id": id_, **unchanged, **has_room}, document))
    if not writes:
        return True
    try:
        result = collection.bulk_write(writes, ordered=False)
    except BulkWriteError as error:
        if not has_only_duplicate_keys(error) or _is_other_key(error):
            raise
        return False
    return result.inserted_count + result.matched_count == len(writes)


def _is_other_key(error: BulkWriteError) -> bool:
    """Return whether a unique key other than the id is taken, such as a name."""
    return any("_id" not in fault.get("keyPattern", {}) for fault in error.details["writeErrors"])
