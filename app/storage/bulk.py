"""Many documents at once: checked first, then written, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from app.errors import Conflict, Invalid
from app.storage.client import LONG_WORK_SECONDS

Document = dict[str, Any]

BATCH = 1000
LARGEST = 16 * 1024 * 1024 - 16 * 1024
_RAW = CodecOptions(document_class=RawBSONDocument)


class Spool:
    """Documents that wait on disk until all of them are known to be good."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (close ends it)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, document: Document) -> None:
        try:
            encoded = bson.encode(document)
        except (InvalidDocument, OverflowError, ValueError, RecursionError) as error:
            raise Invalid(f"the record cannot be stored: {error}.") from None
        if len(encoded) > LARGEST:
            raise Invalid("the record is too large: MongoDB stores 16 MB at most.")
        self._file.write(encoded)
        self._count += 1

    def __iter__(self) -> Iterator[RawBSONDocument]:
        self._file.seek(0)
        yield from bson.decode_file_iter(self._file, _RAW)

    def close(self) -> None:
        self._file.close()


def clashes(collection: Collection[Document], field: str, owners: Mapping[str, str]) -> set[str]:
    """Return the values of a unique field that documents other than their owners have already."""
    taken = set()
    with pymongo.timeout(LONG_WORK_SECONDS):
        for batch in batches(owners):
            for found in collection.find({field: {"$in": batch}}, [field]):
                if found["_id"] != owners[found[field]]:
                    taken.add(found[field])
    return taken


def write(
    collection: Collection[Document], documents: Iterable[Any], *, trusted: bool = False
) -> Iterator[int]:
    """Insert documents or replace those of the same id; yield how many after each batch.

    Trusted documents are known to be valid, and the server need not look again.
    """
    is_empty = collection.find_one({}, ["_id"]) is None
    store = _insert if is_empty else _replace
    # While the server stores one batch, the next is made ready.
    with ThreadPoolExecutor(1) as pool:
        pending: Future[int] | None = None
        for batch in batches(documents):
            if pending:
                yield pending.result()
            pending = pool.submit(_stored, store, collection, batch, trusted)
        if pending:
            yield pending.result()


def _stored(
    store: Callable[..., Any], collection: Collection[Document], batch: list[Any], trusted: bool
) -> int:
    try:
        with pymongo.timeout(LONG_WORK_SECONDS):
            store(collection, batch, trusted)
    except BulkWriteError as error:
        first = error.details["writeErrors"][0]["errmsg"]
        raise Conflict(f"Not all {collection.name} could be written: {first}.") from None
    return len(batch)


def _insert(collection: Collection[Document], batch: list[Any], trusted: bool) -> None:
    collection.insert_many(batch, ordered=False, bypass_document_validation=trusted)


def _replace(collection: Collection[Document], batch: list[Any], trusted: bool) -> None:
    replacements = [ReplaceOne({"_id": d["_id"]}, d, upsert=True) for d in batch]
    collection.bulk_write(replacements, ordered=False, bypass_document_validation=trusted)


def read_all(
    collection: Collection[Document], sort: str, leave_out: list[str]
) -> Iterator[Document]:
    """Yield every document of a collection in order."""
    with pymongo.timeout(LONG_WORK_SECONDS):
        yield from collection.find({}, dict.fromkeys(leave_out, 0), sort=[(sort, 1)])


def batches(items: Iterable[Any], size: int = BATCH) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
