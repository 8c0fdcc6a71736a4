"""The Idempotency-Key of a request, and the mark on an answer that is given again."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from flask import Response, request

from app.changes import Applied, Intent
from app.errors import Invalid
from app.http.json import json_response

HEADER = "Idempotency-Key"
LONGEST = 255


def intent(operation: str, arguments: Any) -> Intent:
    """Return what this request means to do, with the key that its caller sent, if any."""
    key = request.headers.get(HEADER)
    if key is None:
        return Intent(operation)
    if not (1 <= len(key) <= LONGEST and key.isascii() and key.isprintable()):
        raise Invalid(f"The header {HEADER} must be 1 to {LONGEST} printable ASCII characters.")
    return Intent(operation, key, _fingerprint(arguments))


def answer(applied: Applied) -> Response:
    """Return the answer of a change, marked where it was given before."""
    headers = {"Idempotency-Replayed": "true"} if applied.replayed else None
    return json_response(applied.answer, headers=headers)


def _fingerprint(arguments: Any) -> str:
    """Return what two requests with the same meaning have in common, however they are spelled."""
    return hashlib.sha256(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).hexdigest()
