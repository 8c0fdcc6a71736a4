"""Player variables: a map from id to an integer or a boolean. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.changes import Change
from app.errors import NotFound

Value = int | bool


def served(variables: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Return all variables, by id."""
    return [served_one(id_, variables[id_]) for id_ in sorted(variables)]


def served_one(variable_id: str, value: Value) -> dict[str, Any]:
    return {"VariableId": variable_id, "Value": value}


def value_of(variables: Mapping[str, Value], variable_id: str) -> Value:
    """Return the value of a variable that is set."""
    if variable_id not in variables:
        raise NotFound("variable", variable_id)
    return variables[variable_id]


def assign(player: dict[str, Any], *, variable_id: str, value: Value) -> Change:
    """Set a variable, whether it was there before or not."""
    variables = {**player["Variables"], variable_id: value}
    return Change({"Variables": variables}, served_one(variable_id, value))
