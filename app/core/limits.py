"""Limits how many requests of a worker do the same kind of work concurrently."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from app.core.errors import Unavailable

# The assumed duration of the work before the first measurement, and the weight of each new one.
FIRST_SECONDS = 0.1
WEIGHT = 0.1
LONGEST_RETRY = 15


class TooManyAtOnce(Unavailable):
    sentence = "{busy} at the moment; please try again."


class Limiter:
    """A limited number of places for one kind of work, and a queue for them.

    A request is refused if the queue is full or it has waited too long. All waiting requests are
    refused if no place was freed for that long, because then the work hangs. Retry-After estimates
    when a place will be free. It grows with each refusal, so that clients do not retry all at once.
    """

    def __init__(
        self,
        busy: str,
        places: int,
        queue: float = 0,
        patience: float = 0.0,
        own: tuple[str, int] | None = None,
    ) -> None:
        # busy starts the error sentence; own is the sentence and the limit of a single holder.
        self.places, self.busy, self.own = places, busy, own
        self.patience = patience
        self._queue = queue
        # The places in use: in total, and by holder.
        self.in_use = 0
        self._held: Counter[str] = Counter()
        self._waiting = 0
        self._freed = threading.Condition(threading.Lock())
        self._freed_at = monotonic()
        self._seconds = FIRST_SECONDS
        # When the clients that were refused so far will have had their turn.
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
        """Take a place and return the time; the waiting time counts from since."""
        with self._freed:
            if self.own and self._held[holder] >= self.own[1]:
                raise TooManyAtOnce(self.own[0], retry_after=self._turn())
            if self.in_use >= self.places:
                self._wait((monotonic() if since is None else since) + self.patience)
            self.in_use += 1
            self._held[holder] += 1
            self._freed_at = now = monotonic()
            return now

    def leave(self, began: float, holder: str = "") -> None:
        """Give back a place that was taken at the time began."""
        with self._freed:
            self.in_use -= 1
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
        """Return in how many seconds a refused client would get a place."""
        now, each = monotonic(), self._seconds / max(1, self.places)
        after_the_queue = now + self._waiting * each
        turn = max(self._booked_until, after_the_queue) + each
        # An estimate this late means that many refused clients have not retried: start again.
        self._booked_until = turn if turn < now + LONGEST_RETRY else after_the_queue
        return max(1, min(LONGEST_RETRY, math.ceil(turn - now)))
