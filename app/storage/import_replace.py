"""Replaces whole documents by imported ones, each with an entry of history for the import.

A portion of documents is one transaction. It skips those that are stored already, so an import that
was killed can be repeated: it leaves the same documents and entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import bson
from bson.codec_options import CodecOptions
from pymongo import InsertOne, ReplaceOne
from pymongo.errors import BulkWriteError, PyMongoError

from app.core.changes import BOOKKEEPING, Intent, SubjectKind, field_changes, within_size
from app.core.errors import Busy
from app.core.types import Document
from app.storage.bulk import batches, not_written
from app.storage.changes import Changes
from app.storage.client import Storage
from app.storage.fence import require_not_erased

# The most documents and bytes in one transaction, which must end within its lifetime.
PORTION, PORTION_BYTES = 500, 4 * 1024 * 1024
_DECODED: CodecOptions[Document] = CodecOptions(tz_aware=True)


class Replacer(Changes):
    """Writes imported documents of one kind."""

    def __init__(
        self,
        storage: Storage,
        kind: SubjectKind,
        intent: Intent,
        kept: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Each group of fields in kept stays as stored if an imported document has none of them."""
        super().__init__(storage, kind)
        self._intent, self._groups = intent, kept

    def replace_all(self, documents: Iterable[Any]) -> Iterator[int]:
        """Insert documents or replace those with the same id; yield the size of each portion."""
        for portion in batches(documents, PORTION, PORTION_BYTES):
            yield from self._write_portion(portion)

    def _write_portion(self, portion: list[Any]) -> Iterator[int]:
        try:
            self._transactions.run(partial(self._replace, portion), self._kind.name, has_key=True)
        except BulkWriteError as error:
            raise not_written(self._documents, error) from None
        except (Busy, PyMongoError) as error:
            is_transient = isinstance(error, Busy) or error.has_error_label(
                "TransientTransactionError"
            )
            if len(portion) == 1 or not is_transient:
                raise
            # A game keeps writing some of them, or this takes longer than a transaction lives.
            half = len(portion) // 2
            yield from self._write_portion(portion[:half])
            yield from self._write_portion(portion[half:])
        else:
            yield len(portion)

    def _replace(self, portion: list[Any]) -> None:
        imported = {raw["_id"]: bson.decode(raw.raw, _DECODED) for raw in portion}
        found = self._documents.find({"_id": {"$in": [*imported]}})
        stored = {document["_id"]: document for document in found}
        writes, now = list[Any](), self.now()
        entries: list[Document] = []
        for id_, new in imported.items():
            before = stored.get(id_)
            changes = self._complete(new, before) if before else []
            if changes is None:
                continue
            if new.get("CreationDate", now) is None:
                new["CreationDate"] = now
            entry = self.new_entry(new, self._intent, within_size(changes))
            document = {**new, "Version": entry["Version"], "ChangedAt": entry["At"]}
            writes.append(ReplaceOne({"_id": id_}, document) if before else InsertOne(document))
            entries.append(entry)
        if writes:
            owners = [new.get("UserId") for new in imported.values()]
            require_not_erased(self._erasures, owners, *entries, players=[*imported])
            self._documents.bulk_write(writes, ordered=False)
            self._entries.add(*entries)

    def _complete(self, new: Document, before: Document) -> list[Document] | None:
        """Add what stays as stored; return the changes, None if there are none."""
        for group in self._groups:
            if all(new.get(name) is None for name in group):
                new |= {name: before[name] for name in group if name in before}
        new |= {name: before[name] for name in BOOKKEEPING if name in before}
        new |= self._kind.carried(before, new)
        gone = {name: None for name in before if name not in new}
        changes = field_changes(self._kind, before, {**new, **gone})
        is_same = all(before.get(name) == new.get(name) for name in self._kind.derived)
        return None if not changes and is_same else changes
