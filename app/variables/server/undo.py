"""The inverse of setting a global variable. Pure."""

from __future__ import annotations

from app.changes import Change, is_same_value
from app.types import Document
from app.variables.undo import ChangedSince


def undo(variable: Document, *, changes: list[Document]) -> Change:
    """Give a variable its former value, if it still has the one that was set."""
    (change,) = changes
    if not is_same_value(variable.get("Value"), change["After"]):
        raise ChangedSince(variable["_id"])
    # Null is a variable that was never set, and takes a value of either type.
    return Change({"Value": change["Before"]}, None)
