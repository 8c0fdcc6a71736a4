"""The clock of the database, which all machines share for counting and expiry.

The clocks of two machines may differ by more than the window in which failed sign-ins are counted,
or the lifetime of an access token. Timestamps that several machines compare therefore come from
the primary's clock, which the ``hello`` command returns. Between two readings, the monotonic clock
of this machine advances the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

# How long a former primary's clock counts after an election, at most.
READ_EVERY_SECONDS = 1.0


class DatabaseClock:
    """The time at the primary, read every second."""

    def __init__(
        self, client: MongoClient[Any], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        # The offset to monotonic time, and when to read again.
        self._offset: float | None = None
        self._until = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), timezone.utc)

    def time(self) -> float:
        """Return the Unix time; raise if the database has never been reached."""
        now = self._monotonic()
        if self._offset is None:
            self._read()
        elif now >= self._until:
            # One thread reads; the others meanwhile use the previous offset.
            self._until = now + READ_EVERY_SECONDS
            with suppress(PyMongoError):
                self._read()
        return self._monotonic() + (self._offset or 0.0)

    def _read(self) -> None:
        began = self._monotonic()
        told = self._client.admin.command("hello")["localTime"]
        ended = self._monotonic()
        self._offset = told.timestamp() - (began + ended) / 2
        self._until = ended + READ_EVERY_SECONDS


class LocalClock:
    """The clock of this machine, for mongomock."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def time(self) -> float:
        return time.time()


Clock = DatabaseClock | LocalClock
