"""JSON serialisation with orjson, for all responses."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Response

CONTENT_TYPE = "application/json; charset=utf-8"
# UTC times end in Z, and keys need not be strings.
OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


def encode(value: Any) -> bytes:
    """Encode a value as JSON; values of types that JSON lacks become strings."""
    return orjson.dumps(value, default=str, option=OPTIONS)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(value), status, headers, content_type=CONTENT_TYPE)
