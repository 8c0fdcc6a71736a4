from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, missing, validates_schema
from marshmallow.validate import Length

from app.game.actions.domain import LONGEST_ERROR
from app.game.actions.schemas import ActionSchema
from app.http.api import Schema
from app.http.examples import GAME, MAP, PLAYER, PLAYER_ID, USER_ID
from app.http.fields import Flag, Guid, Integer, List, MaskedText, Nested, Object, Text
from app.http.parser import MAX_FIELDS
from app.players.items.schemas import SlotSchema
from app.players.schemas import PlayerSchema
from app.players.spells import KnownSpellSchema
from app.players.variables.schemas import VariableSchema

MOST_PLAYERS, MOST_SAVED = 10_000, 500
MOST_ACTIONS, MOST_READERS = 100, 1000
LONGEST_GAME = 64


class SaveArgs(PlayerSchema):
    """The fields of a character to set; others keep their values or get their defaults."""

    Id = Guid(example=PLAYER_ID, description="As in the path.")
    Name = Text(example=PLAYER, description="Required for a new character.")
    UserId = Guid(
        example=USER_ID, description="The account that plays it. Required for a new character."
    )
    BaseStats = List(Integer(), validate=Length(equal=5), example=[30] * 5)
    StatPointAllocations = List(Integer(), validate=Length(equal=5), example=[0] * 5)
    Inventory = List(Nested(SlotSchema), description="All filled slots.")
    # A bag is in one slot, and the example of the inventory has one.
    Bank = List(Nested(SlotSchema), example=[], description="All filled slots.")
    Spells = List(Nested(KnownSpellSchema))
    Variables = List(Nested(VariableSchema))
    # No example: the documented request would be refused with a Version that is not current.
    Version = Integer(
        0, description="The Version that the game read: the save is refused if it has changed."
    )

    def load(self, data: Any, **_: Any) -> Any:
        """Return the data unchecked: PlayerRecord checks it, because its limits are settings."""
        return data


class SavedSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    Name = Text(example=PLAYER)
    Version = Integer(0, example=8, description="Send it with the next save.")


class SaveRowArgs(SaveArgs):
    """A character and its fields to set."""

    Id = Guid(required=True, example=PLAYER_ID)

    def load(self, data: Any, **_: Any) -> Any:
        """Return the row with its id checked: without an id, no result could name the row."""
        if not isinstance(data, dict) or len(data) > MAX_FIELDS:
            raise ValidationError(f"Must be an object with at most {MAX_FIELDS} fields.")
        try:
            return {**data, "Id": self.fields["Id"].deserialize(data.get("Id", missing))}
        except ValidationError as error:
            raise ValidationError({"Id": error.messages}) from None


class SaveManyArgs(Schema):
    Players = List(
        Nested(SaveRowArgs),
        required=True,
        validate=Length(1, MOST_SAVED, error=f"Must contain 1 to {MOST_SAVED} players."),
        example=[{"Id": PLAYER_ID, "Version": 7, "X": 13, "Y": 22}],
    )

    @validates_schema(skip_on_field_errors=True)
    def has_each_once(self, values: dict[str, Any], **_: Any) -> None:
        if len({row["Id"] for row in values["Players"]}) < len(values["Players"]):
            raise ValidationError("Must contain each id once.", "Players")


class SaveResultSchema(Schema):
    """The result of one row: a Version, or the Code and Message of an error."""

    Id = Guid(example=PLAYER_ID)
    Version = Integer(0, allow_none=True, example=8, description="The stored Version, if known.")
    Code = Text(allow_none=True, example=None, description="Null if the character was saved.")
    Message = Text(allow_none=True, example=None, description="Why it was not saved.")


class SavedManySchema(Schema):
    Values = List(Nested(SaveResultSchema))


AT_MOST = Length(max=MOST_PLAYERS, error=f"Must contain at most {MOST_PLAYERS} ids.")


class OnlineArgs(Schema):
    Online = List(Guid(), load_default=list, validate=AT_MOST, example=[PLAYER_ID])
    Offline = List(Guid(), load_default=list, validate=AT_MOST, example=[])
    Everyone = Flag(
        load_default=False,
        example=False,
        description="Whether Online is complete: everybody else is then offline.",
    )

    @validates_schema(skip_on_field_errors=True)
    def is_one_or_the_other(self, values: dict[str, Any], **_: Any) -> None:
        if set(values["Online"]) & set(values["Offline"]):
            raise ValidationError("Must not contain ids that are in Online.", "Offline")


class OnlineSchema(Schema):
    Online = Integer(0, example=1, description="How many of the ids in Online exist.")
    Offline = Integer(0, example=0, description="How many players went offline.")
    Unknown = List(Guid(), example=[], description="Ids of no player.")


class GameArgs(Schema):
    Game = MaskedText(
        LONGEST_GAME,
        shortest=1,
        required=True,
        example=GAME,
        description="A name that the game server chooses for itself.",
    )


class TakeActionsArgs(GameArgs):
    Most = Integer(1, MOST_ACTIONS, load_default=20, example=20)
    Players = List(
        Guid(),
        load_default=list,
        validate=Length(max=MOST_READERS),
        example=[PLAYER_ID],
        description="Players who are online: take the letters to them instead of actions.",
    )
    Unanswered = Flag(
        load_default=False,
        example=False,
        description=(
            "Whether to return again the actions that this server took and has not answered, for "
            "example after a restart."
        ),
    )


class TakenActionsSchema(Schema):
    Values = List(Nested(ActionSchema))


class AnswerArgs(GameArgs):
    """The result of an action; empty if it was done."""

    Error = MaskedText(
        LONGEST_ERROR,
        shortest=1,
        allow_none=True,
        load_default=None,
        example=None,
        description="Why it was not done, as a sentence for staff.",
    )
    Result = Object(
        keys=Text(),
        allow_none=True,
        load_default=None,
        example={"MapId": MAP, "X": 13, "Y": 22},
        description="For a warp, where the player is now.",
        additionalProperties=True,
    )
