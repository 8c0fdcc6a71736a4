from __future__ import annotations

from marshmallow.validate import Length

from app.core.naming import NAME_LENGTH
from app.game.actions.domain import KINDS, STATES
from app.history.schemas import AuthorSchema
from app.http.api import Schema
from app.http.examples import ACTION, ITEM, MAP, PLAYER, PLAYER_ID, USER, USER_ID
from app.http.fields import Flag, Guid, Integer, List, MaskedText, Moment, Nested, Object, Text
from app.http.lists import CursorListArgs, CursorPageSchema, OneOf, page_of
from app.players.items.schemas import QUANTITY_MAX

AT, DONE_AT = "2026-01-31T19:04:21.250Z", "2026-01-31T19:04:21.430Z"
LONGEST_MESSAGE, MOST_ITEMS = 1000, 20


class WarpArgs(Schema):
    mapid = Guid(required=True, example=MAP)


class WarpToPlaceArgs(WarpArgs):
    """Where to, and where there."""

    x = Integer(-(2**31), 2**31 - 1, required=True, example=13)
    y = Integer(-(2**31), 2**31 - 1, required=True, example=22)


class ColorSchema(Schema):
    """A colour with its opacity; what is missing is 255."""

    A = Integer(0, 255, example=255)
    R = Integer(0, 255, example=255)
    G = Integer(0, 255, example=200)
    B = Integer(0, 255, example=0)


class ChatArgs(Schema):
    Message = MaskedText(
        LONGEST_MESSAGE, shortest=1, required=True, example="The server restarts in five minutes."
    )
    Color = Nested(ColorSchema, allow_none=True, example={"A": 255, "R": 255, "G": 200, "B": 0})
    Target = MaskedText(
        NAME_LENGTH, allow_none=True, example=None, description="Passed to the game."
    )


class LetterItemArgs(Schema):
    ItemId = Guid(required=True, example=ITEM)
    Quantity = Integer(1, QUANTITY_MAX, required=True, example=1)


class LetterArgs(Schema):
    Message = MaskedText(
        LONGEST_MESSAGE, shortest=1, has_lines=True, required=True, example="Here it is."
    )
    Items = List(Nested(LetterItemArgs), validate=Length(max=MOST_ITEMS), load_default=list)


class RestartArgs(Schema):
    Minutes = Integer(0, 60, required=True, example=10, description="0 means at once.")
    Message = MaskedText(
        LONGEST_MESSAGE, shortest=1, required=True, example="The server restarts for an update."
    )


class SaidSchema(Schema):
    success = Flag(example=True)
    chatMessage = Object(
        description="The body of the request.",
        example={"Message": "The server restarts in five minutes."},
    )


class SaidOnMapSchema(SaidSchema):
    mapId = Guid(example=MAP)


class SaidToPlayerSchema(SaidSchema):
    lookupKey = Text(example=PLAYER)


class ActionUnderWaySchema(Schema):
    Message = Text(example="The game has not answered yet.")
    ActionId = Guid(example=ACTION, description="`GET /api/v1/actions/{id}` returns its result.")


class ActionSubjectSchema(Schema):
    Kind = Text(example="player", enum=["player", "user", "guild", "map", "world"])
    Id = Guid(allow_none=True, example=PLAYER_ID, description="Null means everybody.")
    Name = Text(
        allow_none=True, example=PLAYER, description="The name at that time; null for a map."
    )


class ActionSchema(Schema):
    Id = Guid(example=ACTION)
    Kind = Text(example="warp", enum=list(KINDS))
    Subject = Nested(ActionSubjectSchema)
    Arguments = Object(example={"MapId": MAP, "X": 13, "Y": 22})
    At = Moment(example=AT)
    By = Nested(AuthorSchema)
    Via = Text(example="api", enum=["api", "console"])
    Reason = Text(allow_none=True, example="Stuck in a wall, ticket 4711.")
    State = Text(
        example="done",
        enum=list(STATES),
        description="`lapsed`: no game server took it in time; it has expired.",
    )
    Taken = Moment(allow_none=True, example=DONE_AT)
    TakenBy = Text(allow_none=True, example="world-1", description="The game server that took it.")
    Done = Moment(allow_none=True, example=DONE_AT)
    GivenAt = Moment(
        allow_none=True, example=None, description="When the player got the items of a letter."
    )
    Error = Text(allow_none=True, example=None, description="Why the game refused it.")
    Result = Object(allow_none=True, example={"MapId": MAP, "X": 13, "Y": 22})


# A letter that waits; the example of ActionSchema is a warp that is done.
LETTER_EXAMPLE = {
    "Id": ACTION,
    "Kind": "letter",
    "Subject": {"Kind": "player", "Id": PLAYER_ID, "Name": PLAYER},
    "Arguments": {"Message": "Here it is.", "Items": [{"ItemId": ITEM, "Quantity": 1}]},
    "At": AT,
    "By": {"UserId": USER_ID, "Name": USER, "Key": None},
    "Via": "api",
    "Reason": "Lost in a crash, ticket 4711.",
    "State": "waiting",
    **dict.fromkeys(("Taken", "TakenBy", "Done", "GivenAt", "Error", "Result")),
}

ActionPageSchema = page_of(ActionSchema, CursorPageSchema)


class ActionListArgs(CursorListArgs):
    player = Text(maxLength=NAME_LENGTH, description="A character's name or id.")
    user = Text(maxLength=NAME_LENGTH, description="A username or user id.")
    kind = OneOf(*KINDS, description="The request.")
