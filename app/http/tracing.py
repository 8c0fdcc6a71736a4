"""A request id on every answer, and one log line and one count for every request."""

from __future__ import annotations

import logging
import random
import re
import time
from contextvars import ContextVar

from flask import Request, Response, g

from app import metrics

log = logging.getLogger("quartermaster.access")

HEADER = "X-Request-ID"
OUTSIDE = "-"
_STARTED = "quartermaster.started"
_request_id: ContextVar[str] = ContextVar("request_id", default=OUTSIDE)
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}", re.ASCII)
# The paths that revoke a token hold it, and so may those that were meant to.
_CREDENTIALS_PATH = re.compile(r"/+api/+oauth/", re.IGNORECASE)
_GUID_LIKE = re.compile(r"[0-9a-f-]{32,}", re.IGNORECASE)


def request_id() -> str:
    """Return the id of this request, or a dash outside of any."""
    return _request_id.get()


def begin(request: Request) -> None:
    given: str | None = request.environ.get("HTTP_X_REQUEST_ID")
    if given is None or not _SANE.fullmatch(given):
        given = f"{random.getrandbits(128):032x}"
    _request_id.set(given)
    request.environ[_STARTED] = time.perf_counter()


def end(request: Request, response: Response) -> Response:
    """Mark, count and log the answer of a request."""
    response.headers[HEADER] = _request_id.get()
    seconds = time.perf_counter() - request.environ[_STARTED]
    method, rule, status = request.method, request.url_rule, response.status_code
    metrics.request_ended(rule.rule if rule else None, method, status, seconds)
    if log.isEnabledFor(logging.INFO):
        details = {
            "method": method,
            "path": _masked(request.path),
            "status": status,
            "ms": round(seconds * 1000, 1),
            "address": request.remote_addr,
            "caller": getattr(g.get("caller"), "name", None),
        }
        log.info("request", extra={"details": details})
    _request_id.set(OUTSIDE)
    return response


def _masked(path: str) -> str:
    return _GUID_LIKE.sub("***", path) if _CREDENTIALS_PATH.match(path) else path
