"""The connections that wait for their clients: in which order, until when, with how many bytes."""

from __future__ import annotations

import selectors
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from app.server.connection import Connection, Phase


class Waiting:
    """What the loop of a worker watches; no thread touches it."""

    def __init__(self, poller: selectors.BaseSelector, patience: Mapping[Phase, float]) -> None:
        self._poller = poller
        self._patience = patience
        # The one that has been silent for longest comes first.
        self._order: OrderedDict[Connection, None] = OrderedDict()
        # Those that have been answered, and may be used again at any time.
        self.idle: set[Connection] = set()
        # The bytes that are kept, those of requests that wait for a thread among them.
        self.bytes = 0

    def __contains__(self, conn: Connection) -> bool:
        return conn in self._order

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._order))

    def hold(self, conn: Connection, on_event: Callable[[Any], None]) -> None:
        """Wait until something comes from a client, or can be sent to it."""
        self._order[conn] = None
        self._look(conn)
        is_sending = conn.phase is Phase.SENDING
        events = selectors.EVENT_WRITE if is_sending else selectors.EVENT_READ
        self._poller.register(conn.sock.number, events, on_event)

    def note(self, conn: Connection) -> None:
        """See that a client has moved."""
        self._order.move_to_end(conn)
        self._look(conn)

    def _look(self, conn: Connection) -> None:
        """See what a client is at; the time that it has begins anew with each phase only."""
        phase = conn.waits_for()
        if phase is not conn.phase:
            conn.phase = phase
            conn.deadline = time.monotonic() + self._patience[phase]
            if phase is Phase.IDLE and conn.was_answered:
                self.idle.add(conn)
            else:
                self.idle.discard(conn)
        self._count(conn)

    def release(self, conn: Connection) -> None:
        self._poller.unregister(conn.sock.number)
        del self._order[conn]
        self.idle.discard(conn)
        self._count(conn)

    def _count(self, conn: Connection) -> None:
        size = conn.buffered
        self.bytes += size - conn.counted
        conn.counted = size

    def forget(self, conn: Connection) -> None:
        self.bytes -= conn.counted
        conn.counted = 0

    def longest_silent(self) -> Connection | None:
        return next(iter(self._order), None)

    def oldest_over(self, size: int) -> Connection | None:
        """Return, of those for which more bytes are kept, the one whose time is over first."""
        large = [conn for conn in self._order if conn.counted > size]
        return min(large, key=lambda conn: conn.deadline, default=None)
