"""A request id in every response, and one log line and one count for every request."""

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
# Keys in the WSGI environment of a request.
CALLER = "quartermaster.caller"
_ID = "quartermaster.request_id"
_DETAILS = "quartermaster.details"
_STARTED = "quartermaster.started"
_VALID_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}", re.ASCII)
# The paths that revoke a token contain it, and so may misspelled ones.
_CREDENTIALS_PATH = re.compile(r"/+api/+oauth/", re.IGNORECASE)
_GUID_LIKE = re.compile(r"[0-9a-f-]{32,}", re.IGNORECASE)
MAX_NAME_LENGTH = 40


_TEMPLATE = vars(logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", (), None, "end"))


class AccessRecord(logging.LogRecord):
    """A log record copied from a template, which is cheaper than to make one."""

    def __init__(self, details: dict[str, Any]) -> None:
        self.__dict__ = {**_TEMPLATE, "created": time.time(), "details": details}


def request_id() -> str:
    """Return the id of the current request, or a dash outside of a request."""
    return current_environ.get().get(_ID, "-")


def note(**details: str) -> None:
    """Add details to the log line of the current request; a client's words only by ``shown``."""
    if environ := current_environ.get():
        environ.setdefault(_DETAILS, {}).update(details)


def shown(name: str) -> str:
    """Return a name that a client sent, shortened, and with everything like a secret masked."""
    plain = masked(_GUID_LIKE.sub(MASK, name))
    return plain if len(plain) <= MAX_NAME_LENGTH else plain[:MAX_NAME_LENGTH] + "..."


def begin(environ: dict[str, Any]) -> None:
    """Set the request id and the start time."""
    given: str | None = environ.get("HTTP_X_REQUEST_ID")
    if given is None or not _VALID_ID.fullmatch(given) or masked(given) != given:
        given = f"{random.getrandbits(128):032x}"  # nosec B311 # It is no secret.
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
            "caller": _logged(environ.get(CALLER)),
            **environ.get(_DETAILS, {}),
        }
        log.handle(AccessRecord(details))


def _logged(caller: Any) -> str | None:
    """Return how a log line names a caller; of a key, its name as well."""
    name: str | None = caller and (caller.logged or caller.name)
    return name


def _masked(path: str) -> str:
    return masked(_GUID_LIKE.sub(MASK, path) if _CREDENTIALS_PATH.match(path) else path)
