"""What gunicorn writes to clients, put right: its own errors, and answers in one piece."""

from __future__ import annotations

import logging
import uuid
from http import HTTPStatus
from typing import Any

from gunicorn import util
from gunicorn.http import wsgi

from app import metrics
from app.http.json import CONTENT_TYPE, encode
from app.http.tracing import HEADER

log = logging.getLogger("quartermaster.access")


def install() -> None:
    """Take the place of gunicorn's own, in the process that serves."""
    # The one function by which gunicorn writes errors of its own.
    util.write_error = write_error
    wsgi.Response = OnePieceResponse


class OnePieceResponse(wsgi.Response):
    """Sends head and body together: two pieces would cost us and the client a system call each."""

    _head = b""
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
            super()._emit_body(data)
        else:
            head, self._head = self._head, b""
            self.sock.sendall(head + data)

    def can_sendfile(self) -> bool:
        """Files go the way of all bodies, behind the head."""
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
    """Answer what never became a request in the shape of all other errors."""
    request_id = uuid.uuid4().hex
    if status == HTTPStatus.NOT_IMPLEMENTED:
        # A coding of the body that is not known is for the client to mend, as the others are.
        status = HTTPStatus.BAD_REQUEST.value
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
    sock.sendall(head.encode("latin1") + body)


def _address_of(sock: Any) -> str | None:
    """Return the client's address, which a Unix socket and a closed connection do not have."""
    try:
        name = sock.getpeername()
    except OSError:
        return None
    return name[0] if isinstance(name, tuple) else None
