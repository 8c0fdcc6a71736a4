"""Values as MongoDB holds them. Pure."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def whole(value: Any) -> int | None:
    """Return an integral number as an int64, or None: a game may store 5 as the double 5.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_whole = isinstance(value, int) or value.is_integer()
    return int(value) if is_whole and -(2**63) <= value < 2**63 else None
