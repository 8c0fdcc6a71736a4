"""A bulkhead between requests and MongoDB, and the time budget of each request.

A database that hangs would hold every thread of a worker, and with them the requests that need no
database. So the number of concurrent operations is limited. An operation that finds no free slot
waits while its request is young. It is refused at once when no slot has been freed for a while,
because then the database hangs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from time import monotonic
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from app.errors import Unavailable

# How old a request may become before its first operation starts.
PATIENCE_SECONDS = 2.0


class Bulkhead:
    """Limits the concurrent operations of one worker."""

    def __init__(self, slots: int, patience: float = PATIENCE_SECONDS) -> None:
        self.patience = patience
        self._slots = self._free = slots
        self._waiting = 0
        self._lock = threading.Lock()
        self._slot_freed = threading.Condition(self._lock)
        self._last_moved = monotonic()
        # Set while the database has another schema version than this program: all are refused.
        self.is_closed = False

    @property
    def in_use(self) -> int:
        """How many operations run at this moment."""
        return self._slots - self._free

    def acquire(self, deadline: float) -> None:
        """Take a slot, or raise Unavailable if none becomes free in time."""
        if self.is_closed:
            raise SchemaMismatch
        with self._lock:
            if not self._free:
                self._wait(deadline)
            self._free -= 1
            self._last_moved = monotonic()

    def release(self) -> None:
        with self._lock:
            self._free += 1
            self._last_moved = monotonic()
            if self._waiting:
                self._slot_freed.notify()

    def _wait(self, deadline: float) -> None:
        while not self._free:
            left = min(deadline, self._last_moved + self.patience) - monotonic()
            if left <= 0:
                raise TooSlow
            self._waiting += 1
            self._slot_freed.wait(left)
            self._waiting -= 1


class RequestBudget:
    """The time that one request may spend on all of its operations together."""

    def __init__(self, bulkhead: Bulkhead, seconds: float, arrived_at: float) -> None:
        self.arrived_at = arrived_at
        self._bulkhead = bulkhead
        self._seconds = self._left = seconds
        self._deadline = arrived_at + bulkhead.patience
        self._is_running = False

    def __enter__(self) -> None:
        self._outer = _current.set(self)

    def __exit__(self, *fault: Any) -> None:
        _current.reset(self._outer)

    def renew(self) -> None:
        """Begin anew, as if the request had just arrived."""
        self._left = self._seconds
        self._deadline = monotonic() + self._bulkhead.patience

    def run(self, operation: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if self._is_running:
            # pymongo calls one operation from another; to wait for a second slot would deadlock.
            return operation(*args, **options)
        began = monotonic()
        self._bulkhead.acquire(self._deadline)
        self._is_running = True
        try:
            left = self._left - (monotonic() - began)
            if left <= 0:
                raise TooSlow
            with pymongo.timeout(left):
                return operation(*args, **options)
        finally:
            self._is_running = False
            self._bulkhead.release()
            now = monotonic()
            self._left -= now - began
            # A later operation of the same request may wait again, within the remaining budget.
            self._deadline = now + min(self._bulkhead.patience, self._left)


_current: ContextVar[RequestBudget | None] = ContextVar("request_budget", default=None)


def arrival() -> float | None:
    """Return the monotonic time at which the current request arrived; None outside a request."""
    budget = _current.get()
    return budget.arrived_at if budget else None


def wait_deadline(seconds: float) -> float:
    """Return until when the current request may wait, counted from its arrival.

    Counted from now, the waits of a request that waits for several things would add up.
    """
    arrived_at = arrival()
    return (monotonic() if arrived_at is None else arrived_at) + seconds


def renew_budget() -> None:
    """Give the current request its whole budget again, for the next piece of long work."""
    budget = _current.get()
    if budget is not None:
        budget.renew()


def run_within_budget(operation: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Run an operation within the budget of the current request; commands have no budget."""
    budget = _current.get()
    if budget is None:
        return operation(*args, **options)
    return budget.run(operation, *args, **options)


class TooSlow(Unavailable, PyMongoError):
    """No slot became free in time, and nothing was sent to MongoDB.

    It is a PyMongoError, so that code which can do without the operation needs no second handler.
    """

    def __init__(self) -> None:
        super().__init__("The database is slow at the moment; please try again.")


class SchemaMismatch(Unavailable, PyMongoError):
    """The database has another schema version, and nothing was sent. /readyz says which."""

    def __init__(self) -> None:
        super().__init__("The service does not fit its database at the moment; please try again.")
