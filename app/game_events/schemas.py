from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validates_schema
from marshmallow.validate import Length, Regexp

from app.game_events.domain import LARGEST_MOVED, SIGNS, WORDS
from app.http.api import Schema
from app.http.fields import STATS, Flag, Guid, Integer, List, Moment, PlainText, Text
from app.http.lists import CursorPageSchema, page_of
from app.items.schemas import TakenSchema
from app.openapi.examples import BAG, EVENT, ITEM, OTHER_PLAYER_ID, PLAYER_ID

MOST_EVENTS, MOST_ITEMS = 1000, 100
LONGEST_ID, LONGEST_TEXT = 128, 500
AT = "2026-01-31T19:04:21.250Z"
KIND = r"^[a-z][a-z-]{0,31}$"


class EventItemArgs(Schema):
    """An item as a slot holds it."""

    ItemId = Guid(required=True, example=ITEM)
    Quantity = Integer(
        -LARGEST_MOVED, LARGEST_MOVED, required=True, example=-1, description="Below 0: it is lost."
    )
    BagId = Guid(example=BAG, description="The bag in the slot, if the item is one.")
    StatBuffs = List(
        Integer(), validate=Length(equal=5), example=[3, 0, 0, 0, 1], description=STATS
    )


class GameEventArgs(Schema):
    Id = PlainText(
        LONGEST_ID,
        shortest=1,
        required=True,
        example=EVENT,
        description="Chosen by the game, unique among all events.",
    )
    Player = Guid(required=True, example=PLAYER_ID)
    At = Moment(required=True, example=AT)
    Kind = Text(
        required=True,
        example="drop",
        validate=Regexp(KIND, error="Must be a word of lower-case letters and hyphens."),
        metadata={"pattern": KIND},
        description=f"{', '.join(WORDS)}, or a word of the game.",
    )
    Text = PlainText(LONGEST_TEXT, allow_none=True, example="In the mines.")
    Items = List(fields.Nested(EventItemArgs), validate=Length(max=MOST_ITEMS), load_default=list)
    With = Guid(allow_none=True, example=OTHER_PLAYER_ID, description="The other player.")

    @validates_schema(skip_on_field_errors=True)
    def has_signs(self, values: dict[str, Any], **_: Any) -> None:
        sign = SIGNS.get(values["Kind"])
        for item in values["Items"]:
            if item["Quantity"] == 0 or (sign and item["Quantity"] * sign < 0):
                word = "below 0" if sign == -1 else "above 0" if sign else "above or below 0"
                raise ValidationError(f"Must have quantities {word} in this Kind.", "Items")


class ReportEventsArgs(Schema):
    Events = List(
        fields.Nested(GameEventArgs), required=True, validate=Length(min=1, max=MOST_EVENTS)
    )


class ReportedSchema(Schema):
    New = Integer(0, example=1, description="How many events were stored.")
    Known = Integer(0, example=0, description="How many had been stored before.")
    Different = List(
        Text(), example=[], description="Known ids that were sent with another content."
    )
    Unknown = List(Guid(), example=[], description="Ids of no player: not stored.")


class EventItemSchema(EventItemArgs):
    BagId = Guid(allow_none=True, example=BAG)
    StatBuffs = List(Integer(), allow_none=True, example=[3, 0, 0, 0, 1])
    GivenBackBy = Text(
        allow_none=True, example=None, description="The history entry that gave it back."
    )


class GameEventSchema(Schema):
    Id = Text(example=EVENT)
    Player = Guid(example=PLAYER_ID)
    At = Moment(example=AT)
    Kind = Text(example="drop")
    Text = Text(allow_none=True, example="In the mines.")
    Items = List(fields.Nested(EventItemSchema))
    With = Guid(allow_none=True, example=OTHER_PLAYER_ID)


GameEventPageSchema = page_of(GameEventSchema, CursorPageSchema)


class GiveBackArgs(Schema):
    event = PlainText(LONGEST_ID, shortest=1, required=True, example=EVENT)
    item = Integer(0, MOST_ITEMS, load_default=0, example=0, description="Which of its Items.")
    bankoverflow = Flag(
        load_default=False,
        example=True,
        history_name="BankOverflow",
        description="Whether items that do not fit go into the bank.",
    )


class GivenBackSchema(TakenSchema):
    """The item that the player has again."""
