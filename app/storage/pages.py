"""Pages of a collection, of all documents or of those whose name holds a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pymongo.collection import Collection
from pymongo.cursor import Cursor

from app.paging import Page, Window
from app.storage.page_starts import PageStarts, Start
from app.storage.timing import TimedCollection
from app.storage.totals import Total

Document = dict[str, Any]
Fields = Mapping[str, Any]

ONLY_THE_NAME = {"NameKey": 1, "_id": 0}
# From here on, remembering where pages start costs less than counting to them.
DEEP = 2000


class Order(NamedTuple):
    """A total order, and the index that holds it, forwards or backwards."""

    held_by: str
    sort: Sequence[tuple[str, int]]
    is_backwards: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.sort]

    def __str__(self) -> str:
        return f"{self.held_by} backwards" if self.is_backwards else self.held_by


class Pages:
    """Reads one collection page by page."""

    def __init__(self, collection: Collection[Document], total_seconds: float) -> None:
        self._collection = collection
        self._total = Total(collection, total_seconds)
        self._starts = PageStarts(collection.database, collection.name)

    def read(self, window: Window, order: Order, fields: Fields) -> Page:
        """Return one page of all documents."""
        total = self._total.get()
        if window.start + window.limit >= DEEP:
            return Page(total, self._deep(window, order, fields, total))
        return Page(total, self._part(window, order, fields, {}))

    def filtered(self, window: Window, order: Order, fields: Fields, where: Document) -> Page:
        """Return one page of the documents that a filter takes."""
        values = self._part(window, order, fields, where)
        return Page(self._collection.count_documents(where), values)

    def search(self, window: Window, order: Order, fields: Fields, text: str) -> Page:
        """Return one page of the documents whose name holds a text, both as name keys.

        The names of the page are chosen in an index, so that no document is read but its own.
        """
        ends = {"NameTails": {"$regex": f"^{re.escape(text)}"}}
        matching = self._collection.count_documents(ends)
        if order.names[0] == "NameKey":
            chosen = self._part(window, order, ONLY_THE_NAME, ends, "name_tails")
        elif self._is_common(matching, window):
            # The first says nothing, but without a word on its leading field MongoDB would use
            # the index of that order to walk by, and look for the name in each document.
            like = {order.names[0]: {"$ne": ""}, "NameKey": {"$regex": re.escape(text)}}
            chosen = self._part(window, order, ONLY_THE_NAME, like)
        else:
            return Page(matching, self._part(window, order, fields, ends, "name_tails"))
        names = {"NameKey": {"$in": [document["NameKey"] for document in chosen]}}
        return Page(matching, list(self._collection.find(names, fields, sort=list(order.sort))))

    def _part(
        self,
        window: Window,
        order: Order,
        fields: Fields,
        where: Document,
        index: str | None = None,
    ) -> list[Document]:
        limits = window.start, window.limit
        if isinstance(self._collection, TimedCollection):
            return self._collection.find_all(where, fields, order.sort, *limits, index)
        cursor = self._collection.find(where, fields, sort=list(order.sort)).hint(index)
        return list(cursor.skip(window.start).limit(window.limit))

    def _deep(self, window: Window, order: Order, fields: Fields, total: int) -> list[Document]:
        """Read a page from the nearest known start on, and remember where the next one starts."""
        is_inclusive = any(value for name, value in fields.items() if name != "_id")
        added = [name for name in order.names if (name in fields) != is_inclusive]
        chosen = {name: value for name, value in fields.items() if name not in added}
        chosen |= dict.fromkeys(added, 1) if is_inclusive else {}
        near = self._starts.nearest(str(order), window.start, total)
        cursor = self._from(near, order, chosen).skip(window.start - near.offset)
        values = list(cursor.limit(window.limit))
        if values:
            is_last = len(values) < window.limit
            following = window.start + (window.size if is_last else window.limit)
            start = Start(following, [values[-1][name] for name in order.names])
            self._starts.remember(str(order), start, total)
        for value in values:
            for name in added:
                del value[name]
        return values

    def _from(self, start: Start, order: Order, fields: Fields) -> Cursor[Document]:
        cursor = self._collection.find({}, fields, sort=list(order.sort)).hint(order.held_by)
        if not start.keys:
            return cursor
        # An index is read downwards from below a key, but upwards from that key on: right after
        # it comes what no name holds, since all orders end in a name or an address.
        bound = dict(zip(order.names, start.keys, strict=True))
        if order.is_backwards:
            return cursor.max(list(bound.items()))
        bound[order.names[-1]] += "\0"
        return cursor.min(list(bound.items()))

    def _is_common(self, matching: int, window: Window) -> bool:
        """Whether to walk an order until enough names match, or to sort all that match.

        Every so many-th name matches, so the walk meets about all / matching names for each one
        that it finds; sorting reads each that matches.
        """
        return matching**2 > self._total.get() * (window.start + window.limit)
