"""Setting documents right while others change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from app.storage.bulk import has_only_duplicate_keys
from app.storage.difference import as_read
from app.storage.swap import WRITE_IDENTITY, fresh_stamp
from app.types import Document

# What is derived from these is right only while they stay.
SOURCES = (*WRITE_IDENTITY, "Name", "Email")


def replace_fields(
    collection: Collection[Document], pairs: list[tuple[Document, Document]]
) -> list[Document]:
    """Write what differs between each document as read and as it should be.

    One that somebody changed meanwhile stays as it is. The version counts up, so that whoever read
    the document before reads it again. Returns those whose new keys are another document's.
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
    seen = {name: as_read(before, name) for name in {*SOURCES, *changed}}
    changed.setdefault("Version", after["Version"] + 1)
    return UpdateOne({"_id": before["_id"], **seen}, {"$set": {**changed, "Stamp": fresh_stamp()}})


def _differs(before: Document, name: str, value: Any) -> bool:
    # NaN != NaN: compare by identity first.
    return name not in before or (before[name] is not value and before[name] != value)


def existing(collection: Collection[Document], ids: Iterable[str]) -> set[str]:
    """Return which of these ids documents have."""
    return {found["_id"] for found in collection.find({"_id": {"$in": list(ids)}}, ["_id"])}


def misshapen(
    collection: Collection[Document], ids: list[Any], shape: Mapping[str, Any]
) -> list[Any]:
    """Return the ids of those documents that do not fit a validator."""
    refused = {"_id": {"$in": ids}, "$nor": [{"$jsonSchema": shape}]}
    return [found["_id"] for found in collection.find(refused, ["_id"])]


def read(collection: Collection[Document], ids: list[Any]) -> Iterator[Document]:
    """Yield documents as they are now."""
    yield from collection.find({"_id": {"$in": ids}})
