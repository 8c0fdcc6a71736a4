from __future__ import annotations

from marshmallow import INCLUDE, fields

from app.http.api import Schema
from app.http.fields import Flag, Guid, Integer, Moment, Text
from app.http.lists import (
    ASCENDING,
    DESCENDING,
    LegacyPageSchema,
    OneOf,
    PagedListArgs,
    PageSchema,
    SearchText,
    sort_direction,
)


class PlayerSchema(Schema):
    """A player character. What else the game stores on one is served as well."""

    class Meta:
        unknown = INCLUDE

    Id = Guid(required=True)
    Name = Text(required=True)
    UserId = Guid(required=True)
    ClassId = Guid(nil=True)
    ClassName = Text()
    Gender = Integer()
    Level = Integer(0)
    Exp = Integer(0)
    ExperienceToNextLevel = Integer()
    StatPoints = Integer()
    Vitals = fields.List(Integer(), metadata={"description": "Health, mana."})
    MaxVitals = fields.List(Integer(), metadata={"description": "Health, mana."})
    BaseStats = fields.List(
        Integer(),
        metadata={"description": "Attack, ability power, defense, magic resist, speed."},
    )
    StatPointAllocations = fields.List(Integer(), metadata={"description": "As BaseStats."})
    Equipment = fields.List(Integer(), metadata={"description": "Worn inventory slots; -1: none."})
    MapId = Guid(nil=True)
    MapName = Text()
    X = Integer()
    Y = Integer()
    Dir = Integer()
    Sprite = Text()
    Face = Text()
    Online = Flag()
    InBank = Flag()
    LastOnline = Moment(allow_none=True)
    LastSeen = Moment(allow_none=True)
    CreationDate = Moment()
    PlayTimeSeconds = Integer(0)


class PlayerPageSchema(PageSchema):
    """A page of players."""

    Values = fields.List(fields.Nested(PlayerSchema))


class LegacyPlayerPageSchema(LegacyPageSchema):
    """A page of players in the former envelope."""

    entries = fields.List(fields.Nested(PlayerSchema))


class OnlineCountSchema(Schema):
    """How many players are online."""

    onlineCount = Integer(0)


class PlayerListArgs(PagedListArgs):
    """The query of the list of players."""

    search = SearchText(metadata={"description": "3 or more characters of the name."})
    sortBy = OneOf("name", "level", "lastonline", load_default="name")
    sortDirection = sort_direction(ASCENDING)


class RankArgs(PagedListArgs):
    """The query of the ranking."""

    sortDirection = sort_direction(DESCENDING)
