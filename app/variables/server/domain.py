"""Global variables: objects of the type servervariable, which have a value. Pure."""

from __future__ import annotations

from typing import Any

from app.changes import Change
from app.errors import Conflict
from app.types import Document, whole

TYPE = "servervariable"
# What is read of a variable for a change.
READS = ("TextId", "Folder", "TimeCreated", "Value")
BOOLEAN, INTEGER = 1, 2
WORDS = {BOOLEAN: "true or false", INTEGER: "a whole number"}

Value = int | bool


class OtherType(Conflict):
    """A value of another type than the variable has."""

    def __init__(self, variable: str, wanted: int) -> None:
        super().__init__(f"The variable {variable} must be {WORDS[wanted]}.")
        self.variable, self.wanted = variable, wanted


def is_value(value: Any) -> bool:
    """Tell whether a variable may be stored with this value; null is one that was never set."""
    return value is None or isinstance(value, bool) or whole(value) is not None


def value_of(variable: Document) -> Value:
    """Return the value; 0 for one that the game has never set, or that is no value."""
    stored = variable.get("Value")
    return stored if isinstance(stored, bool) else whole(stored) or 0


def type_of(value: Value) -> int:
    return BOOLEAN if isinstance(value, bool) else INTEGER


def served(variable: Document) -> Document:
    """Return the record of a variable, from that of its object."""
    value = value_of(variable)
    return {
        "Id": variable["Id"],
        "Name": _text(variable.get("Name")),
        "TextId": _text(variable.get("TextId")),
        "Type": type_of(value),
        "Folder": _text(variable.get("Folder")),
        "Value": value,
        "TimeCreated": whole(variable.get("TimeCreated")) or 0,
    }


def assign(variable: Document, *, value: Value) -> Change:
    """Set a variable to a value of the type that it has."""
    wanted = type_of(value_of(variable))
    if variable.get("Value") is not None and type_of(value) != wanted:
        raise OtherType(variable["_id"], wanted)
    return Change({"Value": value}, served({**variable, "Id": variable["_id"], "Value": value}))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
