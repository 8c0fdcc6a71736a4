"""Limits how many requests of a worker do the same kind of work concurrently."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from app.core.errors import Unavailable

LONGEST_RETRY = 5


class TooManyAtOnce(Unavailable):
    sentence = "{busy} at the moment; please try again."


class Limiter:
    """A limited number of places for one kind of work, and a queue for them.

    A request is refused if the queue is full or it has waited too long. The seconds of its
    Retry-After are random, so that the refused clients do not come back all at once.
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
        self._freed = threading.Condition()

    @contextmanager
    def place(self, holder: str = "", since: float | None = None) -> Iterator[None]:
        """Hold a place until the block ends, or raise TooManyAtOnce."""
        self.enter(holder, since)
        try:
            yield
        finally:
            self.leave(holder)

    def enter(self, holder: str = "", since: float | None = None) -> None:
        """Take a place; the waiting time counts from since."""
        deadline = (monotonic() if since is None else since) + self.patience
        with self._freed:
            if self.own and self._held[holder] >= self.own[1]:
                raise _refusal(self.own[0])
            if self.in_use >= self.places and not self._wait(deadline):
                raise _refusal(self.busy)
            self.in_use += 1
            if self.own:
                self._held[holder] += 1

    def _wait(self, deadline: float) -> bool:
        """Wait in the queue; return whether a place is free."""
        if self._waiting >= self._queue:
            return False
        self._waiting += 1
        try:
            return self._freed.wait_for(lambda: self.in_use < self.places, deadline - monotonic())
        finally:
            self._waiting -= 1

    def leave(self, holder: str = "") -> None:
        """Give back a place."""
        with self._freed:
            self.in_use -= 1
            if self.own:
                self._held -= Counter([holder])
            self._freed.notify()


def _refusal(busy: str) -> TooManyAtOnce:
    return TooManyAtOnce(busy, retry_after=secrets.randbelow(LONGEST_RETRY) + 1)
