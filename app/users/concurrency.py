"""Limits how many requests do slow work, such as hashing, at the same time.

A worker has threads for all requests that do such work and for the short queue before it, beyond
those for everybody else (see config/gunicorn.py). A request that finds the queue full is refused at
once, and told when its turn would be: whoever is refused comes back later than those before, and
all of a crowd do not come back at once. One that waited too long, counted from its arrival, is
refused as well.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from app.errors import Unavailable
from app.storage.bulkhead import arrival, renew_budget, wait_deadline

# How long a request waits for a slot: a second try costs more than waiting does.
PATIENCE_SECONDS = 5.0
# What the work is taken to last before any was done, and how much the last one says of the next.
FIRST_SECONDS = 0.1
WEIGHT = 0.1
LONGEST_RETRY = 15


class TooManyAtOnce(Unavailable):
    """Too many requests do the same work; nothing was done."""

    def __init__(self, work: str, retry_after: int = 1) -> None:
        super().__init__(f"Too many {work} at the moment; please try again.", retry_after)


class ConcurrencyLimit:
    """The limit of one worker for one kind of work."""

    def __init__(self, work: str, concurrent: int, queued: int) -> None:
        self._work = work
        self._slots = threading.BoundedSemaphore(concurrent)
        self._admitted = threading.BoundedSemaphore(concurrent + queued)
        self._is_held: ContextVar[bool] = ContextVar(work, default=False)
        self._turns = Turns(concurrent)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot. Reentrant within a request; commands outside of a request need none."""
        if self._is_held.get() or arrival() is None:
            yield
            return
        if not self._admitted.acquire(blocking=False):
            raise TooManyAtOnce(self._work, self._turns.next())
        try:
            with self._wait_for_slot():
                yield
        finally:
            self._admitted.release()

    @contextmanager
    def _wait_for_slot(self) -> Iterator[None]:
        left = wait_deadline(PATIENCE_SECONDS) - monotonic()
        with self._turns.waiting():
            has_slot = self._slots.acquire(timeout=max(0.0, left))
        if not has_slot:
            raise TooManyAtOnce(self._work, self._turns.next())
        before, began = self._is_held.set(True), monotonic()
        # The time in the queue was not spent at the database.
        renew_budget()
        try:
            yield
        finally:
            self._turns.lasted(monotonic() - began)
            self._is_held.reset(before)
            self._slots.release()


class Turns:
    """Estimates when somebody who is refused would have had a turn, each after the one before."""

    def __init__(self, concurrent: int) -> None:
        self._concurrent = concurrent
        self._waiting = 0
        self._lock = threading.Lock()
        self._seconds = FIRST_SECONDS
        # Until when those who were refused before will be at work.
        self._booked_until = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one who waits for a slot."""
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def lasted(self, seconds: float) -> None:
        """Learn from how long the work lasted."""
        with self._lock:
            self._seconds += WEIGHT * (seconds - self._seconds)

    def next(self) -> int:
        """Return in how many seconds to come back."""
        with self._lock:
            now, each = monotonic(), self._seconds / self._concurrent
            after_the_queue = now + self._waiting * each
            turn = max(self._booked_until, after_the_queue) + each
            # Where that is late, many who were refused have not come back.
            self._booked_until = turn if turn < now + LONGEST_RETRY else after_the_queue
            return max(1, min(LONGEST_RETRY, math.ceil(turn - now)))
