"""Pages of a collection, and its total."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.collection import Collection

from app.paging import Page, Window

Document = dict[str, Any]
Sort = Sequence[tuple[str, int]]

DRIFT_SECONDS = 600


class Pages:
    """Reads one collection page by page."""

    def __init__(self, collection: Collection[Document], total_seconds: float) -> None:
        self._collection = collection
        self._total = Total(collection, total_seconds)

    def read(
        self, window: Window, sort: Sort, fields: Mapping[str, Any], where: Document | None = None
    ) -> Page:
        """Return one page in the given order, which must be total."""
        cursor = self._collection.find(where or {}, fields, sort=list(sort))
        values = list(cursor.skip(window.page * window.size).limit(window.limit))
        total = self._collection.count_documents(where) if where else self._total.get()
        return Page(total, values)


class Total:
    """How many documents a collection has, at most some seconds ago.

    MongoDB's own counter answers at once, whatever the size, but a server that died without a
    shutdown may have left it wrong. That error does not change while the server runs, so it is
    measured now and then by a true count, and subtracted.
    """

    def __init__(self, collection: Collection[Document], seconds: float) -> None:
        self._collection = collection
        self._seconds = seconds
        self._error = 0
        self._measured_at = float("-inf")
        self._value = 0
        self._read_at = float("-inf")

    def get(self) -> int:
        now = time.monotonic()
        if not self._seconds:
            return self._collection.count_documents({})
        if now - self._measured_at > DRIFT_SECONDS:
            self._measure_error()
            self._measured_at = now
        if now - self._read_at > self._seconds:
            self._value = self._collection.estimated_document_count() - self._error
            self._read_at = now
        return self._value

    def _measure_error(self) -> None:
        """Compare the counter with a true count; a write between the two must not deceive us."""
        for _ in range(3):
            before = self._collection.estimated_document_count()
            count = self._collection.count_documents({}, hint="_id_")
            if self._collection.estimated_document_count() == before:
                self._error = before - count
                return
