"""The clock of the database, by which all machines count and expire alike.

Clocks of two machines may differ by more than a window in which guesses are counted, or than an
access token lives. What is stored for others to judge by time is judged by the one clock that all
of them can ask: ``hello`` tells the primary's. Between two readings, monotonic time goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from app import metrics
from app.storage.bulkhead import run_within_budget

# Two clocks drift apart by far less than a millisecond in this time.
READ_EVERY_SECONDS = 5.0


class DatabaseClock:
    """The time of day at the primary, as one application knows it."""

    def __init__(
        self, client: MongoClient[Any], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._reading = threading.Lock()
        # What is added to monotonic time, when to ask again, and whom it was asked of.
        self._offset: float | None = None
        self._until = 0.0
        self._primary: tuple[str, int] | None = None

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), timezone.utc)

    def time(self) -> float:
        """Return the seconds since 1970; raise where the database was never reached."""
        is_stale = self._monotonic() >= self._until or self._client.primary != self._primary
        if self._offset is None:
            self._read()
        elif is_stale and self._reading.acquire(blocking=False):
            # One asks; whoever comes meanwhile uses what was known before.
            try:
                self._read()
            except PyMongoError:
                self._until = self._monotonic() + 1.0
            finally:
                self._reading.release()
        return self._monotonic() + (self._offset or 0.0)

    def _read(self) -> None:
        began = self._monotonic()
        try:
            told = run_within_budget(self._client.admin.command, "hello")["localTime"]
        except PyMongoError:
            metrics.MONGODB_FAILURES.labels("hello", "admin").inc()
            raise
        ended = self._monotonic()
        self._offset = told.timestamp() - (began + ended) / 2
        self._until = ended + READ_EVERY_SECONDS
        self._primary = self._client.primary


class LocalClock:
    """The machine's own clock, where the database is an imitation in its memory."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def time(self) -> float:
        return time.time()


Clock = DatabaseClock | LocalClock
