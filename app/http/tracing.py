"""Adds a request id to every response, and logs and counts every request."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flask import has_request_context, request
from werkzeug.wsgi import get_path_info

from app.core import metrics
from app.http.context import current_environ
from app.http.masking import MASK, masked

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

# Returns the scope of a request, given its monotonic arrival time and its id.
Scope = Callable[[float, str], AbstractContextManager[Any]]

log = logging.getLogger("quartermaster.access")

HEADER = "X-Request-ID"
# Keys in the WSGI environment of a request.
CALLER = "quartermaster.caller"
_ID = "quartermaster.request_id"
_DETAILS = "quartermaster.details"
_VALID_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}", re.ASCII)
# The paths that revoke a token contain the token; misspelled ones may, too.
_CREDENTIALS_PATH = re.compile(r"/+api/+oauth/", re.IGNORECASE)
_GUID_LIKE = re.compile(r"[0-9a-f-]{32,}", re.IGNORECASE)
MAX_NAME_LENGTH = 40


def request_id() -> str:
    """Return the id of the current request, or a dash outside a request."""
    return current_environ().get(_ID, "-")


def note(**details: str) -> None:
    """Add details to the log line of the current request; pass names through ``loggable_name``."""
    current_environ().setdefault(_DETAILS, {}).update(details)


def loggable_name(name: str) -> str:
    """Return a name from a client, shortened, with everything that looks like a secret masked."""
    plain = masked(_GUID_LIKE.sub(MASK, name))
    return plain if len(plain) <= MAX_NAME_LENGTH else plain[:MAX_NAME_LENGTH] + "..."


class RequestTracing:
    """WSGI middleware around Flask: it logs and counts the response that the client gets.

    Every request runs in a scope, which limits its use of the database.
    """

    def __init__(self, wsgi_app: WSGIApplication, scope: Scope) -> None:
        self._wsgi_app = wsgi_app
        self._scope = scope

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        started, given = time.monotonic(), environ.get("HTTP_X_REQUEST_ID", "")
        is_valid = _VALID_ID.fullmatch(given) and masked(given) == given
        # A random one is no secret.
        environ[_ID] = given if is_valid else f"{random.getrandbits(128):032x}"  # nosec B311

        def begin_answer(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            _note_answer(environ, int(status[:3]), time.monotonic() - started)
            return start_response(status, [*headers, (HEADER, environ[_ID])], *error)

        with self._scope(started, environ[_ID]):
            return self._wsgi_app(environ, begin_answer)


def _note_answer(environ: dict[str, Any], status: int, seconds: float) -> None:
    """Count and log a request. Flask starts a response within its request context."""
    rule = request.url_rule if has_request_context() else None
    method: str = environ["REQUEST_METHOD"]
    metrics.record_request(rule.rule if rule else None, method, status, seconds)
    if not log.isEnabledFor(logging.INFO):
        return
    path, caller = get_path_info(environ), environ.get(CALLER)
    # The path of a route without arguments is that of its rule, and holds no secret.
    if rule is None or rule.arguments:
        path = masked(_GUID_LIKE.sub(MASK, path) if _CREDENTIALS_PATH.match(path) else path)
    details = {
        "request_id": environ[_ID],
        "method": method,
        "path": path,
        "status": status,
        "ms": round(seconds * 1000, 1),
        "address": environ.get("REMOTE_ADDR"),
        "caller": caller and caller.log_name,
        **environ.get(_DETAILS, {}),
    }
    # log.info would look for the line of code that calls it.
    extra = {"details": details}
    log.handle(
        log.makeRecord(log.name, logging.INFO, __file__, 0, "request", (), None, extra=extra)
    )


def name_by_route(record: logging.LogRecord) -> bool:
    """Log an unexpected error with its route, as a filter of Flask's logger.

    Flask's own message contains the path, which may contain a token.
    """
    if record.exc_info and has_request_context():
        record.msg, record.args = "%s %s failed", (request.method, request.url_rule)
    return True
