"""JSON by orjson, for every answer and every body."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response, current_app
from flask.json.provider import JSONProvider

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


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a ready answer."""
    return current_app.response_class(encode(value), status, headers, content_type=CONTENT_TYPE)
