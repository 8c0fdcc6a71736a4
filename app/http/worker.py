"""gunicorn's threaded worker, with our answers where gunicorn itself refuses a request."""

from __future__ import annotations

import logging
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
    # What gunicorn logs of it beside this holds the reason, but not the id.
    log.warning("A request was refused with %d before it was read [%s]", status, request_id)
    metrics.REQUESTS.labels(metrics.REFUSED, metrics.NONE, status).inc()
    util.write_nonblock(sock, head.encode("latin1") + body)


# The one function by which gunicorn writes errors of its own.
util.write_error = write_error


class Worker(ThreadWorker):
    """Gives up on a client that stops in the middle of its body: no thread waits for ever."""

    # Where this worker counts, as the master says before it makes it.
    metrics_folder: str
    place: int

    def init_process(self) -> None:
        metrics.share(self.metrics_folder, self.place)
        super().init_process()

    def handle_request(self, req: Any, conn: Any) -> Any:
        conn.sock.settimeout(BODY_SECONDS)
        return super().handle_request(req, conn)
