"""Bulk reads and writes, in bounded memory, and imports.

A portion of imported documents is one transaction. It skips those that are stored already, so an
import that was killed can be repeated: it leaves the same documents and entries.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, PyMongoError

from app.core.changes import BOOKKEEPING, Intent, SubjectKind, field_changes, within_size
from app.core.errors import Busy, Conflict, Invalid
from app.core.types import Document
from app.storage.changes import Changes
from app.storage.client import LONG_WORK_SECONDS, Storage
from app.storage.errors import has_only_duplicate_keys
from app.storage.fence import require_not_erased

BATCH = 1000
BATCH_BYTES = 16 * 1024 * 1024
LARGEST = 16 * 1024 * 1024 - 16 * 1024
RAW = CodecOptions(document_class=RawBSONDocument)


class Spool:
    """Documents in a temporary file, until all of them are checked."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (close ends it)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, document: Document) -> None:
        self._file.write(encode(document))
        self._count += 1

    def __iter__(self) -> Iterator[Any]:
        self._file.seek(0)
        yield from decode(self._file)

    def close(self) -> None:
        self._file.close()


def decode(file: IO[bytes]) -> Iterator[Any]:
    """Yield the documents of a file, each as bytes."""
    return bson.decode_file_iter(file, RAW)


def encode(document: Document) -> bytes:
    """Return a document as BSON, or raise Invalid if MongoDB cannot store it."""
    try:
        encoded = bson.encode(document)
    except (InvalidDocument, OverflowError, ValueError, RecursionError) as error:
        raise Invalid(f"the record cannot be stored: {error}.") from None
    if len(encoded) > LARGEST:
        raise Invalid("the record is too large: MongoDB stores 16 MB at most.")
    return encoded


def clashes(collection: Collection[Document], field: str, owners: Mapping[str, str]) -> set[str]:
    """Return the values of a unique field that documents other than their owners already have."""
    taken = set()
    with pymongo.timeout(LONG_WORK_SECONDS):
        for batch in batches(owners):
            for found in collection.find({field: {"$in": batch}}, [field]):
                if found["_id"] != owners[found[field]]:
                    taken.add(found[field])
    return taken


def insert(
    collection: Collection[Document], documents: Iterable[Any], skips_known: bool = False
) -> Iterator[int]:
    """Insert documents; yield the size of each batch.

    They are not validated: they are ours, or were stored before. With skips_known, documents with
    an existing id or name are left out.
    """
    for batch in batches(documents, BATCH, BATCH_BYTES):
        try:
            with pymongo.timeout(LONG_WORK_SECONDS):
                collection.insert_many(batch, False, bypass_document_validation=True)
        except BulkWriteError as error:
            if not (skips_known and has_only_duplicate_keys(error)):
                raise not_written(collection, error) from None
        yield len(batch)


def not_written(collection: Collection[Document], error: BulkWriteError) -> Conflict:
    """Return what has kept documents from being written."""
    # Without write errors, the write concern has failed: no majority acknowledged the write.
    faults = error.details["writeErrors"] or error.details["writeConcernErrors"]
    return Conflict(f"Not all {collection.name} could be written: {faults[0]['errmsg']}.")


def read_all(
    collection: Collection[Document], sort: str, fields: list[str] | None = None
) -> Iterator[Document]:
    """Yield every document of a collection, sorted."""
    with pymongo.timeout(LONG_WORK_SECONDS):
        found = collection.find({}, fields, sort=[(sort, 1)])
        # The default batch is up to 16 MB.
        yield from found.batch_size(BATCH)


def batches(
    items: Iterable[Any], size: int = BATCH, most_bytes: float = math.inf
) -> Iterator[list[Any]]:
    """Yield some items at a time, fewer if they are large documents."""
    batch: list[Any] = []
    weight = 0
    for item in items:
        batch.append(item)
        weight += len(item.raw) if isinstance(item, RawBSONDocument) else 0
        if len(batch) >= size or weight >= most_bytes:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


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
