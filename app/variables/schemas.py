from __future__ import annotations

from app.http.api import Schema
from app.http.fields import Guid, VariableValue
from app.openapi.examples import VARIABLE


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


class VariableArgs(SetVariableArgs):
    """Which variable, and its new value."""

    variable_id = Guid(
        required=True,
        data_key="variableid",
        example=VARIABLE,
        history_name="VariableId",
        object_type="playervariable",
    )
