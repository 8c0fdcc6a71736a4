from __future__ import annotations

from typing import Any

from marshmallow import fields

from app.http.api import Schema
from app.http.fields import INT64, MESSAGES, Guid
from app.openapi.examples import VARIABLE


class VariableValue(fields.Field[int | bool]):
    """An integer or a boolean; bool is a subclass of int in Python, but not here."""

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be a whole number or true or false.",
        "range": f"Must be from {-INT64} to {INT64 - 1}.",
    }

    def __init__(self, **kwargs: Any) -> None:
        whole = {"type": "integer", "format": "int64", "minimum": -INT64, "maximum": INT64 - 1}
        kinds = [whole, {"type": "boolean"}]
        super().__init__(metadata={"oneOf": kinds, "example": 294}, **kwargs)

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int | bool:
        if type(value) not in (int, bool):
            raise self.make_error("invalid")
        if not -INT64 <= value < INT64:
            raise self.make_error("range")
        checked: int | bool = value
        return checked


class VariableSchema(Schema):
    """A variable of a player."""

    VariableId = Guid(example=VARIABLE)
    Value = VariableValue()


class ValueSchema(Schema):
    """The bare value of a variable."""

    value = VariableValue()


class SetVariableArgs(Schema):
    """The new value."""

    value = VariableValue(required=True)
