from __future__ import annotations

from marshmallow.validate import Length, Regexp

from app.game.player_events.domain import WORDS
from app.http.api import Schema
from app.http.examples import BAG, EVENT, ITEM, OTHER_PLAYER_ID, PLAYER_ID, STATS
from app.http.fields import Guid, Integer, List, MaskedText, Moment, Nested, PlainText, Text
from app.http.lists import CursorPageSchema, page_of
from app.players.items.schemas import LONGEST_EVENT_ID, QUANTITY_MAX

MOST_EVENTS, MOST_ITEMS = 1000, 100
LONGEST_TEXT = 500
AT = "2026-01-31T19:04:21.250Z"
KIND = r"^[a-z][a-z-]{0,31}$"


class EventItemArgs(Schema):
    """An item as a slot holds it."""

    ItemId = Guid(required=True, example=ITEM)
    Quantity = Integer(
        -QUANTITY_MAX, QUANTITY_MAX, required=True, example=-1, description="Below 0: it is lost."
    )
    BagId = Guid(example=BAG, description="The bag in the slot, if the item is one.")
    StatBuffs = List(
        Integer(), validate=Length(equal=5), example=[3, 0, 0, 0, 1], description=STATS
    )


class GameEventArgs(Schema):
    Id = PlainText(
        LONGEST_EVENT_ID,
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
        pattern=KIND,
        description=f"{', '.join(WORDS)}, or a word of the game.",
    )
    Text = MaskedText(LONGEST_TEXT, allow_none=True, example="In the mines.")
    Items = List(Nested(EventItemArgs), validate=Length(max=MOST_ITEMS), load_default=list)
    With = Guid(allow_none=True, example=OTHER_PLAYER_ID, description="The other player.")


class ReportEventsArgs(Schema):
    Events = List(Nested(GameEventArgs), required=True, validate=Length(min=1, max=MOST_EVENTS))


class ReportedSchema(Schema):
    New = Integer(0, example=1, description="How many events were stored.")
    Known = Integer(0, example=0, description="How many had been stored before.")
    Unknown = List(Guid(), example=[], description="Ids of no player: not stored.")


class EventItemSchema(EventItemArgs):
    BagId = Guid(allow_none=True, example=BAG)
    StatBuffs = List(Integer(), allow_none=True, example=[3, 0, 0, 0, 1])
    GivenBackBy = Text(
        allow_none=True, example=None, description="The history entry that gave it back."
    )


class GameEventSchema(GameEventArgs):
    Items = List(Nested(EventItemSchema))


GameEventPageSchema = page_of(GameEventSchema, CursorPageSchema)
