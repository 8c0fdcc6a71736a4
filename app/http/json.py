"""JSON by orjson, for every response and every request body."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson
from flask import Response
from flask.json.provider import JSONProvider
from werkzeug.datastructures import Headers

CONTENT_TYPE = "application/json; charset=utf-8"
# UTC times end in Z, and keys need not be strings.
OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class OrjsonProvider(JSONProvider):
    """The provider that Flask and flask-smorest serialise with."""

    def dumps(self, obj: Any, **_: Any) -> str:
        return encode(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        return orjson.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        return json_response(self._prepare_response_obj(args, kwargs))


def encode(value: Any) -> bytes:
    """Return JSON; a value of a type that JSON does not have is served as its text."""
    return orjson.dumps(value, default=str, option=OPTIONS)


STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class ReadyHeaders(Headers):
    """Headers from strings that are known to be valid: Werkzeug would check each one."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._list = pairs


class JsonResponse(Response):
    """A response with a complete body, made without the checks of Werkzeug's constructor."""

    def __init__(self, body: bytes, status: int, headers: dict[str, str] | None) -> None:
        pairs = [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body)))]
        if headers:
            pairs += headers.items()
        self.headers = ReadyHeaders(pairs)
        self._status, self._status_code = STATUS_LINES[status], status
        self._body = self.response = [body]
        self.direct_passthrough = False
        self._on_close: list[Any] = []

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        start_response(self.status, self.headers.to_wsgi_list())
        return [] if environ["REQUEST_METHOD"] == "HEAD" else self._body


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a complete JSON response."""
    return JsonResponse(encode(value), status, headers)
