"""Limits how many requests of a worker do the same work at the same time."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from app.errors import Unavailable

# How long the work is assumed to take before any was done, and the weight of each new duration.
FIRST_SECONDS = 0.1
WEIGHT = 0.1
LONGEST_RETRY = 15


class TooManyAtOnce(Unavailable):
    sentence = "{busy} at the moment; please try again."


class Limiter:
    """A limited number of places for one kind of work, and a queue of those who wait for one.

    Whoever finds the queue full, or has waited for too long, is refused. So is everybody who waits
    when no place was freed for as long, because then the work hangs. Retry-After says when there
    would be a place: each time a little later, so that a crowd does not come back all at once.
    """

    def __init__(
        self,
        busy: str,
        places: int,
        queue: float = 0,
        patience: float = 0.0,
        own: tuple[str, int] | None = None,
    ) -> None:
        # Busy begins the sentence of a refusal; own has another, and the places of one holder.
        self.places, self.busy, self.own = places, busy, own
        self.patience = patience
        self._queue = queue
        # How many places are taken at this moment: in all, and where own is given by each holder.
        self.in_use = 0
        self._held: Counter[str] = Counter()
        self._waiting = 0
        self._freed = threading.Condition(threading.Lock())
        self._freed_at = monotonic()
        self._seconds = FIRST_SECONDS
        # Until when those who were refused before will be at work.
        self._booked_until = 0.0

    @contextmanager
    def place(self, holder: str = "", since: float | None = None) -> Iterator[None]:
        """Hold a place until the block ends, or raise TooManyAtOnce."""
        began = self.enter(holder, since)
        try:
            yield
        finally:
            self.leave(began, holder)

    def enter(self, holder: str = "", since: float | None = None) -> float:
        """Take a place, and return when; the time to wait for it counts from since."""
        with self._freed:
            if self.own and self._held[holder] >= self.own[1]:
                raise TooManyAtOnce(self.own[0], retry_after=self._turn())
            if self.in_use >= self.places:
                self._wait((monotonic() if since is None else since) + self.patience)
            self.in_use += 1
            if self.own:
                self._held[holder] += 1
            self._freed_at = now = monotonic()
            return now

    def leave(self, began: float, holder: str = "") -> None:
        """Give back a place that was taken at this time."""
        with self._freed:
            self.in_use -= 1
            if self.own:
                self._held -= Counter([holder])
            self._freed_at = monotonic()
            self._seconds += WEIGHT * (self._freed_at - began - self._seconds)
            if self._waiting:
                self._freed.notify()

    def _wait(self, deadline: float) -> None:
        if self._waiting >= self._queue:
            raise TooManyAtOnce(self.busy, retry_after=self._turn())
        self._waiting += 1
        try:
            while self.in_use >= self.places:
                left = min(deadline, self._freed_at + self.patience) - monotonic()
                if left <= 0:
                    raise TooManyAtOnce(self.busy, retry_after=self._turn())
                self._freed.wait(left)
        finally:
            self._waiting -= 1

    def _turn(self) -> int:
        """Return in how many seconds somebody who is refused would have a turn."""
        now, each = monotonic(), self._seconds / max(1, self.places)
        after_the_queue = now + self._waiting * each
        turn = max(self._booked_until, after_the_queue) + each
        # A late turn means that many who were refused have not come back.
        self._booked_until = turn if turn < now + LONGEST_RETRY else after_the_queue
        return max(1, min(LONGEST_RETRY, math.ceil(turn - now)))
