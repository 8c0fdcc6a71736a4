from __future__ import annotations

from app.http.api import Schema
from app.http.examples import GLOBAL_VARIABLE, VARIABLE
from app.http.fields import Guid, Integer, Text, VariableValue
from app.http.lists import LegacyPageSchema, page_of


class VariableSchema(Schema):
    VariableId = Guid(example=VARIABLE)
    Value = VariableValue()


class ValueSchema(Schema):
    value = VariableValue()


class SetVariableArgs(Schema):
    value = VariableValue(required=True)


class VariableArgs(SetVariableArgs):
    variable_id = Guid(
        required=True,
        data_key="variableid",
        example=VARIABLE,
        history_name="VariableId",
        object_type="playervariable",
    )


class GlobalVariableSchema(Schema):
    Id = Guid(example=GLOBAL_VARIABLE)
    Name = Text(example="Experience Rate")
    TextId = Text(example="experience_rate", description="Its name in the game's events.")
    Type = Integer(1, 2, example=2, description="1: true or false, 2: a whole number.")
    Folder = Text(example="Rates")
    Value = VariableValue()
    TimeCreated = Integer(example=1704067200000, description="As the game has it.")


GlobalVariablePageSchema = page_of(GlobalVariableSchema)
LegacyGlobalVariablePageSchema = page_of(GlobalVariableSchema, LegacyPageSchema)
