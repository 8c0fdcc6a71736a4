"""Pages of a collection: of all documents, or of those whose name contains a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from threading import Lock
from typing import Any, NamedTuple

from cachetools import TTLCache
from pymongo.collection import Collection

from app.core.paging import Page, Window
from app.core.types import Document
from app.storage.paging.orders import AS_STORED, Order
from app.storage.paging.totals import Total

Fields = Mapping[str, Any]

NAME_TAILS = "name_tails"
# A count of more matches than this is cached like other totals. It would cost a microsecond or two
# for each of them, again for every page.
CHEAP_COUNT = 1000
CACHED_COUNTS = 100


class Listing(NamedTuple):
    """The documents that match a filter, in an order, and the index that finds them."""

    order: Order
    fields: Fields
    where: Document
    hint: str | None
    # Distinguishes the cursors of different lists.
    name: str = ""


class Pages:
    """Reads one collection page by page.

    A page by number skips keys in an index, without fetching the skipped documents. A page after a
    position costs the same at any depth.
    """

    def __init__(self, collection: Collection[Document], total_seconds: float) -> None:
        self._collection = collection
        self._keys = collection
        if isinstance(collection, Collection):  # mongomock has no such options
            self._keys = collection.with_options(codec_options=AS_STORED)
        self._total = Total(collection, total_seconds)
        self._counts: TTLCache[str, int] = TTLCache(CACHED_COUNTS, total_seconds)
        self._counts_lock = Lock()

    def total(self) -> int:
        """Return the number of documents, at most some seconds old."""
        return self._total.get()

    def read(self, window: Window, order: Order, fields: Fields) -> Page:
        """Return one page of all documents."""
        total = self._total.get()
        if window.after is None:
            return Page(total, self._read_by_number(window, Listing(order, fields, {}, None)))
        return self._read_by_keys(total, window, Listing(order, fields, {}, order.held_by))

    def read_filtered(
        self,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str | None = None,
    ) -> Page:
        """Return one page of the documents that match a filter."""
        values = self._read_by_number(window, Listing(order, fields, where, index))
        return Page(self._collection.count_documents(where), values)

    def walk(
        self, window: Window, order: Order, fields: Fields, where: Document, index: str, name: str
    ) -> Page:
        """Return the next page of the documents that match a filter, without the total."""
        return self._read_by_keys(0, window, Listing(order, fields, where, index, name))

    def search(self, window: Window, order: Order, fields: Fields, text: str) -> Page:
        """Return one page of the documents whose name contains a text, both as name keys."""
        by_tail = {"NameTails": {"$regex": f"^{re.escape(text)}"}}
        matching = self._count(text, by_tail)
        listing = Listing(order, fields, by_tail, NAME_TAILS, text)
        # Whether scanning until enough names match is cheaper than sorting all matches: the scan
        # reads about total / matching names for each match; the sort fetches every match.
        if matching**2 > self._total.get() * (window.start + window.limit):
            # The first condition is always true. Without a condition on the leading field, MongoDB
            # would scan the index for its order, and fetch each document to test the name.
            like = {order.names[0]: {"$ne": ""}, "NameKey": {"$regex": re.escape(text)}}
            listing = listing._replace(where=like, hint=order.held_by)
        return self._read_by_keys(matching, window, listing)

    def _count(self, text: str, by_tail: Document) -> int:
        """Count the documents whose name contains a text; a high count may be some seconds old."""
        with self._counts_lock:
            known = self._counts.get(text)
        if known is not None:
            return known
        count = self._collection.count_documents(by_tail)
        if count > CHEAP_COUNT:
            with self._counts_lock:
                self._counts[text] = count
        return count

    def _read_by_number(self, window: Window, listing: Listing) -> list[Document]:
        """Read a page by its number in one query.

        If a document moves during the index scan, it appears twice, and is returned once.
        """
        order, fields, where, index, _ = listing
        limits = window.start, window.limit
        found = self._find(self._collection, where, fields, order, *limits, index)
        return list({document["_id"]: document for document in found}.values())

    def _read_by_keys(self, total: int, window: Window, listing: Listing) -> Page:
        """Choose the keys of a page in an index, then fetch only these documents.

        A document that moves meanwhile is returned once, with its new values, in order. One that is
        deleted meanwhile is left out.
        """
        order, unique = listing.order, listing.order.unique
        name = f"{self._collection.name} {listing.name}"
        keys = self._choose(window, listing, name)
        chosen = keys[: window.limit]
        of_these = {unique: {"$in": [key.get(unique) for key in chosen]}}
        values = self._find(
            self._collection, of_these, listing.fields, order, 0, len(chosen), {unique: 1}
        )
        is_last = len(keys) <= window.limit
        return Page(total, values, None if is_last else order.position(name, chosen[-1]))

    def _choose(self, window: Window, listing: Listing, name: str) -> list[Document]:
        """Return the keys of the page; with a cursor, one more to detect a next page."""
        where, index = listing.where, listing.hint
        skip, limit = (window.start, window.limit)
        if window.after is not None:
            skip, limit = 0, window.limit + 1
        if window.after:
            ranges = listing.order.after(window.after, name)
            if not ranges:
                return []
            where = _within(where, ranges, index)
        fields = {"_id": 0, **dict.fromkeys(listing.order.names, 1)}
        # Damaged documents have no position and are skipped, so more keys may be needed.
        more = 0
        while True:
            wanted = limit + more
            keys = self._find(self._keys, where, fields, listing.order, skip, wanted, index)
            usable = [key for key in keys if listing.order.has_one_position(key)]
            if len(usable) >= limit or len(keys) < wanted:
                return usable[:limit]
            more = len(keys) - len(usable)

    def _find(
        self,
        collection: Collection[Document],
        where: Document,
        fields: Fields,
        order: Order,
        skip: int,
        limit: int,
        index: Any,
    ) -> list[Document]:
        if not limit:
            return []
        cursor = collection.find(where, fields, sort=list(order.sort)).hint(index)
        return list(cursor.skip(skip).limit(limit))


def _within(where: Document, ranges: list[Document], index: str | None) -> Document:
    """Return a filter that is limited to these ranges."""
    if index == NAME_TAILS:
        # This index is sorted by tails: each range of an $or would scan all matches.
        return {"$and": [where, {"$or": ranges}]}
    return {"$or": [_both(where, part) for part in ranges]}


def _both(one: Document, other: Document) -> Document:
    return {name: {**one.get(name, {}), **other.get(name, {})} for name in {**one, **other}}
