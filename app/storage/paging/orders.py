"""Total orders of documents, and positions in them from which a list continues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from app.core.types import Document
from app.storage.paging.newest_first import digest, within
from app.storage.schema.plan import sort_keys

# Positions keep dates beyond year 9999 as stored; the storage client clamps them.
AS_STORED: CodecOptions[Document] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
# The smallest value of each BSON type that a field may have, in MongoDB's sort order of types.
# Null, which includes missing fields, sorts before all of them.
LEAST = (float("-inf"), "", False, datetime(1, 1, 1, tzinfo=timezone.utc))
# The Python types of these; bool is a subclass of int, so the last match counts.
KINDS = ((int, float, Decimal128), (str,), (bool,), (datetime, DatetimeMS))


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
        """Return filters, each an index range, that together match the documents after a position.

        A comparison in MongoDB only matches values of the same BSON type, so each type that sorts
        after it has its own range.
        """
        keys = bson.decode(within((list_name, self.sort), position), AS_STORED)
        ranges: list[Document] = []
        equal: Document = {}
        for name, direction in self.sort:
            split = _following if name != self.unique else _following_string
            following = split(keys[name], is_upwards=direction > 0)
            ranges += [{**equal, name: condition} for condition in following]
            equal[name] = {"$eq": keys[name]}
        return ranges


def order(held_by: str, *keys: str) -> Order:
    return Order(held_by, sort_keys(*keys))


def _following(value: Any, is_upwards: bool) -> list[Document]:
    """Return the conditions for the ranges after a value."""
    if value is None:
        return [{"$ne": None}] if is_upwards else []
    if _is_nan(value):  # MongoDB sorts NaN before all numbers, and $gt and $lt never match it
        return [{"$gte": least} for least in LEAST] if is_upwards else [{"$eq": None}]
    fitting = [number for number, kind in enumerate(KINDS) if isinstance(value, kind)]
    # Other types (objects, ObjectIds) sort between strings and booleans.
    below, above = (fitting[-1], fitting[-1] + 1) if fitting else (2, 2)
    if is_upwards:
        return [{"$gt": value}, *({"$gte": least} for least in LEAST[above:])]
    lesser = [{"$gte": least} for least in LEAST[:below]]
    return [{"$lt": value}, *lesser, {"$eq": float("nan")}, {"$eq": None}]


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal128):
        return value.to_decimal().is_nan()
    return isinstance(value, float) and math.isnan(value)


def _following_string(value: str | None, is_upwards: bool) -> list[Document]:
    """Return the condition for strings after a unique one, which at most one document lacks.

    It must be one range: MongoDB merges the sorted ranges of an $or by the fetched documents, in
    which null and missing differ.
    """
    if value is None:
        return _following(value, is_upwards)
    return [{"$gt": value} if is_upwards else {"$not": {"$gte": value}}]
