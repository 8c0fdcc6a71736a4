"""Limits how many requests do slow work, such as hashing, at the same time.

A worker has threads for all requests that do such work and for the short queue before it, beyond
those for everybody else (see config/gunicorn.py). A request that finds the queue full is refused at
once. One that waited too long, counted from its arrival, is refused as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from app.errors import Unavailable
from app.storage.bulkhead import PATIENCE_SECONDS, arrival, wait_deadline


class TooManyAtOnce(Unavailable):
    """Too many requests do the same work; nothing was done."""

    def __init__(self, work: str) -> None:
        super().__init__(f"Too many {work} at the moment; please try again.", 1)


class ConcurrencyLimit:
    """The limit of one worker for one kind of work."""

    def __init__(self, work: str, concurrent: int, queued: int) -> None:
        self._work = work
        self._slots = threading.BoundedSemaphore(concurrent)
        self._admitted = threading.BoundedSemaphore(concurrent + queued)
        self._is_held: ContextVar[bool] = ContextVar(work, default=False)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot. Reentrant within a request; commands outside of a request need none."""
        if self._is_held.get() or arrival() is None:
            yield
            return
        if not self._admitted.acquire(blocking=False):
            raise TooManyAtOnce(self._work)
        try:
            with self._wait_for_slot():
                yield
        finally:
            self._admitted.release()

    @contextmanager
    def _wait_for_slot(self) -> Iterator[None]:
        left = wait_deadline(PATIENCE_SECONDS) - monotonic()
        if not self._slots.acquire(timeout=max(0.0, left)):
            raise TooManyAtOnce(self._work)
        before = self._is_held.set(True)
        try:
            yield
        finally:
            self._is_held.reset(before)
            self._slots.release()
