"""MongoDB's Extended JSON: ``{"$date": "2026-01-31T12:00:00Z"}``.

A game may store any BSON type on its players. Exported as a plain string, a date would be imported
as a string.
"""

from __future__ import annotations

import math
from typing import Any

from bson import Code, json_util
from bson.errors import BSONError

OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.RELAXED)
PLAIN = (str, bool, int, type(None))


def to_json(value: Any) -> Any:
    """Return a value as Extended JSON."""
    is_plain = isinstance(value, PLAIN) and not isinstance(value, Code)
    if is_plain or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict):
        return {name: to_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [to_json(inner) for inner in value]
    return json_util.default(value, OPTIONS)


def from_json(value: Any) -> Any:
    """Return the value of Extended JSON; raise ValueError if it is malformed."""
    if isinstance(value, list):
        return [from_json(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    inner = {name: from_json(inner) for name, inner in value.items()}
    try:
        return json_util.object_hook(inner, OPTIONS)
    except (TypeError, ValueError, ArithmeticError, BSONError) as error:
        raise ValueError(f"{value} is not what it claims to be") from error
