"""The smallest update between two versions of a document. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.core.changes import ABSENT, is_same_value
from app.core.types import Document


def difference(old: Document, new: Mapping[str, Any]) -> Document:
    """Return the smallest update to these fields; {}: they have not changed."""
    update: Document = {}
    for field, value in new.items():
        before = old.get(field, ABSENT)
        if value is before:  # unchanged: a rule returns the same object
            continue
        if isinstance(value, dict) and isinstance(before, dict) and _has_paths(before, value):
            _compare(update, f"{field}.", before, value)
        elif not is_same_value(before, value):
            if value is ABSENT:
                update.setdefault("$unset", {})[field] = ""
            else:
                update.setdefault("$set", {})[field] = value
    return update


def _has_paths(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a path leads to every difference: a game's own map may have a key like a.b."""
    for name in {**old, **new}:
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if before is after:
            continue
        if not name or "." in name or name.startswith("$"):
            return False
        if isinstance(before, dict) and isinstance(after, dict) and not _has_paths(before, after):
            return False
    return True


def _compare(update: Document, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name, value in new.items():
        before = old.get(name, ABSENT)
        if value is before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            _compare(update, f"{path}{name}.", before, value)
        elif not is_same_value(before, value):
            update.setdefault("$set", {})[path + name] = value
    for name in old.keys() - new.keys():
        update.setdefault("$unset", {})[path + name] = ""


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path; None if there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
