"""Variables, which are integers or booleans: those of a player, and those of the whole game. Pure.

A player has a map from id to value. A global variable is an object of the type servervariable.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document, whole
from app.players.domain import restore_fields

# The type of global variables, and the fields that a change reads.
GLOBAL = "servervariable"
GLOBAL_READS = ("TextId", "Folder", "TimeCreated", "Value")
BOOLEAN, INTEGER = 1, 2
WORDS = {BOOLEAN: "true or false", INTEGER: "a whole number"}

Value = int | bool


class ChangedSince(Conflict):
    code = "VARIABLE_CHANGED"
    sentence = "The variable {variable} has changed."


class OtherType(Conflict):
    """The variable has another type, which a change keeps."""

    sentence = "The variable {variable} must be {type}."


def variable_records(variables: Mapping[str, Value]) -> list[Document]:
    return [variable_record(id_, variables[id_]) for id_ in sorted(variables)]


def variable_record(variable_id: str, value: Value) -> Document:
    return {"VariableId": variable_id, "Value": value}


def assign(player: Document, *, variable_id: str, value: Value) -> Change:
    """Set a variable of a player, whether it was set before or not."""
    variables = {**player["Variables"], variable_id: value}
    return Change({"Variables": variables}, variable_record(variable_id, value))


def global_value(variable: Document) -> Value:
    """Return the value; 0 if the game has never set it, or if it is invalid."""
    stored = variable.get("Value")
    return stored if isinstance(stored, bool) else whole(stored) or 0


def type_of(value: Value) -> int:
    return BOOLEAN if isinstance(value, bool) else INTEGER


def global_variable_record(variable: Document) -> Document:
    """Return the record of a global variable, from the record of its object."""
    texts = {name: variable.get(name) for name in ("Name", "TextId", "Folder")}
    value = global_value(variable)
    return {
        "Id": variable["Id"],
        **{name: text if isinstance(text, str) else "" for name, text in texts.items()},
        "Type": type_of(value),
        "Value": value,
        "TimeCreated": whole(variable.get("TimeCreated")) or 0,
    }


def assign_global(variable: Document, *, variable_id: str, value: Value) -> Change:
    """Set a global variable to a value of its own type."""
    wanted = type_of(global_value(variable))
    if variable.get("Value") is not None and type_of(value) != wanted:
        raise OtherType(variable_id, WORDS[wanted])
    record = global_variable_record({**variable, "Id": variable_id, "Value": value})
    return Change({"Value": value}, record)


def undo_global(variable: Document, *, changes: list[Document]) -> Change:
    """Restore the former value of a global variable, if it has not changed since."""
    # A variable that was never set accepts a value of either type.
    error = ChangedSince(variable["_id"])
    return restore_fields(variable, changes=changes, changed=lambda _: error)
