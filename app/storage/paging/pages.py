"""Pages of a collection: of all documents, or of those whose name contains a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pymongo.collection import Collection

from app.core.paging import Page, Window
from app.core.types import Document
from app.storage.paging.orders import AS_STORED, Order
from app.storage.paging.totals import Total

Fields = Mapping[str, Any]

NAME_TAILS = "name_tails"


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
        # The number of documents, at most some seconds old.
        self.total = Total(collection, total_seconds).get

    def read(self, window: Window, order: Order, fields: Fields) -> Page:
        """Return one page of all documents."""
        total = self.total()
        if window.after is None:
            return Page(total, self._read_by_number(window, order, fields, {}, None))
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
        values = self._read_by_number(window, order, fields, where, index)
        return Page(self._collection.count_documents(where), values)

    def walk(
        self, window: Window, order: Order, fields: Fields, where: Document, index: str, name: str
    ) -> Page:
        """Return the next page of the documents that match a filter, without the total."""
        return self._read_by_keys(0, window, Listing(order, fields, where, index, name))

    def search(self, window: Window, order: Order, fields: Fields, text: str) -> Page:
        """Return one page of the documents whose name contains a text, both as name keys."""
        by_tail = {"NameTails": {"$regex": f"^{re.escape(text)}"}}
        matching = self._collection.count_documents(by_tail)
        listing = Listing(order, fields, by_tail, NAME_TAILS, text)
        # Whether scanning until enough names match is cheaper than sorting all matches: the scan
        # reads about total / matching names for each match; the sort fetches every match.
        if matching**2 > self.total() * (window.start + window.limit):
            # The first condition is always true. Without a condition on the leading field, MongoDB
            # would scan the index for its order, and fetch each document to test the name.
            like = {order.names[0]: {"$ne": ""}, "NameKey": {"$regex": re.escape(text)}}
            listing = listing._replace(where=like, hint=order.held_by)
        return self._read_by_keys(matching, window, listing)

    def _read_by_number(
        self, window: Window, order: Order, fields: Fields, where: Document, index: str | None
    ) -> list[Document]:
        """Read a page by its number in one query.

        If a document moves during the index scan, it appears twice, and is returned once.
        """
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
        skip, limit = window.start, window.limit
        ranges: list[Document] = [{}]
        if window.after is not None:
            skip, limit = 0, window.limit + 1
        if window.after:
            ranges = listing.order.after(window.after, name)
            if ranges and listing.hint == NAME_TAILS:
                # This index is sorted by tails: each range would scan all matches.
                ranges = [{"$or": ranges}]
        keys: list[Document] = []
        for part in ranges:
            where = {"$and": [listing.where, part]}
            keys += self._usable_keys(where, listing, skip, limit - len(keys))
        return keys

    def _usable_keys(
        self, where: Document, listing: Listing, skip: int, limit: int
    ) -> list[Document]:
        """Return the first sort keys without those of damaged documents, which have no position."""
        fields = {"_id": 0, **dict.fromkeys(listing.order.names, 1)}
        more = 0
        while True:
            wanted = limit + more
            keys = self._find(self._keys, where, fields, listing.order, skip, wanted, listing.hint)
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
