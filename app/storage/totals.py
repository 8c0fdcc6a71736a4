"""How many documents a collection has, in all or of a kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import PyMongoError

Document = dict[str, Any]

DRIFT_SECONDS = 600


class Fresh:
    """A number that is read again when it is some seconds old."""

    def __init__(self, seconds: float, read: Callable[[], int]) -> None:
        self._seconds = seconds
        self._read = read
        self._value = 0
        self._read_at = float("-inf")

    def get(self) -> int:
        now = time.monotonic()
        if now - self._read_at >= self._seconds:
            self._value = self._read()
            self._read_at = now
        return self._value


class Total:
    """How many documents a collection has, at most some seconds ago.

    MongoDB's own counter answers at once, whatever the size, but a server that died without a
    shutdown may have left it wrong. That error stays the same while the same server leads, so it
    is measured now and then by a true count, and subtracted.
    """

    def __init__(self, collection: Collection[Document], seconds: float) -> None:
        self._collection = collection
        self._measuring = threading.Lock()
        self._error = 0
        self._measured: tuple[Any, float] = (None, float("-inf"))
        self.get = Fresh(seconds, self._estimate if seconds else self._count).get

    def _count(self) -> int:
        return self._collection.count_documents({})

    def _estimate(self) -> int:
        self._correct(time.monotonic())
        return self._collection.estimated_document_count() - self._error

    def _correct(self, now: float) -> None:
        """Measure the counter's error again where it is old or another server leads."""
        leader, measured_at = self._measured
        current = self._collection.database.client.primary
        if current == leader and now - measured_at < DRIFT_SECONDS:
            return
        if self._measuring.acquire(blocking=leader is None):
            try:
                self._measure()
                self._measured = (current, now)
            finally:
                self._measuring.release()

    def _measure(self) -> None:
        """Compare the counter with a true count; a write between the two must not deceive us."""
        for _ in range(3):
            before = self._collection.estimated_document_count()
            try:
                count = self._collection.count_documents({}, hint="_id_")
            except PyMongoError:  # too many to count in time: the last error is the best there is
                return
            if self._collection.estimated_document_count() == before:
                self._error = before - count
                return
