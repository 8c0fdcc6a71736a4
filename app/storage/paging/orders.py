"""Total orders of documents, and positions in them from which a list continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from app.core.types import Document
from app.storage.paging.newest_first import digest, within
from app.storage.schema.plan import sort_keys

# Positions keep dates beyond year 9999 as stored; the storage client clamps them.
AS_STORED: CodecOptions[Document] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


class Order(NamedTuple):
    """A sort order and its index. The order is total: its last field is unique."""

    held_by: str
    sort: Sequence[tuple[str, int]]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.sort]

    @property
    def unique(self) -> str:
        return self.names[-1]

    def position(self, list_name: str, document: Document) -> bytes:
        """Return the position of a document in a list with this order."""
        return digest((list_name, self.sort)) + bson.encode(
            {n: document.get(n) for n in self.names}
        )

    def has_one_position(self, keys: Document) -> bool:
        """Return whether sort keys have a unique position: no arrays, and the last key is a string.

        Damaged documents, which db check reports, are left out of lists with cursors: the position
        after one could skip or repeat other documents.
        """
        if any(isinstance(value, list) for value in keys.values()):
            return False
        return isinstance(keys.get(self.unique), str | None)

    def after(self, position: bytes, list_name: str) -> list[Document]:
        """Return filters for the documents after a position, those of the first filter first.

        Each is one range of the index. The ranges of an $or would be merged by the fetched
        documents, in which null and missing differ.
        """
        keys = bson.decode(within((list_name, self.sort), position), AS_STORED)
        ranges: list[Document] = []
        equal: Document = {}
        for name, direction in self.sort:
            value, is_upwards = keys[name], direction > 0
            if value is None:  # null, which includes missing fields, sorts before all else
                following: Document = {name: {"$ne": None}}
            elif name == self.unique:
                # At most one document lacks it.
                following = {name: {"$gt": value} if is_upwards else {"$not": {"$gte": value}}}
            else:
                # Only in an $expr, $gt and $lt compare values of any type, as the index does.
                operator = "$gt" if is_upwards else "$lt"
                following = {"$expr": {operator: [f"${name}", {"$literal": value}]}}
            if value is not None or is_upwards:
                ranges.append({**equal, **following})
            equal[name] = {"$eq": value}
        return ranges[::-1]


def order(held_by: str, *keys: str) -> Order:
    return Order(held_by, sort_keys(*keys))
