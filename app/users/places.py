"""A few places for work that takes long, so that it leaves the threads to others.

A worker has threads for all who are in such a place or in the short line before it, beyond those
for everybody else. Whoever finds the line full is refused at once, and whoever has waited enough,
counted from the arrival of its request, is refused as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from app.errors import Unavailable
from app.storage.turns import PATIENCE_SECONDS, arrival, patience


class NoPlace(Unavailable):
    """Too many others are at the same work; nothing was done."""

    def __init__(self, work: str) -> None:
        super().__init__(f"Too many {work} at the moment; please try again.", 1)


class Places:
    """The places of one worker for one kind of work."""

    def __init__(self, work: str, places: int, line: int) -> None:
        self._work = work
        self._places = threading.BoundedSemaphore(places)
        self._room = threading.BoundedSemaphore(places + line)
        self._has_one: ContextVar[bool] = ContextVar(work, default=False)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place; a request that holds one needs no other, and commands need none."""
        if self._has_one.get() or arrival() is None:
            yield
            return
        if not self._room.acquire(blocking=False):
            raise NoPlace(self._work)
        try:
            with self._held():
                yield
        finally:
            self._room.release()

    @contextmanager
    def _held(self) -> Iterator[None]:
        if not self._places.acquire(timeout=max(0.0, patience(PATIENCE_SECONDS) - monotonic())):
            raise NoPlace(self._work)
        before = self._has_one.set(True)
        try:
            yield
        finally:
            self._has_one.reset(before)
            self._places.release()
