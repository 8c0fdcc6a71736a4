"""What gunicorn writes to clients: answers in one piece, and its own errors as JSON."""

from __future__ import annotations

import logging
import uuid
from http import HTTPStatus
from typing import Any

from gunicorn.http import wsgi

from app import metrics
from app.http.json import CONTENT_TYPE, encode
from app.http.tracing import HEADER

log = logging.getLogger("quartermaster.access")


class OnePieceResponse(wsgi.Response):
    """Sends head and body by one system call, which also saves the client one."""

    _head = b""
    _waited = 0.0
    headers_sent: bool

    def send_headers(self) -> None:
        if not self.headers_sent:
            lines = [
                *self.default_headers(),
                *(f"{name}: {value}\r\n" for name, value in self.headers),
            ]
            self._head = "".join((*lines, "\r\n")).encode("latin1")
            self.headers_sent = True

    def _emit_body(self, data: bytes) -> None:
        if self.chunked:
            self._flush()
            self._waited = self.sock.wait_for_client(self._waited)
            super()._emit_body(data)
        else:
            head, self._head = self._head, b""
            self.sock.sendall(head + data)

    def can_sendfile(self) -> bool:
        """Return False: sendfile would send the head in a piece of its own."""
        return False

    def close(self) -> None:
        self.send_headers()
        self._flush()
        super().close()

    def _flush(self) -> None:
        if self._head:
            self.sock.sendall(self._head)
            self._head = b""


def write_error(sock: Any, status: int, reason: str, message: str) -> None:
    """Answer what could not be parsed as a request, in the shape of all other errors."""
    request_id = uuid.uuid4().hex
    if status == HTTPStatus.NOT_IMPLEMENTED:
        # gunicorn's status for an unknown transfer coding, which is the client's error.
        status = HTTPStatus.BAD_REQUEST.value
    phrase = HTTPStatus(status).phrase
    sentence = f"The request was refused before it was read: {phrase.lower()}."
    body = encode({"Message": sentence})
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nConnection: close\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n{HEADER}: {request_id}\r\n\r\n"
    )
    # The log line that every request gets; gunicorn logs the reason in another line.
    details = {
        "request_id": request_id,
        "method": "-",
        "path": "-",
        "status": status,
        "ms": 0.0,
        "address": _address_of(sock),
        "caller": None,
    }
    log.warning("request", extra={"details": details})
    metrics.REQUESTS.labels(metrics.REFUSED, metrics.NONE, status).inc()
    sock.sendall(head.encode("latin1") + body)


def _address_of(sock: Any) -> str | None:
    """Return the client's address; None for a Unix socket and for a closed connection."""
    try:
        name = sock.getpeername()
    except OSError:
        return None
    return name[0] if isinstance(name, tuple) else None
