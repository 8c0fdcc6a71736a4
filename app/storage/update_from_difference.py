"""The smallest update between two versions of a document, and the values it is based on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.changes import is_same_value
from app.types import Document

_ABSENT = object()


def difference(old: Document, new: Mapping[str, Any]) -> tuple[Document, Document]:
    """Return the smallest update that sets these fields, and the filter of what it is based on.

    It is based on the fields that it replaces, and in maps on the whole entries that it changes: a
    slot's quantity may grow only while the slot holds the same item.
    """
    update: Document = {}
    values: Document = {}
    for field, value in new.items():
        before = old.get(field, _ABSENT)
        if value is before:  # a rule returns what it leaves alone as the same object
            continue
        if isinstance(value, dict) and isinstance(before, dict) and _has_paths(before, value):
            _compare(update, f"{field}.", before, value)
            _base_on_entries(values, field, before, value)
        elif not is_same_value(before, value):
            update.setdefault("$set", {})[field] = value
            values[field] = as_read(old, field)
    return update, values


def _has_paths(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether a path leads to all that differs: a game's own map may have a key like a.b."""
    for name in {**old, **new}:
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if before is after:
            continue
        if not name or "." in name or name.startswith("$"):
            return False
        if isinstance(before, dict) and isinstance(after, dict) and not _has_paths(before, after):
            return False
    return True


def _base_on_entries(values: Document, field: str, old: Document, new: Document) -> None:
    for name in {**old, **new}:
        if old.get(name, _ABSENT) is new.get(name, _ABSENT):
            continue
        values[f"{field}.{name}"] = as_read(old, name)
        if name not in old:
            # An absent entry of a null field would match too, and could not be set.
            values[field] = {"$type": "object"}


def _compare(update: Document, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if value is before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            _compare(update, f"{path}{name}.", before, value)
        elif not is_same_value(before, value):
            update.setdefault("$set", {})[path + name] = value
    for name in old.keys() - new.keys():
        update.setdefault("$unset", {})[path + name] = ""


def is_comparable(value: Any) -> bool:
    """Tell whether a value is as it is stored: a text that is no UTF-8 is read as another one."""
    return "\ufffd" not in str(value)


def as_read(document: Mapping[str, Any], name: str) -> Document:
    """Return the condition that a field still has the value that was read, or is still absent."""
    return {"$eq": document[name]} if name in document else {"$exists": False}


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Return the value that a path leads to; None if it leads nowhere."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
