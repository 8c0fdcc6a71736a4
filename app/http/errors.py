"""Maps errors to statuses and messages."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import HTTPException

from app.core import metrics
from app.core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    QuartermasterError,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from app.http.json import json_response
from app.http.masking import masked

log = logging.getLogger("quartermaster")

STATUSES: dict[type[QuartermasterError], int] = {
    Invalid: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    RateLimited: 429,
    Unavailable: 503,
}
SENTENCES = {
    404: "This path does not exist.",
    411: "The request needs the header Content-Length.",
    413: "The request body is too large.",
    415: "The request body must be JSON, with the header Content-Type: application/json.",
}
CODES = {
    400: "BAD_REQUEST",
    404: "NO_SUCH_PATH",
    405: "METHOD_NOT_ALLOWED",
    411: "LENGTH_REQUIRED",
    413: "BODY_TOO_LARGE",
    415: "NOT_JSON",
    500: "INTERNAL_ERROR",
}
OTHER_CAUSES = {
    "BAD_REQUEST": "The request cannot be parsed.",
    "METHOD_NOT_ALLOWED": "The path has other methods: the header Allow lists them.",
    "INTERNAL_ERROR": "A bug: report the X-Request-ID of the answer.",
}
# The numbers of an error that its body repeats for programs.
NUMBERS = ("Wanted", "Held", "Left", "Version")
BUG = "Something went wrong on our side; our log has the details under this X-Request-ID."


def register(
    app: Flask | Blueprint,
    kind: type[Exception],
    translate: Callable[[Any], QuartermasterError | None],
    respond: Callable[[QuartermasterError], Response],
    respond_http: Callable[[HTTPException], Response],
) -> None:
    """Answer all errors in one format; errors of the given kind are translated first.

    There is no handler for Exception: Flask signals and logs only exceptions without a handler, and
    error-reporting extensions listen to that signal. Flask then passes an InternalServerError,
    which is an HTTPException, to the handler.
    """

    def answer_translated(error: Exception) -> Response:
        known = translate(error)
        if known is None:
            raise error
        known.__cause__ = error
        return respond(known)

    app.register_error_handler(QuartermasterError, respond)
    app.register_error_handler(HTTPException, respond_http)
    app.register_error_handler(kind, answer_translated)


def answer(error: QuartermasterError) -> Response:
    note(error)
    return json_response(body_of(error), status_of(error), headers_of(error))


def note(error: QuartermasterError) -> None:
    """Log or count an error that operators need to see, whatever the format of the response."""
    if isinstance(error, Unavailable):
        log.warning("%s (%s)", error, error.__cause__ or "no other cause")
    if isinstance(error, RateLimited):
        metrics.RATE_LIMITED.labels(error.limit).inc()


def body_of(error: QuartermasterError) -> dict[str, Any]:
    """Return the body of an error; a secret sent as a name or in a field is masked."""
    body: dict[str, Any] = {"Message": masked(str(error)), "Code": error.code}
    for name in NUMBERS:
        number = getattr(error, name.lower(), None)
        if type(number) is int:
            body[name] = number
    if isinstance(error, Invalid) and error.fields:
        body["Errors"] = {masked(name): faults for name, faults in error.fields.items()}
    return body


def http_body(status: int, message: str, name: str = "") -> dict[str, Any]:
    """Return the body of an error of Flask or Werkzeug."""
    return {"Message": message, "Code": CODES.get(status) or name.upper().replace(" ", "_")}


def kinds_of_errors() -> Iterator[tuple[type[QuartermasterError], int]]:
    """Yield the errors that the API answers, with their statuses."""
    for base, status in STATUSES.items():
        kinds = [base]
        for kind in kinds:
            # Errors of these rooms appear on pages or at the command line only.
            rooms = ("app.console", "app.users.openid", "app.maintenance")
            if not kind.__module__.startswith(rooms):
                yield kind, status
                kinds += kind.__subclasses__()


def codes() -> dict[str, int]:
    """Return the codes of the errors that the API answers, with their statuses."""
    found = {code: status for status, code in CODES.items()}
    found |= {kind.code: status for kind, status in kinds_of_errors()}
    return dict(sorted(found.items()))


def causes() -> dict[str, str]:
    """Return the codes of errors, with their causes for documents."""
    found = {code: OTHER_CAUSES.get(code) or SENTENCES[status] for status, code in CODES.items()}
    for kind, _ in kinds_of_errors():
        # The text of the error with the names of its parts, or else what its docstring says first.
        text = re.sub(r"{(\w+)}", lambda part: f"[{part[1].replace('_', ' ')}]", kind.sentence)
        if "{message}" in kind.sentence:
            text = re.split(r"(?<=\.)\s", str(kind.__doc__))[0]
        found.setdefault(kind.code, text)
    return found


def status_of(error: QuartermasterError) -> int:
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)


def headers_of(error: QuartermasterError) -> dict[str, str]:
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, RateLimited | Unavailable):
        return {"Retry-After": str(error.retry_after)}
    return {}


def http_sentence(error: HTTPException) -> str:
    """Return the sentence for an error of Flask or Werkzeug, or for an unexpected one."""
    if getattr(error, "original_exception", None) is not None:
        return BUG
    if error.code == 405:
        return f"The method {request.method} is not allowed here."
    # A description set by the code that raised the error wins over Werkzeug's default.
    own: str | None = vars(error).get("description")
    return own or SENTENCES.get(error.code or 500) or error.description or error.name


def answer_http(error: HTTPException) -> Response:
    """Answer errors of Flask and Werkzeug, including InternalServerError for unexpected ones."""
    status, sentence = error.code or 500, http_sentence(error)
    kept = {n: v for n, v in error.get_headers() if n not in ("Content-Type", "Content-Length")}
    return json_response(http_body(status, sentence, error.name), status, kept)
