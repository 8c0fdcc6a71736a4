"""Bulk reads and writes, in bounded memory."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, PyMongoError

from app.errors import Busy, Conflict, Invalid
from app.storage.client import LONG_WORK_SECONDS
from app.storage.update_from_difference import is_comparable, value_at
from app.types import Document

log = logging.getLogger("quartermaster")

BATCH = 1000
BATCH_BYTES = 16 * 1024 * 1024
REWRITE_BATCH, REWRITE_ATTEMPTS = 200, 10
# Marks a field that rewrite removes.
REMOVED: Any = object()
# The time limit of a sweep. The TTL index or the next sweep deletes the rest.
SWEEP_SECONDS = 0.5
LARGEST = 16 * 1024 * 1024 - 16 * 1024
_RAW = CodecOptions(document_class=RawBSONDocument)


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

    def __iter__(self) -> Iterator[RawBSONDocument]:
        self._file.seek(0)
        yield from bson.decode_file_iter(self._file, _RAW)

    def close(self) -> None:
        self._file.close()


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


def write(
    collection: Collection[Document],
    documents: Iterable[Any],
    replace: Callable[[Collection[Document], list[Any]], object],
) -> Iterator[int]:
    """Insert documents or replace those with the same id; yield the size of each batch."""
    is_empty = collection.find_one({}, ["_id"]) is None
    return _write_batches(collection, documents, _insert if is_empty else replace)


def insert(collection: Collection[Document], documents: Iterable[Any]) -> Iterator[int]:
    """Insert documents into an empty collection; yield the size of each batch."""
    return _write_batches(collection, documents, _insert)


def add_missing(collection: Collection[Document], documents: Iterable[Any]) -> Iterator[int]:
    """Insert documents that are known to be valid, and skip existing ids."""
    is_empty = collection.find_one({}, ["_id"]) is None
    return _write_batches(collection, documents, _insert_trusted if is_empty else _insert_missing)


def _write_batches(
    collection: Collection[Document], documents: Iterable[Any], store: Callable[..., object]
) -> Iterator[int]:
    """Prepare the next batch while the server stores the previous one."""
    with ThreadPoolExecutor(1) as pool:
        pending: Future[int] | None = None
        for batch in _within_bytes(documents):
            if pending:
                yield pending.result()
            pending = pool.submit(_store_batch, store, collection, batch)
        if pending:
            yield pending.result()


def _store_batch(
    store: Callable[..., object], collection: Collection[Document], batch: list[Any]
) -> int:
    try:
        with pymongo.timeout(LONG_WORK_SECONDS):
            store(collection, batch)
    except BulkWriteError as error:
        # Without write errors, the write concern has failed: no majority acknowledged the write.
        faults = error.details["writeErrors"] or error.details["writeConcernErrors"]
        first = faults[0]["errmsg"]
        raise Conflict(f"Not all {collection.name} could be written: {first}.") from None
    return len(batch)


def _insert(collection: Collection[Document], batch: list[Any]) -> None:
    collection.insert_many(batch, ordered=False)


def _insert_trusted(collection: Collection[Document], batch: list[Any]) -> None:
    collection.insert_many(batch, ordered=False, bypass_document_validation=True)


def _insert_missing(collection: Collection[Document], batch: list[Any]) -> None:
    upserts = [UpdateOne({"_id": d["_id"]}, {"$setOnInsert": d}, upsert=True) for d in batch]
    collection.bulk_write(upserts, ordered=False)


def sweep(
    collection: Collection[Document], where: Document, seconds: float = SWEEP_SECONDS
) -> None:
    """Delete obsolete documents within a time limit. Best effort: errors are only logged."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            some = collection.find(where, ["_id"], limit=BATCH).batch_size(BATCH)
            ids = [found["_id"] for found in some]
            if ids:
                collection.delete_many({"_id": {"$in": ids}})
            if len(ids) < BATCH:
                return
    except PyMongoError as error:
        log.warning("Some expired documents in %s were not removed: %s", collection.name, error)


def read_all(
    collection: Collection[Document], sort: str, leave_out: list[str]
) -> Iterator[Document]:
    """Yield every document of a collection, sorted."""
    with pymongo.timeout(LONG_WORK_SECONDS):
        found = collection.find({}, dict.fromkeys(leave_out, 0), sort=[(sort, 1)])
        # The default batch is up to 16 MB.
        yield from found.batch_size(BATCH)


def _within_bytes(documents: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield batches that fit into memory: a few large documents, or many small ones."""
    batch: list[Any] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.raw) if isinstance(document, RawBSONDocument) else 0
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def batches(items: Iterable[Any], size: int = BATCH) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def rewrite(
    collection: Collection[Document],
    found: Iterable[Document],
    rule: Callable[[Document], Document],
) -> Iterator[int]:
    """Change documents with a rule, and yield the numbers of changed documents.

    The rule returns the new values by path, or REMOVED. Documents that changed since they were read
    are read again.
    """
    for chunk in batches(found, REWRITE_BATCH):
        for _ in range(REWRITE_ATTEMPTS):
            values = [(document, rule(document)) for document in chunk]
            updates = [_guarded_update(document, new) for document, new in values if new]
            if not updates:
                break
            changed = collection.bulk_write(updates, ordered=False).matched_count
            yield changed
            if changed == len(updates):
                break
            chunk = list(collection.find({"_id": {"$in": [document["_id"] for document in chunk]}}))
        else:
            raise Busy(collection.name)


def _guarded_update(document: Document, values: Document) -> UpdateOne:
    """Return the update of a document, with the values that were read in its filter."""
    removed = {path: "" for path, value in values.items() if value is REMOVED}
    new = {path: value for path, value in values.items() if value is not REMOVED}
    before = {path: value_at(document, path) for path in values}
    unchanged = {path: {"$eq": value} for path, value in before.items() if is_comparable(value)}
    update = {"$set": new, "$unset": removed}
    present = {operator: fields for operator, fields in update.items() if fields}
    return UpdateOne({"_id": document["_id"], **unchanged}, present)


class FreeTexts:
    """The free texts in the documents of a collection, for erasures."""

    def __init__(self, collection: Collection[Document], *fields: str) -> None:
        self._collection, self._fields = collection, fields

    def texts(self) -> Iterator[tuple[str, str, Iterator[Any]]]:
        """Yield the collection, the id and the texts of all documents."""
        for document in self._collection.find({}, self._fields):
            yield self._collection.name, document["_id"], map(document.get, self._fields)

    def rewrite(self, rule: Callable[[Document], Document]) -> Iterator[int]:
        """Apply a rule to the texts of all documents."""
        yield from rewrite(self._collection, self._collection.find({}, self._fields), rule)
