"""MongoDB's Extended JSON: ``{"$date": "2026-01-31T12:00:00Z"}``.

A game may store any BSON type on its players. Exported as a plain string, a date would be imported
as a string.
"""

from __future__ import annotations

import json
from typing import Any

from bson import json_util
from bson.errors import BSONError

OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.RELAXED)


def to_json(value: Any) -> Any:
    """Return a value as Extended JSON."""
    return json.loads(json_util.dumps(value, json_options=OPTIONS))


def from_json(value: Any) -> Any:
    """Return the value of Extended JSON; raise ValueError if it is malformed."""
    try:
        return json_util.loads(json.dumps(value), json_options=OPTIONS)
    except (TypeError, ValueError, ArithmeticError, BSONError) as error:
        raise ValueError(f"{value} is not what it claims to be") from error
