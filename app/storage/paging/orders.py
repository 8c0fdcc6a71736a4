"""Total orders of documents, and places in them from which a list goes on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from app.errors import InvalidCursor
from app.types import Document

DIGEST_BYTES = 8
# A date beyond year 9999 is a place like any other, though it is served as the last there is.
AS_STORED: CodecOptions[Document] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
# The least value of each kind that a field may hold, in the order in which MongoDB sorts kinds.
# Before all of them comes null, which is also where a field is missing.
LEAST = (float("-inf"), "", False, datetime(1, 1, 1, tzinfo=timezone.utc))
# What Python calls the same kinds; True is an int as well, so the last one that fits counts.
KINDS = ((int, float, Decimal128), (str,), (bool,), (datetime, DatetimeMS))


class Order(NamedTuple):
    """A total order, since its last field is unique, and the index that holds it."""

    held_by: str
    sort: Sequence[tuple[str, int]]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.sort]

    @property
    def unique(self) -> str:
        return self.names[-1]

    def place(self, list_name: str, document: Document) -> bytes:
        """Return where a document stands in a list of this order."""
        return self._digest(list_name) + bson.encode({n: document.get(n) for n in self.names})

    def is_sound(self, keys: Document) -> bool:
        """Tell whether keys stand in one place: a list stands in many, and the last must be a text.

        What db check would report is left out of walks, so that it does not lead the others astray.
        """
        if any(isinstance(value, list) for value in keys.values()):
            return False
        return isinstance(keys.get(self.unique), str | None)

    def after(self, place: bytes, list_name: str) -> list[Document]:
        """Return the filters, one of which takes any document beyond a place; each is a range.

        A comparison in MongoDB takes values of its own kind alone, so the other kinds that are
        sorted beyond have ranges of their own.
        """
        if place[:DIGEST_BYTES] != self._digest(list_name):
            raise InvalidCursor("Belongs to another list, order or search.")
        keys = bson.decode(place[DIGEST_BYTES:], AS_STORED)
        ranges: list[Document] = []
        equal: Document = {}
        for name, direction in self.sort:
            split = _beyond if name != self.unique else _beyond_text
            beyond = split(keys[name], is_upwards=direction > 0)
            ranges += [{**equal, name: condition} for condition in beyond]
            equal[name] = {"$eq": keys[name]}
        return ranges

    def _digest(self, list_name: str) -> bytes:
        """Return what a place says of its list; the text of a search may be long, and this is not.

        The fields are in it: a place of another version of this program has others.
        """
        told = repr((list_name, list(self.sort))).encode()
        return hashlib.blake2b(told, digest_size=DIGEST_BYTES).digest()


def _beyond(value: Any, is_upwards: bool) -> list[Document]:
    """Return the conditions of the ranges beyond a value."""
    if value is None:
        return [{"$ne": None}] if is_upwards else []
    if _is_nan(value):  # which MongoDB sorts before all other numbers, and compares to none
        return [{"$gte": least} for least in LEAST] if is_upwards else [{"$eq": None}]
    fitting = [number for number, kind in enumerate(KINDS) if isinstance(value, kind)]
    # Kinds that nobody stores there (maps, ids) stand between texts and flags.
    below, above = (fitting[-1], fitting[-1] + 1) if fitting else (2, 2)
    if is_upwards:
        return [{"$gt": value}, *({"$gte": least} for least in LEAST[above:])]
    lesser = [{"$gte": least} for least in LEAST[:below]]
    return [{"$lt": value}, *lesser, {"$eq": float("nan")}, {"$eq": None}]


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal128):
        return value.to_decimal().is_nan()
    return isinstance(value, float) and math.isnan(value)


def _beyond_text(value: str | None, is_upwards: bool) -> list[Document]:
    """Return the condition beyond a text of ours, which one document may lack at most.

    One range must do: MongoDB merges ranges by their documents, in which null and missing differ.
    """
    if value is None:
        return _beyond(value, is_upwards)
    return [{"$gt": value} if is_upwards else {"$not": {"$gte": value}}]
