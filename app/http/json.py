"""JSON by orjson, for every answer and every body."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson
from flask import Response
from flask.json.provider import JSONProvider
from werkzeug.datastructures import Headers

CONTENT_TYPE = "application/json; charset=utf-8"
# A number stays a number for every client that can read int64; times end in Z.
OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class OrjsonProvider(JSONProvider):
    """What Flask and flask-smorest turn values into answers with."""

    def dumps(self, obj: Any, **_: Any) -> str:
        return encode(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        return orjson.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        return json_response(self._prepare_response_obj(args, kwargs))


def encode(value: Any) -> bytes:
    """Return JSON; what a game stored that JSON does not know is served as its text."""
    return orjson.dumps(value, default=str, option=OPTIONS)


STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class ReadyHeaders(Headers):
    """Headers that are text already, and need not be looked at one by one."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._list = pairs


class JsonResponse(Response):
    """A ready answer: a body of known length, a status and a few headers, passed on as they are."""

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
    """Return a ready answer."""
    return JsonResponse(encode(value), status, headers)
