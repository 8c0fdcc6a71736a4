"""Turns at the database: how many operations may be there at once, and how long a request may be.

A database that hangs would otherwise hold every thread of a worker, and with them the requests
that need no database at all. So each operation takes a turn. Where all are taken it waits while its
request is young, and not at all where nobody has come back for a while: then it is refused.
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

# How old a request may become before its first operation.
PATIENCE_SECONDS = 2.0


class Turns:
    """The turns of one worker."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting = 0
        self._lock = threading.Lock()
        self._came_back = threading.Condition(self._lock)
        self._moved_at = monotonic()
        # Whether the database is of another version than this program; then nobody gets a turn.
        self.is_unfit = False

    def take(self, deadline: float) -> None:
        """Take a turn, or raise Unavailable where none comes free in time."""
        if self.is_unfit:
            raise Unfit
        with self._lock:
            if not self._free:
                self._wait(deadline)
            self._free -= 1
            self._moved_at = monotonic()

    def give_back(self) -> None:
        with self._lock:
            self._free += 1
            self._moved_at = monotonic()
            if self._waiting:
                self._came_back.notify()

    def _wait(self, deadline: float) -> None:
        while not self._free:
            patience = min(deadline, self._moved_at + PATIENCE_SECONDS) - monotonic()
            if patience <= 0:
                raise TooSlow
            self._waiting += 1
            self._came_back.wait(patience)
            self._waiting -= 1


class Visit:
    """The operations of one request, which share its time at the database."""

    def __init__(self, turns: Turns, seconds: float, arrived_at: float) -> None:
        self.arrived_at = arrived_at
        self._turns = turns
        self._left = seconds
        self._deadline = arrived_at + PATIENCE_SECONDS

    def __enter__(self) -> None:
        self._outer = _current.set(self)

    def __exit__(self, *fault: Any) -> None:
        _current.reset(self._outer)

    def run(self, operation: Callable[..., Any], *args: Any, **options: Any) -> Any:
        began = monotonic()
        self._turns.take(self._deadline)
        try:
            left = self._left - (monotonic() - began)
            if left <= 0:
                raise TooSlow
            with pymongo.timeout(left):
                return operation(*args, **options)
        finally:
            self._turns.give_back()
            now = monotonic()
            self._left -= now - began
            # Who has been let in before may wait anew, of the time that is left.
            self._deadline = now + min(PATIENCE_SECONDS, self._left)


_current: ContextVar[Visit | None] = ContextVar("visit", default=None)


def arrival() -> float | None:
    """Return when the request came that is being answered; None outside of any."""
    visit = _current.get()
    return visit.arrived_at if visit else None


def patience(seconds: float) -> float:
    """Return until when a request may wait that has so much patience, from its arrival on.

    Waiting for one thing after another, it would otherwise become as old as they take together.
    """
    arrived_at = arrival()
    return (monotonic() if arrived_at is None else arrived_at) + seconds


def in_turn(operation: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Run an operation in the turn of its request; outside of any, nobody waits."""
    visit = _current.get()
    if visit is None:
        return operation(*args, **options)
    return visit.run(operation, *args, **options)


class TooSlow(Unavailable, PyMongoError):
    """No turn came in time, and nothing was sent.

    To those who can do without what they asked for, it is a fault of the database like any other.
    """

    def __init__(self) -> None:
        super().__init__("The database is slow at the moment; please try again.")


class Unfit(Unavailable, PyMongoError):
    """The database is not for this program, and nothing was sent. /readyz says why."""

    def __init__(self) -> None:
        super().__init__("The service does not fit its database at the moment; please try again.")
