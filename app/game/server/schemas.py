from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validates_schema
from marshmallow.validate import Length

from app.game.actions.domain import LONGEST_ERROR
from app.game.actions.schemas import ActionSchema
from app.http.api import Schema
from app.http.fields import Flag, Guid, Integer, List, Moment, PlainText, Text
from app.items.schemas import SlotSchema
from app.openapi.examples import ACTION, GAME, MAP, PLAYER, PLAYER_ID, USER_ID
from app.players.schemas import PlayerSchema
from app.spells.schemas import KnownSpellSchema
from app.variables.schemas import VariableSchema

MOST_PLAYERS = 10_000
MOST_ACTIONS = 100
LONGEST_GAME = 64
NUMBER_OF_STATS = 5


class SaveArgs(PlayerSchema):
    """The fields of a character that are to be set; the others stay, or take their defaults."""

    Id = Guid(example=PLAYER_ID, description="As in the path.")
    Name = Text(example=PLAYER, description="A new character needs one.")
    UserId = Guid(example=USER_ID, description="The account that plays it. A new one needs it.")
    BaseStats = List(Integer(), validate=Length(equal=NUMBER_OF_STATS), example=[30] * 5)
    StatPointAllocations = List(Integer(), validate=Length(equal=NUMBER_OF_STATS), example=[0] * 5)
    Inventory = List(fields.Nested(SlotSchema), description="All filled slots.")
    Bank = List(fields.Nested(SlotSchema), description="All filled slots.")
    Spells = List(fields.Nested(KnownSpellSchema))
    Variables = List(fields.Nested(VariableSchema))
    # No example: the documented request would be refused with a Version that is not current.
    Version = Integer(
        0, description="What the game has read: if the player has another by now, nothing changes."
    )

    def load(self, data: Any, **_: Any) -> Any:
        """Return the data unchecked: PlayerRecord checks it, because its limits are settings."""
        return data


class SavedSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    Name = Text(example=PLAYER)
    Version = Integer(0, example=8, description="To be given with the next save.")


AT_MOST = Length(max=MOST_PLAYERS, error=f"Must hold at most {MOST_PLAYERS} ids.")


class OnlineArgs(Schema):
    Online = List(Guid(), load_default=list, validate=AT_MOST, example=[PLAYER_ID])
    Offline = List(Guid(), load_default=list, validate=AT_MOST, example=[])
    Everyone = Flag(
        load_default=False,
        example=False,
        description="Whether all play who do: whoever is not in Online is offline.",
    )

    @validates_schema(skip_on_field_errors=True)
    def is_one_or_the_other(self, values: dict[str, Any], **_: Any) -> None:
        if set(values["Online"]) & set(values["Offline"]):
            raise ValidationError("Must hold nobody who is in Online.", "Offline")


class OnlineSchema(Schema):
    Online = Integer(0, example=1, description="How many of those who play are known.")
    Offline = Integer(0, example=0, description="How many went offline by this.")
    Unknown = List(Guid(), example=[], description="Ids that no player has.")


class GameArgs(Schema):
    Game = PlainText(
        LONGEST_GAME,
        shortest=1,
        required=True,
        example=GAME,
        description="A name that this server of the game has chosen for itself.",
    )


class TakeActionsArgs(GameArgs):
    Most = Integer(1, MOST_ACTIONS, load_default=20, example=20)
    Unanswered = Flag(
        load_default=False,
        example=False,
        description="Whether to tell once more what this server has taken and not answered, for "
        "one that got no answer or was started again.",
    )


class TakenActionsSchema(Schema):
    Values = List(fields.Nested(ActionSchema))


class AnswerArgs(GameArgs):
    """What came of an action: nothing more if it was done."""

    Error = PlainText(
        LONGEST_ERROR,
        shortest=1,
        allow_none=True,
        load_default=None,
        example=None,
        description="Why it was not done, a sentence for the person who asked.",
    )
    Result = fields.Dict(
        keys=Text(),
        allow_none=True,
        load_default=None,
        metadata={
            "example": {"MapId": MAP, "X": 13, "Y": 22},
            "description": "Of a warp, where the player is now.",
            "additionalProperties": True,
        },
    )


class AnsweredSchema(ActionSchema):
    Id = Guid(example=ACTION)
    Done = Moment(allow_none=True, example="2026-01-31T19:04:21.430Z")
