"""Pages of a collection, of all documents or of those whose name holds a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pymongo.collection import Collection

from app.paging import Page, Window
from app.storage.paging.orders import AS_STORED, Order
from app.storage.paging.totals import Total
from app.types import Document

Fields = Mapping[str, Any]

NAME_TAILS = "name_tails"
# How often a page is read again after a concurrent change.
TRIES = 3


class Pages:
    """Reads one collection page by page.

    A page by number skips keys in the index of its order, and fetches no document that it skips. A
    page after a position costs the same at any depth.
    """

    def __init__(self, collection: Collection[Document], total_seconds: float) -> None:
        self._collection = collection
        self._keys = collection
        if isinstance(collection, Collection):  # mongomock has no such options
            self._keys = collection.with_options(codec_options=AS_STORED)
        self._total = Total(collection, total_seconds)

    def total(self) -> int:
        """Return how many documents there are, as it was some seconds ago at most."""
        return self._total.get()

    def read(self, window: Window, order: Order, fields: Fields) -> Page:
        """Return one page of all documents."""
        total = self._total.get()
        if window.after is None:
            return Page(total, self._part(window, order, fields, {}))
        return self._chosen(total, window, order, fields, {}, order.held_by)

    def filtered(
        self,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str | None = None,
    ) -> Page:
        """Return one page of the documents that match a filter."""
        values = self._part(window, order, fields, where, index)
        return Page(self._collection.count_documents(where), values)

    def walk(
        self,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str,
        list_name: str,
    ) -> Page:
        """Return the next page of the documents that match a filter, without their number."""
        return self._chosen(0, window, order, fields, where, index, list_name)

    def search(self, window: Window, order: Order, fields: Fields, text: str) -> Page:
        """Return one page of the documents whose name holds a text, both as name keys."""
        by_tail = {"NameTails": {"$regex": f"^{re.escape(text)}"}}
        matching = self._collection.count_documents(by_tail)
        if order.names[0] != "NameKey" and self._is_common(matching, window):
            # The first condition always holds. Without a condition on the leading field, MongoDB
            # would scan the index for its order and fetch each document to test the name.
            like = {order.names[0]: {"$ne": ""}, "NameKey": {"$regex": re.escape(text)}}
            return self._chosen(matching, window, order, fields, like, order.held_by, text)
        if order.names[0] == "NameKey" or window.after is not None:
            return self._chosen(matching, window, order, fields, by_tail, NAME_TAILS, text)
        return Page(matching, self._part(window, order, fields, by_tail, NAME_TAILS))

    def _part(
        self,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str | None = None,
    ) -> list[Document]:
        """Read a page by its number in one query.

        The index scan may meet a document twice that is moved meanwhile; then the page is read
        again.
        """
        for _ in range(TRIES):
            limits = window.start, window.limit
            found = self._find(self._collection, where, fields, order, *limits, index)
            once: Document = {}
            for document in found:
                once.setdefault(document["_id"], document)
            if len(once) == len(found):
                break
        return list(once.values())

    def _chosen(
        self,
        total: int,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str,
        text: str = "",
    ) -> Page:
        """Choose the keys of a page in an index, then fetch these documents only.

        A document that is moved meanwhile is served as it is then, in order, and once. One that is
        deleted leaves a gap, and a short page looks like the last one, so the keys are chosen
        again.
        """
        list_name = f"{self._collection.name} {text}"
        for _ in range(TRIES):
            keys = self._choose(window, order, where, index, list_name)
            chosen = keys[: window.limit]
            values = self._fetch(chosen, order, fields)
            if len(values) == len(chosen):
                break
        is_last = len(keys) <= window.limit
        return Page(total, values, None if is_last else order.position(list_name, chosen[-1]))

    def _choose(
        self, window: Window, order: Order, where: Document, index: str, list_name: str
    ) -> list[Document]:
        """Return the keys of the page; in a walk one more, to see whether there is a next."""
        fields = {"_id": 0, **dict.fromkeys(order.names, 1)}
        limits = (window.start, window.limit) if window.after is None else (0, window.limit + 1)
        if window.after:
            ranges = order.after(window.after, list_name)
            if not ranges:
                return []
            where = _within(where, ranges, index)
        return self._find_keys(where, fields, order, *limits, index)

    def _find_keys(
        self, where: Document, fields: Fields, order: Order, skip: int, limit: int, index: str
    ) -> list[Document]:
        """Find so many keys that have one position, skipping those of damaged documents."""
        skipped = 0
        while True:
            keys = self._find(self._keys, where, fields, order, skip, limit + skipped, index)
            usable = [key for key in keys if order.has_one_position(key)]
            if len(usable) >= limit or len(keys) < limit + skipped:
                return usable[:limit]
            skipped = len(keys) - len(usable)

    def _fetch(self, keys: list[Document], order: Order, fields: Fields) -> list[Document]:
        """Fetch the documents that have these keys, in order."""
        unique = order.unique
        where = {unique: {"$in": [key.get(unique) for key in keys]}}
        return self._find(self._collection, where, fields, order, 0, len(keys), {unique: 1})

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

    def _is_common(self, matching: int, window: Window) -> bool:
        """Tell whether scanning the order until enough names match is cheaper than sorting matches.

        The scan meets about total / matching names for each match; the sort fetches every match.
        """
        return matching**2 > self._total.get() * (window.start + window.limit)


def _within(where: Document, ranges: list[Document], index: str) -> Document:
    """Return a filter that is limited to these ranges."""
    if index == NAME_TAILS:
        # This index is sorted by tails, so that each range of an $or would scan all matches.
        return {"$and": [where, {"$or": ranges}]}
    return {"$or": [_both(where, part) for part in ranges]}


def _both(one: Document, other: Document) -> Document:
    return {name: {**one.get(name, {}), **other.get(name, {})} for name in {**one, **other}}
