"""Values as MongoDB stores them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]
# Every number with this many digits fits into an int64.
_MOST_DIGITS = 18


def whole(value: Any) -> int | None:
    """Return an integral number as an int64, or None: a game may store 5 as the double 5.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_whole = isinstance(value, int) or value.is_integer()
    return int(value) if is_whole and -(2**63) <= value < 2**63 else None


def decimal(text: str) -> int | None:
    """Return the number in a text of up to 18 decimal digits, or None.

    int() also accepts a sign and digits of other scripts, and raises for more than 4,300 digits.
    """
    is_number = len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal()
    return int(text) if is_number else None


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path; None if there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


# MongoDB limits the nesting of documents to about a hundred levels.
DEEPEST = 80


def is_deep(value: Any, levels: int) -> bool:
    """Return whether a value has more levels, without recursion: a deep value would overflow it."""
    level = [value]
    for _ in range(levels + 1):
        inner = [list(v.values()) if isinstance(v, dict) else v for v in level]
        level = [part for parts in inner if isinstance(parts, list) for part in parts]
        if not level:
            return False
    return True
