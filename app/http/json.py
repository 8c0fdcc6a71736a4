"""JSON serialisation with orjson, for all responses and request bodies."""

from __future__ import annotations

from typing import Any, cast

import orjson
from flask import Response
from flask.json.provider import JSONProvider

CONTENT_TYPE = "application/json; charset=utf-8"
# UTC times end in Z, and keys need not be strings.
OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class OrjsonProvider(JSONProvider):
    """The JSON provider of Flask and flask-smorest."""

    def dumps(self, obj: Any, **_: Any) -> str:
        return encode(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        return orjson.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        response = cast(Response, super().response(*args, **kwargs))
        response.content_type = CONTENT_TYPE
        return response


def encode(value: Any) -> bytes:
    """Encode a value as JSON; values of types that JSON lacks become strings."""
    return orjson.dumps(value, default=str, option=OPTIONS)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(value), status, headers, content_type=CONTENT_TYPE)
