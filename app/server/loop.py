"""gunicorn's threaded worker, with an event loop that waits for clients instead of threads."""

from __future__ import annotations

import errno
import sys
import time
from concurrent.futures import CancelledError
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn import sock as tls
from gunicorn.workers.gthread import ThreadWorker

import config
from app.server import open_files, response
from app.server.connection import Connection, Phase
from app.server.request_reader import HEAD_BYTES, BodyLimits
from app.server.waiting import WaitingConnections

# How long to wait for a client to close after we have sent FIN.
CLOSING_SECONDS = 1.0
# How often to look for connections whose deadline has passed.
SWEEP_SECONDS = 0.5
# The buffers of a worker may hold this many bodies of the maximum size.
MAX_BUFFERED_BODIES = 64
# How long not to accept after the system has run out of files, and how often to log that.
ACCEPT_PAUSE_SECONDS = 0.5
WARNING_INTERVAL_SECONDS = 60
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Another worker was faster, or the client has gone.
NO_CONNECTION = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class LoopWorker(ThreadWorker):
    """Waits for clients in its loop, and answers in threads.

    A client may be slow, or slow on purpose. So the loop reads requests, and a thread gets one
    only when it is complete. The loop also sends what the client does not take of its answer at
    once, and waits for the client to close.

    Only the loop's thread uses this state. While a thread answers on a connection, the connection
    is not among the waiting ones.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._settings = settings = config.load()
        self.worker_connections: int = open_files.connections(
            self.cfg.worker_connections, settings.MONGODB_POOL_SIZE
        )
        # gunicorn need not limit idle connections: a new connection replaces an idle one.
        self.max_keepalived: int = sys.maxsize
        self._body_limits = BodyLimits(
            settings.MAX_CONTENT_LENGTH,
            settings.BATCH_CONTENT_LENGTH,
            settings.BODY_SECONDS,
            settings.SEND_SECONDS,
        )
        self._max_buffered_bytes = MAX_BUFFERED_BODIES * settings.MAX_CONTENT_LENGTH
        # Connections whose answer says, or will say, that another request may follow.
        self._promised_keep_alive: set[Connection] = set()
        self._sweep_at = self._accept_at = self._warn_at = 0.0

    def run(self) -> None:
        timeouts = {
            Phase.IDLE: self.cfg.keepalive,
            Phase.HEAD: self._settings.HEAD_SECONDS,
            Phase.BODY: self._settings.BODY_SECONDS,
            Phase.SENDING: self._settings.SEND_SECONDS,
            Phase.CLOSING: CLOSING_SECONDS,
        }
        self._waiting = WaitingConnections(self.poller, timeouts)
        self.keepalived_conns = self._waiting.idle
        self._tls = tls.ssl_context(self.cfg) if self.cfg.is_ssl else None
        super().run()

    def accept(self, listener: Any) -> None:
        if self.nr_conns < self.worker_connections and self._accept_one(listener):
            self._make_room()

    def _accept_one(self, listener: Any) -> bool:
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._handle_exhaustion(error)
            elif error.errno not in NO_CONNECTION:
                raise
            return False
        self.nr_conns += 1
        conn = Connection(self.cfg, sock, client, listener.getsockname(), self._body_limits)
        try:
            if self._tls:
                conn.sock.start_tls(self._tls, self.cfg.suppress_ragged_eofs)
            self._proceed(conn)
        except OSError:  # The client has gone already.
            self._drop(conn)
        return True

    def _make_room(self) -> None:
        """Close the least recently active connections, so that a new one can be accepted."""
        while self.nr_conns >= self.worker_connections:
            conn = self._waiting.least_recently_active()
            if conn is None:
                break  # Threads have all of them; gunicorn accepts none until one is answered.
            self._drop(conn)

    def _handle_exhaustion(self, error: OSError) -> None:
        """Close a connection in exchange for the one that failed, or stop accepting for a while.

        To try again at once would be a busy loop.
        """
        now = time.monotonic()
        if now >= self._warn_at:
            self._warn_at = now + WARNING_INTERVAL_SECONDS
            self.log.warning("A connection could not be opened: %s.", error.strerror)
        conn = self._waiting.least_recently_active()
        if conn is not None:
            self._drop(conn)
        else:
            self._accept_at = now + ACCEPT_PAUSE_SECONDS
            self.set_accept_enabled(False)

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled and time.monotonic() >= self._accept_at)

    def _proceed(self, conn: Connection) -> None:
        """Do what a connection needs next: wait for its client, give it a thread, or close it."""
        if conn.sock.unsent:
            self._wait(conn)
            return
        self._promised_keep_alive.discard(conn)
        if conn.is_keep_alive and conn.parser.is_ready():
            self._dispatch(conn)
        elif conn.is_keep_alive:
            self._wait(conn)
        elif conn.has_ended:
            self._drop(conn)
        else:
            conn.begin_closing()
            self._wait(conn)

    def _wait(self, conn: Connection) -> None:
        self._waiting.add(conn, partial(self._on_event, conn))
        self._limit_buffered_bytes()

    def _dispatch(self, conn: Connection) -> None:
        if conn.parser.ended_without_request:
            self._drop(conn)
        else:
            self.enqueue_req(conn)

    def _on_event(self, conn: Connection, _: Any) -> None:
        # An event of the same poll may have closed it to make room.
        if conn in self._waiting:
            try:
                self._on_activity(conn)
            except OSError:
                self._drop(conn)

    def _on_activity(self, conn: Connection) -> None:
        if conn.phase is Phase.CLOSING:
            if conn.discard_input():
                self._drop(conn)
            return
        if conn.phase is Phase.SENDING:
            conn.sock.flush()
            is_done, go_on = not conn.sock.unsent, self._proceed
        else:
            is_done, go_on = conn.receive(), self._dispatch
        if is_done:
            self._waiting.remove(conn)
            go_on(conn)
        else:
            self._waiting.note_activity(conn)
            self._limit_buffered_bytes()

    def _limit_buffered_bytes(self) -> None:
        """Close connections with large buffers, the earliest deadline first, above the limit."""
        while self._waiting.buffered_bytes > self._max_buffered_bytes:
            conn = self._waiting.first_to_expire(over_bytes=HEAD_BYTES)
            if conn is None:
                break
            self._drop(conn)

    def _drop(self, conn: Connection) -> None:
        if conn in self._waiting:
            self._waiting.remove(conn)
        self._waiting.forget_bytes(conn)
        self._promised_keep_alive.discard(conn)
        self.nr_conns -= 1
        conn.close()

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Take a connection back from its thread."""
        try:
            conn.is_keep_alive = fs.result() and self.alive
            conn.was_answered = True
            conn.phase = None
            self._proceed(conn)
        except (OSError, CancelledError):
            self._drop(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close connections whose deadline has passed, or all; gunicorn calls it in each loop."""
        now = time.monotonic()
        if now >= self._sweep_at or force:
            self._sweep_at = now + SWEEP_SECONDS
            for conn in self._waiting:
                if force:
                    self._drop(conn)
                elif conn.deadline <= now:
                    self._time_out(conn)
        self._make_room()

    def _time_out(self, conn: Connection) -> None:
        """Close a connection; if the client has begun a request, answer 408 before."""
        if conn.phase not in (Phase.HEAD, Phase.BODY):
            self._drop(conn)
            return
        self._waiting.remove(conn)
        conn.is_keep_alive = False
        try:
            response.write_error(conn.sock, HTTPStatus.REQUEST_TIMEOUT.value, "", "")
            self._proceed(conn)
        except OSError:
            self._drop(conn)
