from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from marshmallow import INCLUDE, fields

from app.core.changes import ABSENT
from app.core.types import Document
from app.http.api import Schema
from app.http.examples import PLAYER, PLAYER_ID, USER_ID
from app.http.fields import Flag, Guid, Integer, List, Moment, Text
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
    about: Document = {"description": stored.about} if stored.about else {}
    if stored.default is ABSENT:
        about["x_optional"] = True
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
