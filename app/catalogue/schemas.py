from __future__ import annotations

from marshmallow import INCLUDE

from app.http.api import Schema
from app.http.examples import ITEM
from app.http.fields import Guid, Nested, Text
from app.http.lists import CursorListArgs, CursorPageSchema, LegacyPageSchema, SearchText, page_of

NAMES = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "example": {ITEM: "Health Potion"},
}


class GameObjectSchema(Schema):
    """An object of the catalogue, with all further fields that the game stores."""

    class Meta:
        unknown = INCLUDE

    Id = Guid(example=ITEM)
    Type = Text(example="item")
    Name = Text(example="Health Potion")


class GameTimeSchema(Schema):
    """The game's clock, with all fields that the game stores."""

    class Meta:
        unknown = INCLUDE

    Id = Guid(example="5a1c6d0e-2f0b-4c5d-9b7a-3f1f3f0a9c21")
    Name = Text(example="Time")


class GameObjectEntrySchema(Schema):
    Key = Guid(example=ITEM)
    Value = Nested(GameObjectSchema)


LegacyGameObjectPageSchema = page_of(
    GameObjectEntrySchema, LegacyPageSchema, name="LegacyGameObjectPageSchema"
)


GameObjectPageSchema = page_of(GameObjectSchema, CursorPageSchema)


class GameObjectListArgs(CursorListArgs):
    search = SearchText()
