"""Positions in a list that is sorted by time, the newest first."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import bson
from pymongo.collection import Collection

from app.core.errors import InvalidCursor
from app.core.paging import CursorPage
from app.core.types import Document

Position = tuple[datetime, str]

DIGEST_BYTES = 8
NEWEST_FIRST = [("At", -1), ("_id", -1)]


def position(filters: Any, document: Document) -> bytes:
    """Return the position after a document; the digest of the filters ties it to one list."""
    return digest(filters) + bson.encode({"At": document["At"], "Id": document["_id"]})


def parse(filters: Any, cursor: bytes) -> Position:
    """Return the position in a cursor, or raise InvalidCursor."""
    place: Document = bson.decode(within(filters, cursor), bson.CodecOptions(tz_aware=True))
    return place["At"], place["Id"]


def after(position: Position) -> Document:
    """Return the filter for documents after a position; At bounds the index scan."""
    at, id_ = position
    return {"At": {"$lte": at}, "$or": [{"At": {"$lt": at}}, {"_id": {"$lt": id_}}]}


def read(
    collection: Collection[Document],
    where: Document,
    filters: Any,
    size: int,
    cursor: bytes | None,
    hint: str | None = None,
    fields: Sequence[str] | None = None,
) -> CursorPage:
    """Return a page of the documents that match a filter, the newest first."""
    if cursor:
        where = {"$and": [where, after(parse(filters, cursor))]}
    matching = collection.find(where, fields, sort=NEWEST_FIRST).limit(size + 1)
    found = list(matching.hint(hint) if hint else matching)
    following = position(filters, found[size - 1]) if found[size:] else None
    return CursorPage(found[:size], following)


def page(records: Sequence[Document], filters: Any, size: int, cursor: bytes | None) -> CursorPage:
    """Return a page of records that have all been read, and are sorted by At and Id."""
    if cursor:
        last = parse(filters, cursor)
        records = [record for record in records if (record["At"], record["Id"]) < last]
    if len(records) <= size:
        return CursorPage(records, None)
    last_shown = {**records[size - 1], "_id": records[size - 1]["Id"]}
    return CursorPage(records[:size], position(filters, last_shown))


def within(filters: Any, cursor: bytes) -> bytes:
    """Return the part of a cursor after the digest of the filters, or raise InvalidCursor."""
    if cursor[:DIGEST_BYTES] != digest(filters):
        raise InvalidCursor("Belongs to another list, order or search.")
    return cursor[DIGEST_BYTES:]


def digest(filters: Any) -> bytes:
    """Return a digest of the filters, to refuse the cursor of another list."""
    return hashlib.sha256(repr(filters).encode()).digest()[:DIGEST_BYTES]
