from __future__ import annotations

from marshmallow import INCLUDE

from app.core.naming import NAME_LENGTH
from app.http.api import Schema
from app.http.examples import CLASS, MAP, PLAYER, PLAYER_ID, USER_ID
from app.http.fields import NO_CONTROLS, STATS, Flag, Guid, Integer, List, Moment, Text
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


class PlayerSchema(Schema):
    """A player character, with all further fields that the game stores."""

    class Meta:
        unknown = INCLUDE

    Id = Guid(required=True, example=PLAYER_ID)
    Name = Text(required=True, example=PLAYER)
    UserId = Guid(required=True, example=USER_ID, description="The account that plays it.")
    ClassId = Guid(nil=True, example=CLASS)
    ClassName = Text(example="Ranger")
    Gender = Integer(example=1)
    Level = Integer(0, example=16)
    Exp = Integer(0, example=1425, description="Experience gained on this level.")
    ExperienceToNextLevel = Integer(example=1600)
    StatPoints = Integer(example=5, description="Not yet allocated.")
    Vitals = List(Integer(), example=[51, 82], description="Health, mana.")
    MaxVitals = List(Integer(), example=[272, 126], description="Health, mana.")
    BaseStats = List(Integer(), example=[30, 29, 36, 29, 28], description=STATS)
    StatPointAllocations = List(
        Integer(), example=[16, 10, 5, 5, 8], description="In the order of BaseStats."
    )
    Equipment = List(
        Integer(), example=[4, -1, 7], description="Worn inventory slots; -1: nothing."
    )
    MapId = Guid(nil=True, example=MAP)
    MapName = Text(example="Goldcrest")
    X = Integer(example=13)
    Y = Integer(example=22)
    Dir = Integer(example=3)
    Sprite = Text(example="ranger_0.png")
    Face = Text(example="ranger.png")
    Online = Flag(example=False, description="Only valid while LastSeen is recent.")
    InBank = Flag(example=False)
    LastOnline = Moment(allow_none=True, example="2025-02-19T19:04:21Z")
    LastSeen = Moment(allow_none=True, example="2025-02-19T19:04:21Z")
    CreationDate = Moment(example="2025-01-14T08:09:18Z")
    PlayTimeSeconds = Integer(0, example=64006)


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
