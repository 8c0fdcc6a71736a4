"""gunicorn's threaded worker, with a loop that waits for clients so that no thread has to."""

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
from app.server.request_reader import HEAD_BYTES
from app.server.waiting import Waiting

# By how much a worker lets others go first, for each connection that it holds already.
COURTESY_SECONDS = 0.0003
MOST_COURTESIES = 10
# From here on it lets nobody go first: a flood of connections would keep all workers asleep.
MANY_CONNECTIONS = 100
# How long a client is listened to that was told to close.
FAREWELL_SECONDS = 1.0
# How often to look for clients that are too late.
SWEEP_SECONDS = 0.5
# How many of the largest bodies fit into what a worker keeps for slow clients.
MOST_BODIES = 64
# For how long to accept nobody where no connection can be opened, and how often to say so.
PAUSE_SECONDS = 0.5
COMPLAINT_SECONDS = 60
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NOBODY = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)


class LoopWorker(ThreadWorker):
    """Waits for clients in its loop, and answers in threads.

    A client may be as slow as it likes, or mean to be. So the loop reads requests, and a thread
    gets one when all of it is here. What a client does not take of its answer at once, the loop
    sends on, and it is the loop that waits until a client has closed.

    Only the loop touches what is here; a connection that is with a thread is nowhere in it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._settings = settings = config.load()
        self.worker_connections: int = open_files.connections(
            self.cfg.worker_connections, settings.MONGODB_POOL_SIZE
        )
        # Whoever is idle gives way to a newcomer, and so need not be sent away before.
        self.max_keepalived: int = sys.maxsize
        self._most_bytes = MOST_BODIES * settings.MAX_CONTENT_LENGTH
        # Those that may send another request once they have their answer.
        self._promised: set[Connection] = set()
        self._sweep_at = self._accept_at = self._complain_at = 0.0

    def run(self) -> None:
        patience = {
            Phase.IDLE: self.cfg.keepalive,
            Phase.HEAD: self._settings.HEAD_SECONDS,
            Phase.BODY: self._settings.BODY_SECONDS,
            Phase.SENDING: self._settings.SEND_SECONDS,
            Phase.CLOSING: FAREWELL_SECONDS,
        }
        self._waiting = Waiting(self.poller, patience)
        self.keepalived_conns = self._waiting.idle
        self._tls = tls.ssl_context(self.cfg) if self.cfg.is_ssl else None
        super().run()

    def accept(self, listener: Any) -> None:
        """Take a new connection, unless a worker that holds fewer is there first."""
        is_polite = self.cfg.workers > 1 and self.nr_conns < MANY_CONNECTIONS
        held = min(self.nr_conns, MOST_COURTESIES) if is_polite else 0
        time.sleep(COURTESY_SECONDS * held)
        # After a longer wait there may be several.
        for _ in range(1 + held // 3):
            if self.nr_conns >= self.worker_connections or not self._accept_one(listener):
                break
            self._make_room()

    def _accept_one(self, listener: Any) -> bool:
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in OUT_OF_FILES:
                self._go_short(error)
            elif error.errno not in NOBODY:
                raise
            return False
        self.nr_conns += 1
        server, most_body = listener.getsockname(), self._settings.MAX_CONTENT_LENGTH
        conn = Connection(self.cfg, sock, client, server, most_body)
        try:
            if self._tls:
                conn.sock.encrypt(self._tls, self.cfg.suppress_ragged_eofs)
            self._settle(conn)
        except OSError:  # it has gone already
            self._drop(conn)
        return True

    def _make_room(self) -> None:
        """Let who has been silent for longest give way, so that a newcomer finds a place."""
        while self.nr_conns >= self.worker_connections:
            silent = self._waiting.longest_silent()
            if silent is None:
                break  # all are being answered; gunicorn accepts nobody until one is done
            self._drop(silent)

    def _go_short(self, error: OSError) -> None:
        """Give up a connection for the one that could not be opened, or accept nobody for a while.

        To try again at once would take all of a processor.
        """
        now = time.monotonic()
        if now >= self._complain_at:
            self._complain_at = now + COMPLAINT_SECONDS
            self.log.warning("A connection could not be opened: %s.", error.strerror)
        silent = self._waiting.longest_silent()
        if silent is not None:
            self._drop(silent)
        else:
            self._accept_at = now + PAUSE_SECONDS
            self.set_accept_enabled(False)

    def set_accept_enabled(self, enabled: bool) -> None:
        super().set_accept_enabled(enabled and time.monotonic() >= self._accept_at)

    def _settle(self, conn: Connection) -> None:
        """Find out what a connection needs next: its client, a thread, or an end."""
        if conn.sock.unsent:
            self._hold(conn)
            return
        self._promised.discard(conn)
        if conn.is_kept and conn.parser.is_ready():
            self._dispatch(conn)
        elif conn.is_kept:
            self._hold(conn)
        elif conn.has_ended:
            self._drop(conn)
        else:
            conn.begin_closing()
            self._hold(conn)

    def _hold(self, conn: Connection) -> None:
        self._waiting.hold(conn, partial(self._on_event, conn))
        self._relieve()

    def _dispatch(self, conn: Connection) -> None:
        if conn.parser.is_over:
            self._drop(conn)
        else:
            self.enqueue_req(conn)

    def _on_event(self, conn: Connection, _: Any) -> None:
        # It may have been dropped for another that came at the same moment.
        if conn in self._waiting:
            try:
                self._move(conn)
            except OSError:
                self._drop(conn)

    def _move(self, conn: Connection) -> None:
        """Go on with a connection whose client has moved."""
        if conn.phase is Phase.CLOSING:
            if conn.hear_out():
                self._drop(conn)
            return
        if conn.phase is Phase.SENDING:
            conn.sock.flush()
            is_done, go_on = not conn.sock.unsent, self._settle
        else:
            is_done, go_on = conn.receive(), self._dispatch
        if is_done:
            self._waiting.release(conn)
            go_on(conn)
        else:
            self._waiting.note(conn)
            self._relieve()

    def _relieve(self) -> None:
        """Close what has been in memory for longest, where that is too much; never a small one."""
        while self._waiting.bytes > self._most_bytes:
            conn = self._waiting.oldest_over(HEAD_BYTES)
            if conn is None:
                break
            self._drop(conn)

    def _drop(self, conn: Connection) -> None:
        if conn in self._waiting:
            self._waiting.release(conn)
        self._waiting.forget(conn)
        self._promised.discard(conn)
        self.nr_conns -= 1
        conn.close()

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Take a connection back from its thread."""
        try:
            conn.is_kept = fs.result() and self.alive
            conn.was_answered = True
            conn.phase = None
            self._settle(conn)
        except (OSError, CancelledError):
            self._drop(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close who is too late, or everybody; gunicorn's loop asks at each of its turns."""
        now = time.monotonic()
        if now >= self._sweep_at or force:
            self._sweep_at = now + SWEEP_SECONDS
            for conn in self._waiting:
                if force:
                    self._drop(conn)
                elif conn.deadline <= now:
                    self._end(conn)
        self._make_room()

    def _end(self, conn: Connection) -> None:
        """Close a connection whose time is over; who has begun a request is told so."""
        if conn.phase not in (Phase.HEAD, Phase.BODY):
            self._drop(conn)
            return
        self._waiting.release(conn)
        conn.is_kept = False
        try:
            response.write_error(conn.sock, HTTPStatus.REQUEST_TIMEOUT.value, "", "")
            self._settle(conn)
        except OSError:
            self._drop(conn)
