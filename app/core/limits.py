"""Limits how many requests of a worker do the same work, and how long they use the database.

If the database hangs, it must not block every thread of a worker: some requests need no database.
So only some of the threads use it at a time. A request that waits for other work, such as
hashing, gives its place back until that work is done.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from time import monotonic
from typing import Any, TypeVar

from app.core.errors import Unavailable

LONGEST_RETRY = 5


class TooManyAtOnce(Unavailable):
    sentence = "{busy} at the moment; please try again."

    def __init__(self, busy: str) -> None:
        super().__init__(busy, retry_after=secrets.randbelow(LONGEST_RETRY) + 1)


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
                raise TooManyAtOnce(self.own[0])
            if self.in_use >= self.places and not self._wait(deadline):
                raise TooManyAtOnce(self.busy)
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


# How long a request waits for a database place.
PATIENCE_SECONDS = 2.0

Result = TypeVar("Result")


class SchemaMismatch(Unavailable):
    """The database has another schema version, and no command was sent. /readyz has the details."""

    sentence = (
        "The service and its database have different versions at the moment; please try again."
    )


class DatabasePlaces(Limiter):
    """The requests of one worker that use the database, each within a time limit."""

    def __init__(
        self,
        places: int,
        time_limit: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        super().__init__("The database is slow", places, float("inf"), PATIENCE_SECONDS)
        self.time_limit = time_limit
        # True while the schema version of the database differs from that of this program.
        self.is_closed = False

    def enter(self, holder: str = "", since: float | None = None) -> None:
        if self.is_closed:
            raise SchemaMismatch
        super().enter(holder, since)


class RequestScope:
    """The database place and the time limit of one request."""

    def __init__(self, database: DatabasePlaces, arrived_at: float, request_id: str = "") -> None:
        self.arrived_at = arrived_at
        self.request_id = request_id
        self._database = database
        self._is_at_database = False
        # Their ids: a response body is closed where a proxy of a limiter has no hash any more.
        self._elsewhere: set[int] = set()
        self._timeout = ExitStack()

    def __enter__(self) -> None:
        self._outer = _current.set(self)

    def __exit__(self, *fault: Any) -> None:
        self.leave_database()
        self._timeout.close()
        _current.reset(self._outer)

    def renew(self) -> None:
        """Start the time limit, or restart it for the next part of long work."""
        self._timeout.close()
        self._timeout.enter_context(self._database.time_limit())

    def enter_database(self, since: float) -> None:
        self._database.enter(since=since)
        self._is_at_database = True
        self.renew()

    def leave_database(self) -> bool:
        """Give the database place back; return whether the request had one."""
        was_there, self._is_at_database = self._is_at_database, False
        if was_there:
            self._database.leave()
        return was_there

    @contextmanager
    def working(self, limiter: Limiter, holder: str) -> Iterator[None]:
        """Hold a place for other work, and give the database place back meanwhile."""
        if id(limiter) in self._elsewhere:
            try:
                yield
            finally:
                # The time spent on the work itself does not count.
                self.renew()
            return
        was_at_database = self.leave_database()
        try:
            with limiter.place(holder, self.arrived_at):
                self._elsewhere.add(id(limiter))
                self.renew()
                yield
        finally:
            self._elsewhere.discard(id(limiter))
            # A response body may hold a place longer than its request lasts.
            if was_at_database and _current.get() is self:
                self.enter_database(monotonic())


_current: ContextVar[RequestScope | None] = ContextVar("request_scope", default=None)


@contextmanager
def at_database() -> Iterator[None]:
    """Hold a database place until the block ends, or raise Unavailable."""
    scope = _current.get()
    if scope:
        scope.enter_database(scope.arrived_at)
    try:
        yield
    finally:
        if scope:
            scope.leave_database()


def working(limiter: Limiter, holder: str = "") -> AbstractContextManager[None]:
    """Hold a place for other work until the block ends; commands need no place."""
    scope = _current.get()
    return scope.working(limiter, holder) if scope else nullcontext()


def resumable(step: Callable[[], Result]) -> Callable[[], Result]:
    """Return a function that continues the current request later, with a new time limit."""
    scope = _current.get()
    if scope is None:
        return step

    def resume() -> Result:
        with scope:
            scope.arrived_at = monotonic()
            scope.renew()
            return step()

    return resume


def current_request_id() -> str:
    scope = _current.get()
    return scope.request_id if scope else ""


def wait_deadline(seconds: float) -> float:
    """Return the time until which the current request may wait, counted from its arrival.

    Otherwise the waiting times of a request that waits several times would add up.
    """
    scope = _current.get()
    return (scope.arrived_at if scope else monotonic()) + seconds


def renew_time_limit() -> None:
    """Restart the database timeout of the current request."""
    scope = _current.get()
    if scope is not None:
        scope.renew()
