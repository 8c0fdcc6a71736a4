"""The connections that wait for their clients: order, deadlines and buffered bytes."""

from __future__ import annotations

import selectors
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from app.server.connection import Connection, Phase


class WaitingConnections:
    """The connections that the loop of a worker polls. Only the loop's thread uses it."""

    def __init__(self, poller: selectors.BaseSelector, timeouts: Mapping[Phase, float]) -> None:
        self._poller = poller
        self._timeouts = timeouts
        # The least recently active connection comes first.
        self._by_activity: OrderedDict[Connection, None] = OrderedDict()
        # Keep-alive connections between two requests.
        self.idle: set[Connection] = set()
        # The bytes in all buffers, including those of requests that wait for a thread.
        self.buffered_bytes = 0

    def __contains__(self, conn: Connection) -> bool:
        return conn in self._by_activity

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._by_activity))

    def add(self, conn: Connection, on_event: Callable[[Any], None]) -> None:
        """Poll a connection until the client sends something, or can be sent something."""
        self._by_activity[conn] = None
        self._update(conn)
        is_sending = conn.phase is Phase.SENDING
        events = selectors.EVENT_WRITE if is_sending else selectors.EVENT_READ
        self._poller.register(conn.sock.file_descriptor, events, on_event)

    def note_activity(self, conn: Connection) -> None:
        self._by_activity.move_to_end(conn)
        self._update(conn)

    def _update(self, conn: Connection) -> None:
        """Update the phase of a connection; only a new phase sets a new deadline."""
        phase = conn.find_phase()
        if phase is not conn.phase:
            conn.phase = phase
            conn.deadline = time.monotonic() + self._timeouts[phase]
            if phase is Phase.IDLE and conn.was_answered:
                self.idle.add(conn)
            else:
                self.idle.discard(conn)
        self._count_bytes(conn)

    def remove(self, conn: Connection) -> None:
        """Stop polling a connection; its buffered bytes still count."""
        self._poller.unregister(conn.sock.file_descriptor)
        del self._by_activity[conn]
        self.idle.discard(conn)
        self._count_bytes(conn)

    def _count_bytes(self, conn: Connection) -> None:
        size = conn.buffered_bytes
        self.buffered_bytes += size - conn.counted_bytes
        conn.counted_bytes = size

    def forget_bytes(self, conn: Connection) -> None:
        self.buffered_bytes -= conn.counted_bytes
        conn.counted_bytes = 0

    def least_recently_active(self) -> Connection | None:
        return next(iter(self._by_activity), None)

    def first_to_expire(self, over_bytes: int) -> Connection | None:
        """Return the connection with the earliest deadline among those that buffer more bytes."""
        large = [conn for conn in self._by_activity if conn.counted_bytes > over_bytes]
        return min(large, key=lambda conn: conn.deadline, default=None)
