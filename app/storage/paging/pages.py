"""Pages of a collection, of all documents or of those whose name holds a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pymongo.collection import Collection

from app.paging import Page, Window
from app.storage.paging.orders import AS_STORED, Order
from app.storage.paging.totals import Total
from app.storage.timing import TimedCollection
from app.types import Document

Fields = Mapping[str, Any]

NAME_TAILS = "name_tails"
# How often a page is read anew that somebody changed under our hands.
TRIES = 3


class Pages:
    """Reads one collection page by page.

    A page by its number is counted from the beginning, in the index of its order: MongoDB reads no
    document that it skips. A page after a place costs the same at any depth.
    """

    def __init__(self, collection: Collection[Document], total_seconds: float) -> None:
        self._collection = collection
        self._keys = collection
        if isinstance(collection, TimedCollection):
            self._keys = collection.with_options(codec_options=AS_STORED)
        self._total = Total(collection, total_seconds)

    def read(self, window: Window, order: Order, fields: Fields) -> Page:
        """Return one page of all documents."""
        total = self._total.get()
        if window.after is None:
            return Page(total, self._part(window, order, fields, {}))
        return self._chosen(total, window, order, fields, {}, order.held_by)

    def filtered(self, window: Window, order: Order, fields: Fields, where: Document) -> Page:
        """Return one page of the documents that a filter takes."""
        values = self._part(window, order, fields, where)
        return Page(self._collection.count_documents(where), values)

    def search(self, window: Window, order: Order, fields: Fields, text: str) -> Page:
        """Return one page of the documents whose name holds a text, both as name keys."""
        ends = {"NameTails": {"$regex": f"^{re.escape(text)}"}}
        matching = self._collection.count_documents(ends)
        if order.names[0] != "NameKey" and self._is_common(matching, window):
            # The first says nothing, but without a word on its leading field MongoDB would use
            # the index of that order to walk by, and look for the name in each document.
            like = {order.names[0]: {"$ne": ""}, "NameKey": {"$regex": re.escape(text)}}
            return self._chosen(matching, window, order, fields, like, order.held_by, text)
        if order.names[0] == "NameKey" or window.after is not None:
            return self._chosen(matching, window, order, fields, ends, NAME_TAILS, text)
        return Page(matching, self._part(window, order, fields, ends, NAME_TAILS))

    def _part(
        self,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str | None = None,
    ) -> list[Document]:
        """Read a page by its number at once.

        A document that is moved on during the read may be met again; then we read anew.
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
        """Choose the documents of a page in an index, and read no others.

        What is moved meanwhile is served as it is then, in order, and once. What is gone leaves a
        gap, and a short page looks like the last one; then we choose anew.
        """
        list_name = f"{self._collection.name} {text}"
        for _ in range(TRIES):
            keys = self._choose(window, order, where, index, list_name)
            chosen = keys[: window.limit]
            values = self._named(chosen, order, fields)
            if len(values) == len(chosen):
                break
        is_last = len(keys) <= window.limit
        return Page(total, values, None if is_last else order.place(list_name, chosen[-1]))

    def _choose(
        self, window: Window, order: Order, where: Document, index: str, list_name: str
    ) -> list[Document]:
        """Return the keys of the page, and after a place those of one more, if there is one."""
        fields = {**dict.fromkeys(order.names, 1), "_id": 0}
        limits = (window.start, window.limit) if window.after is None else (0, window.limit + 1)
        if window.after:
            ranges = order.after(window.after, list_name)
            if not ranges:
                return []
            where = _within(where, ranges, index)
        return self._sound(where, fields, order, *limits, index)

    def _sound(
        self, where: Document, fields: Fields, order: Order, skip: int, limit: int, index: str
    ) -> list[Document]:
        """Find so many keys that stand in one place, passing over those that do not."""
        odd = 0
        while True:
            keys = self._find(self._keys, where, fields, order, skip, limit + odd, index)
            sound = [key for key in keys if order.is_sound(key)]
            if len(sound) >= limit or len(keys) < limit + odd:
                return sound[:limit]
            odd = len(keys) - len(sound)

    def _named(self, keys: list[Document], order: Order, fields: Fields) -> list[Document]:
        """Read the documents that have these keys, in order."""
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
        if isinstance(collection, TimedCollection):
            return collection.find_all(where, fields, order.sort, skip, limit, index)
        cursor = collection.find(where, fields, sort=list(order.sort)).hint(index)
        return list(cursor.skip(skip).limit(limit))

    def _is_common(self, matching: int, window: Window) -> bool:
        """Whether to walk an order until enough names match, or to sort all that match.

        Every so many-th name matches, so the walk meets about all / matching names for each one
        that it finds; sorting reads each that matches.
        """
        return matching**2 > self._total.get() * (window.start + window.limit)


def _within(where: Document, ranges: list[Document], index: str) -> Document:
    """Return a filter for what it takes in these ranges."""
    if index == NAME_TAILS:
        # Its keys are in the order of their ends, so each range would be read from all of them.
        return {"$and": [where, {"$or": ranges}]}
    return {"$or": [_both(where, part) for part in ranges]}


def _both(one: Document, other: Document) -> Document:
    return {name: {**one.get(name, {}), **other.get(name, {})} for name in {**one, **other}}
