"""Values that JSON does not know, as MongoDB writes them: ``{"$date": "2026-01-31T12:00:00Z"}``.

A game may store anything on its players. Written as plain text, a time would come back as a text.
"""

from __future__ import annotations

import math
from typing import Any

from bson import json_util
from bson.errors import BSONError

OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.RELAXED)
PLAIN = (str, bool, int, type(None))


def to_json(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, PLAIN) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict):
        return {name: to_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [to_json(inner) for inner in value]
    return json_util.default(value, OPTIONS)


def from_json(value: Any) -> Any:
    """Return the value that JSON holds so; raise ValueError where it holds none."""
    if isinstance(value, list):
        return [from_json(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    inner = {name: from_json(inner) for name, inner in value.items()}
    try:
        return json_util.object_hook(inner, OPTIONS)
    except (TypeError, ValueError, ArithmeticError, BSONError) as error:
        raise ValueError(f"{value} is not what it claims to be") from error
