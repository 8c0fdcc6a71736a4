"""The worker that gunicorn runs: less work for a request, and an end that no client notices."""

from __future__ import annotations

import select
import sys
import threading
import time
from collections import deque
from typing import Any

from app import metrics
from app.http.application import arrived_at
from app.server import response
from app.server.connection import Connection, Phase
from app.server.loop import LoopWorker

# How long a thread that has answered waits for the next request of the same connection.
LINGER_MS = 20

response.install()


class Worker(LoopWorker):
    """Keeps a thread with a busy connection, and ends without breaking a promise.

    gunicorn hands a connection from its loop to a thread and back again for every request. That
    costs a third of a plain read, and is not needed where requests follow each other closely, as a
    proxy and a busy tool send them: the thread waits for the next one for a moment.

    A client that was not told ``Connection: close`` may send its next request at any time. If the
    worker closes the connection at that moment, the request is lost, and a proxy may not repeat a
    POST. So a worker that is to end first drains: it serves on, and tells every client to close.
    It ends when no connection is left that was promised another request, or when those that are
    left have been idle for longer than the proxy would use them.
    """

    # Where this worker counts, as the master says before it makes it.
    metrics_folder: str
    place: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._draining_since: float | None = None
        # Those that wait for a thread, and the threads that may wait: one is left for who comes.
        self._queued: deque[Connection] = deque()
        self._spare = threading.BoundedSemaphore(max(1, self.cfg.threads - 1))
        # gunicorn would end at once after the last request; we count for ourselves, and drain.
        self._last_request: int = self.max_requests
        self.max_requests: int = sys.maxsize

    def init_process(self) -> None:
        metrics.share(self.metrics_folder, self.place)
        # Nothing changes a setting now, and each request looks up dozens: as attributes they are
        # found at once.
        self.cfg.__dict__.update({name: s.get() for name, s in self.cfg.settings.items()})
        super().init_process()

    def enqueue_req(self, conn: Connection) -> None:
        # It may wait for long; what it then asks for must know.
        conn.arrived_at = time.monotonic()
        self._queued.append(conn)
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> bool:
        """Answer a request, and those that follow it closely."""
        self._queued.pop()
        is_kept = super().handle(conn)
        while is_kept and self._follows(conn):
            conn.arrived_at = time.monotonic()
            is_kept = super().handle(conn)
        return bool(is_kept)

    def _follows(self, conn: Connection) -> bool:
        """Tell whether the next request comes whole and at once, if nobody needs this thread."""
        if self._queued or self._draining_since is not None:
            return False
        if conn.buffered:
            return False  # others first, then what was sent ahead
        if not self._spare.acquire(blocking=False):
            return False
        try:
            next_request = select.poll()
            next_request.register(conn.sock.number, select.POLLIN)
            return bool(next_request.poll(LINGER_MS)) and conn.receive()
        finally:
            self._spare.release()

    def handle_request(self, req: Any, conn: Connection) -> Any:
        if self.nr + 1 >= self._last_request:
            self._drain()
        # A request that began before the end was known is promised another.
        if self._draining_since is None:
            self._promised.add(conn)
        arrived_at.set(conn.arrived_at)
        return super().handle_request(req, conn)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._drain()
        self.method_queue.defer(lambda: None)  # wakes the loop

    def murder_keepalived(self, force: bool = False) -> None:
        """End when draining is over, and let no silent client delay that."""
        super().murder_keepalived(force)
        now = time.monotonic()
        if self._draining_since is not None and self._is_drained(now):
            self.alive = False
        if not self.alive:
            for conn in self._waiting:
                # Who has never said anything goes as soon as the idle do.
                if conn.phase is Phase.IDLE and not conn.was_answered and self._is_stale(conn, now):
                    self._drop(conn)

    def _drain(self) -> None:
        if self._draining_since is None:
            # From here on gunicorn answers everything with Connection: close.
            self.max_keepalived = 0
            self._draining_since = time.monotonic()

    def _is_drained(self, now: float) -> bool:
        if self._draining_since and now > self._draining_since + self.cfg.graceful_timeout:
            return True
        return not self._promised and all(
            self._is_stale(conn, now) for conn in self.keepalived_conns
        )

    def _is_stale(self, conn: Connection, now: float) -> bool:
        """Tell whether no proxy would use an idle connection; it says when it would be closed."""
        return conn.deadline - now < self.cfg.keepalive - self._settings.DRAIN_SECONDS
