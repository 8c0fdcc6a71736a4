"""Pages of a collection, of all documents or of those whose name holds a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.collection import Collection

from app.paging import Page, Window
from app.storage.totals import Total

Document = dict[str, Any]
Sort = Sequence[tuple[str, int]]
Fields = Mapping[str, Any]

ONLY_THE_NAME = {"NameKey": 1, "_id": 0}


class Pages:
    """Reads one collection page by page; every order given must be total."""

    def __init__(self, collection: Collection[Document], total_seconds: float) -> None:
        self._collection = collection
        self._total = Total(collection, total_seconds)

    def read(
        self, window: Window, sort: Sort, fields: Fields, where: Document | None = None
    ) -> Page:
        """Return one page of all documents, or of those that a filter takes."""
        values = self._part(window, sort, fields, where or {})
        total = self._collection.count_documents(where) if where else self._total.get()
        return Page(total, values)

    def search(self, window: Window, sort: Sort, fields: Fields, text: str) -> Page:
        """Return one page of the documents whose name holds a text, both as name keys.

        The names of the page are chosen in an index, so that no document is read but its own.
        """
        ends = {"NameTails": {"$regex": f"^{re.escape(text)}"}}
        matching = self._collection.count_documents(ends)
        if sort[0][0] == "NameKey":
            chosen = self._part(window, sort, ONLY_THE_NAME, ends, "name_tails")
        elif self._is_common(matching, window):
            # The first says nothing, but without a word on its leading field MongoDB would use
            # the index of that order to walk by, and look for the name in each document.
            like = {sort[0][0]: {"$ne": ""}, "NameKey": {"$regex": re.escape(text)}}
            chosen = self._part(window, sort, ONLY_THE_NAME, like)
        else:
            return Page(matching, self._part(window, sort, fields, ends, "name_tails"))
        names = {"NameKey": {"$in": [document["NameKey"] for document in chosen]}}
        return Page(matching, list(self._collection.find(names, fields, sort=list(sort))))

    def _part(
        self, window: Window, sort: Sort, fields: Fields, where: Document, index: str | None = None
    ) -> list[Document]:
        cursor = self._collection.find(where, fields, sort=list(sort)).hint(index)
        return list(cursor.skip(window.start).limit(window.limit))

    def _is_common(self, matching: int, window: Window) -> bool:
        """Whether to walk an order until enough names match, or to sort all that match.

        Every so many-th name matches, so the walk meets about all / matching names for each one
        that it finds; sorting reads each that matches.
        """
        return matching**2 > self._total.get() * (window.start + window.limit)
