"""gunicorn's threaded worker, with our answers where gunicorn itself refuses a request, and an end
that no client notices."""

from __future__ import annotations

import logging
import sys
import time
import uuid
from http import HTTPStatus
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from app import metrics
from app.http.json import CONTENT_TYPE, encode
from app.http.tracing import HEADER

log = logging.getLogger("quartermaster.access")

BODY_SECONDS = 30


def write_error(sock: Any, status: int, reason: str, message: str) -> None:
    """Answer what never became a request in the shape of all other errors."""
    request_id = uuid.uuid4().hex
    phrase = HTTPStatus(status).phrase
    sentence = f"The request was refused before it was read: {phrase.lower()}."
    body = encode({"Message": sentence})
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nConnection: close\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n{HEADER}: {request_id}\r\n\r\n"
    )
    # The line that every request gets; what gunicorn logs beside it holds the reason.
    details = {
        **{"request_id": request_id, "method": "-", "path": "-", "status": status},
        **{"ms": 0.0, "address": _address_of(sock), "caller": None},
    }
    log.warning("request", extra={"details": details})
    metrics.REQUESTS.labels(metrics.REFUSED, metrics.NONE, status).inc()
    util.write_nonblock(sock, head.encode("latin1") + body)


def _address_of(sock: Any) -> str | None:
    """Return the client's address, which a Unix socket and a closed connection do not have."""
    try:
        name = sock.getpeername()
    except OSError:
        return None
    return name[0] if isinstance(name, tuple) else None


# The one function by which gunicorn writes errors of its own.
util.write_error = write_error


class Worker(ThreadWorker):
    """Ends without breaking a promise, and gives up on a client that stops amid its body.

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
        # Those whose request began before the end was known, and so was promised another.
        self._promised: set[Any] = set()
        # gunicorn would end at once after the last request; we count for ourselves, and drain.
        self._last_request: int = self.max_requests
        self.max_requests: int = sys.maxsize

    def init_process(self) -> None:
        metrics.share(self.metrics_folder, self.place)
        super().init_process()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._drain()
        self.method_queue.defer(lambda: None)  # wakes the loop

    def handle_request(self, req: Any, conn: Any) -> Any:
        if self.nr + 1 >= self._last_request:
            self._drain()
        if self._draining_since is None:
            self._promised.add(conn)
        conn.sock.settimeout(BODY_SECONDS)
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Any) -> None:
        # First, for what has been read already of a next request is begun in there.
        self._promised.discard(conn)
        super().finish_request(conn, fs)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close what was idle for too long, and end when draining is over; the loop asks often."""
        super().murder_keepalived(force)
        if self._draining_since is not None and self._is_drained(time.monotonic()):
            self.alive = False

    def _drain(self) -> None:
        if self._draining_since is None:
            # From here on gunicorn answers everything with Connection: close.
            self.max_keepalived = 0
            self._draining_since = time.monotonic()

    def _is_drained(self, now: float) -> bool:
        if self._draining_since and now > self._draining_since + self.cfg.graceful_timeout:
            return True
        # An idle connection carries the time at which it would be closed.
        patience = self.cfg.keepalive - self.wsgi.config["DRAIN_SECONDS"]
        return not self._promised and all(
            conn.timeout - now < patience for conn in self.keepalived_conns
        )
