"""The Idempotency-Key of a request, and the header that marks a replayed response."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from flask import Response, request

from app.changes import Applied, Intent
from app.errors import Invalid
from app.http.json import json_response

HEADER = "Idempotency-Key"
MAX_LENGTH = 255


def intent(operation: str, arguments: Any) -> Intent:
    """Return the operation that a request asks for, with its Idempotency-Key if it has one."""
    key = request.headers.get(HEADER)
    if key is None:
        return Intent(operation)
    if not (1 <= len(key) <= MAX_LENGTH and key.isascii() and key.isprintable()):
        raise Invalid(f"The header {HEADER} must be 1 to {MAX_LENGTH} printable ASCII characters.")
    return Intent(operation, key, _fingerprint(arguments))


def answer(applied: Applied) -> Response:
    """Return the response to a change; a header marks one that was replayed."""
    headers = {"Idempotency-Replayed": "true"} if applied.replayed else None
    return json_response(applied.answer, headers=headers)


def _fingerprint(arguments: Any) -> str:
    """Return a hash that is equal for equal arguments, in whatever order they were sent."""
    return hashlib.sha256(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).hexdigest()
