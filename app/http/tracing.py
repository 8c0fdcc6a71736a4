"""A request id on every answer, and one log line and one count for every request."""

from __future__ import annotations

import logging
import re
import time
import uuid

from flask import Flask, Response, g, has_request_context, request

from app import metrics

log = logging.getLogger("quartermaster.access")

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}", re.ASCII)
# The paths that revoke a token hold it, and so may those that were meant to.
_CREDENTIALS_PATH = re.compile(r"/+api/+oauth/", re.IGNORECASE)
_GUID_LIKE = re.compile(r"[0-9a-f-]{32,}", re.IGNORECASE)


def register(app: Flask) -> None:
    app.before_request(_begin)
    app.after_request(_end)


def request_id() -> str:
    """Return the id of this request, or a dash outside of any."""
    return g.get("request_id", "-") if has_request_context() else "-"


def _begin() -> None:
    given = request.headers.get(HEADER, "")
    g.request_id = given if _SANE.fullmatch(given) else uuid.uuid4().hex
    g.started = time.perf_counter()


def _end(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    method, rule = request.method, request.url_rule
    seconds = time.perf_counter() - g.started
    metrics.request_ended(rule.rule if rule else None, method, response.status_code, seconds)
    details = {
        "method": method,
        "path": _masked(request.path),
        "status": response.status_code,
        "ms": round(seconds * 1000, 1),
        "address": request.remote_addr,
        "caller": getattr(g.get("caller"), "name", None),
    }
    log.info("request", extra={"details": details})
    return response


def _masked(path: str) -> str:
    return _GUID_LIKE.sub("***", path) if _CREDENTIALS_PATH.match(path) else path
