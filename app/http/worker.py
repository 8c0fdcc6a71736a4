"""gunicorn's threaded worker, with less work for a request, and an end that no client notices."""

from __future__ import annotations

import contextlib
import select
import selectors
import socket
import struct
import sys
import threading
import time
from collections import deque
from functools import partial
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

import config
from app import metrics
from app.http import wire
from app.http.application import arrived_at

# How long a thread that has answered waits for the next request of the same connection.
LINGER_MS = 20
# By how much a worker lets others go first, for each connection that it holds already.
COURTESY_SECONDS = 0.0003
MOST_COURTESIES = 10
# How long, and for how many pieces of 4 kB, a client is listened to that was told to close.
FAREWELL_SECONDS = 1.0
FAREWELL_PIECES = 16

wire.install()


class Worker(ThreadWorker):
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
        self._settings = config.load()
        self._draining_since: float | None = None
        # Those whose request began before the end was known, and so was promised another.
        self._promised: set[Any] = set()
        # Those that wait for a thread, and the threads that may wait: one is left for who comes.
        self._queued: deque[Any] = deque()
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

    def accept(self, listener: Any) -> None:
        """Take a new connection, unless a worker that holds fewer is there first."""
        held = min(self.nr_conns, MOST_COURTESIES) if self.cfg.workers > 1 else 0
        time.sleep(COURTESY_SECONDS * held)
        # After a longer wait there may be several.
        for _ in range(1 + held // 3):
            before = self.nr_conns
            super().accept(listener)
            if self.nr_conns == before or self.nr_conns >= self.worker_connections:
                break

    def enqueue_req(self, conn: Any) -> None:
        if conn.initialized or conn.data_ready:
            # It may wait for long; what it then asks for must know.
            conn.arrived_at = time.monotonic()
            self._queued.append(conn)
            super().enqueue_req(conn)
        else:
            self._await_first(conn)

    def _await_first(self, conn: Any) -> None:
        """Let the loop wait until a new client says something; a thread has better to do."""
        patience = struct.pack("ll", self._settings.STALL_SECONDS, 0)
        for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            conn.sock.setsockopt(socket.SOL_SOCKET, direction, patience)
        conn.sock.setblocking(False)
        conn.set_timeout()
        self.pending_conns.append(conn)
        said = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, said)

    def handle(self, conn: Any) -> Any:
        """Answer a request, and those that follow it closely."""
        self._queued.pop()
        is_kept = super().handle(conn)
        while is_kept is True and self._follows(conn):
            conn.arrived_at = time.monotonic()
            is_kept = super().handle(conn)
        if not is_kept:
            _see_off(conn.sock)
        return is_kept

    def _follows(self, conn: Any) -> bool:
        """Tell whether the next request comes at once, if nobody else needs this thread."""
        if self._queued or self._draining_since is not None:
            return False
        if conn.parser.unreader.buf.getvalue():
            return False  # it is here already, and gunicorn knows how to go on
        if not self._spare.acquire(blocking=False):
            return False
        try:
            next_request = select.poll()
            next_request.register(conn.sock, select.POLLIN)
            return bool(next_request.poll(LINGER_MS))
        finally:
            self._spare.release()

    def handle_request(self, req: Any, conn: Any) -> Any:
        if self.nr + 1 >= self._last_request:
            self._drain()
        if self._draining_since is None:
            self._promised.add(conn)
        arrived_at.set(conn.arrived_at)
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Any) -> None:
        # First, for what has been read already of a next request is begun in there.
        self._promised.discard(conn)
        super().finish_request(conn, fs)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._drain()
        self.method_queue.defer(lambda: None)  # wakes the loop

    def murder_keepalived(self, force: bool = False) -> None:
        """Close what was idle for too long, and end when draining is over; the loop asks often."""
        super().murder_keepalived(force)
        if self._draining_since is not None and self._is_drained(time.monotonic()):
            self.alive = False

    def murder_pending(self) -> None:
        """Close who has said nothing; at the end, who has been silent for as long as the idle."""
        super().murder_pending()
        latest = time.monotonic() + self.cfg.keepalive - self._settings.DRAIN_SECONDS
        while not self.alive and self.pending_conns and self.pending_conns[0].timeout < latest:
            conn = self.pending_conns.popleft()
            self.poller.unregister(conn.sock)
            self.nr_conns -= 1
            conn.close()

    def _drain(self) -> None:
        if self._draining_since is None:
            # From here on gunicorn answers everything with Connection: close.
            self.max_keepalived = 0
            self._draining_since = time.monotonic()

    def _is_drained(self, now: float) -> bool:
        if self._draining_since and now > self._draining_since + self.cfg.graceful_timeout:
            return True
        # An idle connection carries the time at which it would be closed.
        patience = self.cfg.keepalive - self._settings.DRAIN_SECONDS
        return not self._promised and all(
            conn.timeout - now < patience for conn in self.keepalived_conns
        )


def _see_off(sock: Any) -> None:
    """Wait until a client has closed as well, here: the loop would wait for one after the other.

    Whoever closes before a client has been heard out takes the answer back from it.
    """
    deadline = time.monotonic() + FAREWELL_SECONDS
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(FAREWELL_PIECES):
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            if not sock.recv(4096):
                break
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)  # so that gunicorn does not wait again
