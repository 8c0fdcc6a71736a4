from __future__ import annotations

from marshmallow import fields

from app.http.api import Schema
from app.http.fields import Guid, List, Moment, Text
from app.http.lists import PageSchema
from app.openapi.examples import ENTRY, PLAYER_ID, USER_ID


class ActivitySchema(Schema):
    """A line of a log."""

    Id = Text(example=ENTRY)
    TimeStamp = Moment(example="2026-01-31T19:04:21.250Z")
    UserId = Guid(allow_none=True, example=USER_ID)
    PlayerId = Guid(allow_none=True, example=PLAYER_ID, description="Null in the log of a user.")
    Action = Text(example="give", description="An operation of history, or sign-in.")
    Peer = Text(example="api", description="Through which door.")
    Ip = Text(
        allow_none=True, metadata={"example": None}, description="Null: addresses are not kept."
    )
    # A class attribute Meta would be taken for marshmallow's options.
    meta = Text(
        data_key="Meta",
        example='{"By": {"Name": "demo"}, "Reason": null, "Arguments": {}}',
        description="More of it, as a text in JSON.",
    )


class ActivityPageSchema(PageSchema):
    """A page of a log, the newest first."""

    Values = List(fields.Nested(ActivitySchema))
