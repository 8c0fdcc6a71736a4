"""A request id on every answer, and one log line and one count for every request."""

from __future__ import annotations

import logging
import random
import re
import time
from typing import Any

from flask import Request, Response

from app import metrics
from app.http.context import current_environ
from app.http.masking import MASK, masked

log = logging.getLogger("quartermaster.access")

HEADER = "X-Request-ID"
# What is known of a request stands in its environment under these names.
CALLER = "quartermaster.caller"
_ID = "quartermaster.request_id"
_NOTED = "quartermaster.noted"
_STARTED = "quartermaster.started"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}", re.ASCII)
# The paths that revoke a token hold it, and so may those that were meant to.
_CREDENTIALS_PATH = re.compile(r"/+api/+oauth/", re.IGNORECASE)
_GUID_LIKE = re.compile(r"[0-9a-f-]{32,}", re.IGNORECASE)
LONGEST_NAME = 40


_BLANK = vars(logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", (), None, "end"))


class AccessRecord(logging.LogRecord):
    """A log record made in one step: all that is new in it are the time and the details."""

    def __init__(self, details: dict[str, Any]) -> None:
        self.__dict__ = {**_BLANK, "created": time.time(), "details": details}


def request_id() -> str:
    """Return the id of this request, or a dash outside of any."""
    return current_environ.get().get(_ID, "-")


def note(**details: str) -> None:
    """Add words of this program, or what ``shown`` made of a client's, to the line of a request."""
    current_environ.get().setdefault(_NOTED, {}).update(details)


def shown(name: str) -> str:
    """Return a name as a client wrote it, short, and without what may be a secret in its place."""
    plain = masked(_GUID_LIKE.sub(MASK, name))
    return plain if len(plain) <= LONGEST_NAME else plain[:LONGEST_NAME] + "..."


def begin(environ: dict[str, Any]) -> None:
    given: str | None = environ.get("HTTP_X_REQUEST_ID")
    if given is None or not _SANE.fullmatch(given) or masked(given) != given:
        given = f"{random.getrandbits(128):032x}"  # nosec B311 # a name, and no secret
    environ[_ID] = given
    environ[_STARTED] = time.perf_counter()


def end(request: Request, response: Response) -> None:
    """Set the request id on a response, and count and log the request."""
    environ = request.environ
    if _ID not in environ:
        return  # Dispatched by hand in a test_request_context, without begin.
    response.headers[HEADER] = environ[_ID]
    seconds = time.perf_counter() - environ[_STARTED]
    method, rule, status = request.method, request.url_rule, response.status_code
    metrics.request_ended(rule.rule if rule else None, method, status, seconds)
    if log.isEnabledFor(logging.INFO):
        details = {
            "method": method,
            "path": _masked(request.path),
            "status": status,
            "ms": round(seconds * 1000, 1),
            "address": request.remote_addr,
            "caller": getattr(environ.get(CALLER), "name", None),
            **environ.get(_NOTED, {}),
        }
        log.handle(AccessRecord(details))


def _masked(path: str) -> str:
    return masked(_GUID_LIKE.sub(MASK, path) if _CREDENTIALS_PATH.match(path) else path)
