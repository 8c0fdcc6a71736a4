"""The worker that gunicorn runs: cheaper keep-alive, and a graceful end."""

from __future__ import annotations

import select
import sys
import threading
import time
from collections import deque
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from app import metrics
from app.http.application import arrived_at
from app.server.connection import Connection, Phase
from app.server.loop import LoopWorker
from app.server.patches import patch_gunicorn

# How long a thread that has answered waits for the next request of the same connection.
LINGER_MS = 20


class Worker(LoopWorker):
    """Lets a thread stay with a busy connection, and drains connections before it ends.

    gunicorn moves a connection from its loop to a thread and back for every request, which costs a
    third of a plain read. Where requests follow each other closely, as from a proxy or a busy
    tool, the thread waits a moment for the next one instead.

    A client that was not told ``Connection: close`` may send its next request at any time. If the
    worker closes the connection at that moment, the request is lost, and a proxy must not repeat a
    POST. So a worker that is to end drains first: it continues to serve, with ``Connection: close``
    in every answer. It ends when no client has a promise of keep-alive left, or when the remaining
    connections have been idle for longer than a proxy would keep them.
    """

    # The folder and the number of the metrics files of this worker; the master sets them.
    metrics_folder: str
    metrics_slot: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._draining_since: float | None = None
        # The requests that wait for a thread.
        self._queued: deque[Connection] = deque()
        # How many threads may linger: one always stays free for other connections.
        self._lingering = threading.BoundedSemaphore(max(1, self.cfg.threads - 1))
        # gunicorn would end at once after its max_requests; we count ourselves, and drain.
        self._drain_at_request: int = self.max_requests
        self.max_requests: int = sys.maxsize

    def init_process(self) -> None:
        metrics.share(self.metrics_folder, self.metrics_slot)
        patch_gunicorn(self.cfg)
        super().init_process()

    def enqueue_req(self, conn: Connection) -> None:
        # The time that a request waits for a thread is part of its time budget.
        conn.arrived_at = time.monotonic()
        self._queued.append(conn)
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> bool:
        """Answer a request, and those that follow it closely."""
        self._queued.pop()
        is_keep_alive = super().handle(conn)
        while is_keep_alive and self._next_request_follows(conn):
            conn.arrived_at = time.monotonic()
            is_keep_alive = super().handle(conn)
        return bool(is_keep_alive)

    def _next_request_follows(self, conn: Connection) -> bool:
        """Wait a moment for the next complete request, unless another one needs the thread."""
        if self._queued or self._draining_since is not None:
            return False
        if conn.buffered_bytes:
            return False  # Pipelined requests go back to the queue, behind those of others.
        if not self._lingering.acquire(blocking=False):
            return False
        try:
            next_request = select.poll()
            next_request.register(conn.sock.file_descriptor, select.POLLIN)
            return bool(next_request.poll(LINGER_MS)) and conn.receive()
        finally:
            self._lingering.release()

    def handle_request(self, req: Any, conn: Connection) -> Any:
        if self.nr + 1 >= self._drain_at_request:
            self._drain()
        # An answer that is made before draining begins promises keep-alive.
        if self._draining_since is None:
            self._promised_keep_alive.add(conn)
        arrived_at.set(conn.arrived_at)
        conn.begin_stream()
        return super().handle_request(req, conn)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._drain()
        self.method_queue.defer(lambda: None)  # Wakes the loop.

    def handle_quit(self, sig: int, frame: Any) -> None:
        """End at once.

        gunicorn's threaded worker would shut its thread pool down here. The signal may arrive
        while this thread holds the pool's lock in submit(), and would wait for itself until the
        master kills the worker. The pool ends with the interpreter.
        """
        super(ThreadWorker, self).handle_quit(sig, frame)

    def murder_keepalived(self, force: bool = False) -> None:
        """End when draining is complete; connections without a request do not delay that."""
        super().murder_keepalived(force)
        now = time.monotonic()
        if self._draining_since is not None and self._is_drained(now):
            self.alive = False
        if not self.alive:
            for conn in self._waiting:
                # gunicorn waits for connections that never sent a request; close them as idle ones.
                if conn.phase is Phase.IDLE and not conn.was_answered and self._is_stale(conn, now):
                    self._drop(conn)

    def _drain(self) -> None:
        if self._draining_since is None:
            # From now on gunicorn adds Connection: close to every answer.
            self.max_keepalived = 0
            self._draining_since = time.monotonic()

    def _is_drained(self, now: float) -> bool:
        if self._draining_since and now > self._draining_since + self.cfg.graceful_timeout:
            return True
        return not self._promised_keep_alive and all(
            self._is_stale(conn, now) for conn in self.keepalived_conns
        )

    def _is_stale(self, conn: Connection, now: float) -> bool:
        """Return whether a connection has been idle for longer than a proxy would keep it."""
        return conn.deadline - now < self.cfg.keepalive - self._settings.DRAIN_SECONDS
