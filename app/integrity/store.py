"""Database access of db check: reads documents, and writes repairs without losing other changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from app.storage.decisions import WRITE_IDENTITY
from app.storage.errors import has_only_duplicate_keys
from app.storage.update_from_difference import as_read
from app.types import Document

# A repair is derived from these fields, so it is written only if they are unchanged.
SOURCES = (*WRITE_IDENTITY, "Name", "Email")


def replace_fields(
    collection: Collection[Document], pairs: list[tuple[Document, Document]]
) -> list[Document]:
    """Write the differences between each document as read and as repaired.

    The filter is optimistic locking: a document that changed since it was read is not written. A
    repaired document has a history entry, and a new Version and Stamp, so that concurrent
    compare-and-swaps read it again. Return the documents whose new keys belong to another document.
    """
    try:
        collection.bulk_write([_update(*pair) for pair in pairs], ordered=False)
    except BulkWriteError as error:
        if not has_only_duplicate_keys(error):
            raise
        return [pairs[fault["index"]][0] for fault in error.details["writeErrors"]]
    return []


def _update(before: Document, after: Document) -> UpdateOne:
    changed = {name: value for name, value in after.items() if _differs(before, name, value)}
    unchanged = {name: as_read(before, name) for name in {*SOURCES, *changed}}
    return UpdateOne({"_id": before["_id"], **unchanged}, {"$set": changed})


def _differs(before: Document, name: str, value: Any) -> bool:
    # NaN != NaN: compare by identity first.
    return name not in before or (before[name] is not value and before[name] != value)


def existing_ids(collection: Collection[Document], ids: Iterable[str]) -> set[str]:
    return {found["_id"] for found in collection.find({"_id": {"$in": list(ids)}}, ["_id"])}


def ids_with_invalid_shape(
    collection: Collection[Document], ids: list[Any], shape: Mapping[str, Any]
) -> list[Any]:
    """Return the ids of the documents that the server's validator would reject."""
    refused = {"_id": {"$in": ids}, "$nor": [{"$jsonSchema": shape}]}
    return [found["_id"] for found in collection.find(refused, ["_id"])]


def read(collection: Collection[Document], ids: list[Any]) -> Iterator[Document]:
    yield from collection.find({"_id": {"$in": ids}})
