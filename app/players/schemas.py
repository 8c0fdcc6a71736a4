from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from marshmallow import INCLUDE, fields

from app.core.naming import NAME_LENGTH
from app.core.types import Document
from app.http.api import Schema
from app.http.examples import CLASS, PLAYER, PLAYER_ID, USER_ID
from app.http.fields import NO_CONTROLS, Flag, Guid, Integer, List, Moment, Text
from app.http.lists import (
    ASCENDING,
    DESCENDING,
    LegacyPageSchema,
    OneOf,
    PagedListArgs,
    SearchText,
    page_of,
    sort_direction,
)
from app.players.domain import FIELDS, Field
from app.storage.schema.shapes import COUNT, FLAG, GUID, INTEGER, MOMENT, MOMENT_OR_NULL, TEXT

# How the values of a type are served.
SERVED: list[tuple[Document, Callable[..., fields.Field[Any]]]] = [
    (GUID, partial(Guid, nil=True)),
    (TEXT, Text),
    (INTEGER, Integer),
    (COUNT, partial(Integer, 0)),
    (FLAG, Flag),
    (MOMENT, Moment),
    (MOMENT_OR_NULL, partial(Moment, allow_none=True)),
]


def served(stored: Field) -> fields.Field[Any]:
    """Return how a schema describes a stored field; an array has integers."""
    found = (field for shape, field in SERVED if shape == stored.shape)
    about = {"description": stored.about} if stored.about else {}
    return next(found, partial(List, Integer()))(example=stored.example, **about)


FIELDS_OF_GAME = Schema.from_dict(
    {
        "Id": Guid(required=True, example=PLAYER_ID),
        "Name": Text(required=True, example=PLAYER),
        "UserId": Guid(required=True, example=USER_ID, description="The account that plays it."),
        **{name: served(field) for name, field in FIELDS.items() if field.example is not None},
    }
)


class PlayerSchema(FIELDS_OF_GAME):  # type: ignore[misc, valid-type] # a class
    """A player character, with all further fields that the game stores."""

    class Meta:
        unknown = INCLUDE


PlayerPageSchema = page_of(PlayerSchema)


class OnlinePlayerSchema(PlayerSchema):
    Online = Flag(example=True)
    LastOnline = Moment(allow_none=True, example="2026-01-31T12:00:00Z")
    LastSeen = Moment(allow_none=True, example="2026-01-31T12:00:00Z")


OnlinePlayerPageSchema = page_of(
    OnlinePlayerSchema, LegacyPageSchema, name="OnlinePlayerPageSchema"
)


LegacyPlayerPageSchema = page_of(PlayerSchema, LegacyPageSchema)


OnlinePlayersPageSchema = page_of(OnlinePlayerSchema, name="OnlinePlayersPageSchema")


class RankedPlayerSchema(Schema):
    Rank = Integer(1, example=1, description="Its place; players with equal levels differ by Exp.")
    Name = Text(example=PLAYER)
    Level = Integer(0, example=16)


RankedPlayerPageSchema = page_of(RankedPlayerSchema)


class OnlineCountSchema(Schema):
    onlineCount = Integer(0, example=20)


class NamedPlayerSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    Name = Text(example=PLAYER)


class RenameArgs(Schema):
    Name = Text(
        required=True,
        example="Ebrenshar",
        minLength=1,
        maxLength=NAME_LENGTH,
        pattern=f"^{NO_CONTROLS.pattern}$",
        description="2 to 40 characters, all of them visible, without markup; no path or key.",
    )


class SetLevelArgs(Schema):
    level = Integer(0, 2**31 - 1, required=True, example=17)


class LevelSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    Level = Integer(0, example=17)
    Exp = Integer(0, example=0)


class SetClassArgs(Schema):
    class_id = Guid(
        required=True, data_key="Id", history_name="ClassId", object_type="class", example=CLASS
    )


class ClassSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    ClassId = Guid(example=CLASS)
    ClassName = Text(example="Ranger")


class PlayerListArgs(PagedListArgs):
    search = SearchText()
    sortBy = OneOf(
        "name",
        "level",
        "lastonline",
        load_default="name",
        description="The field to sort by; ties are in order of name.",
    )
    sortDirection = sort_direction(ASCENDING)


class RankArgs(PagedListArgs):
    sortDirection = sort_direction(DESCENDING)
