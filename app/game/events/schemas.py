from __future__ import annotations

from marshmallow import fields

from app.history.schemas import EntrySchema
from app.http.api import Schema
from app.http.fields import Integer, List, Text
from app.http.lists import CursorListArgs
from app.openapi.examples import CURSOR_EXAMPLE

# The value of "after" that means the end of the list.
NOW = "now"


class EventSchema(EntrySchema):
    """A change, with what tells a receiver whether one is missing."""

    Version = Integer(
        0,
        allow_none=True,
        example=7,
        description="Of the subject after the change. Games count it up as well.",
    )
    Number = Integer(
        1,
        allow_none=True,
        example=3,
        description="How many changes of the subject have an entry: it counts without a gap.",
    )


class EventPageSchema(Schema):
    Values = List(fields.Nested(EventSchema))
    Next = Text(example=CURSOR_EXAMPLE, description="What to give as `after` next; never null.")


class EventListArgs(CursorListArgs):
    after = Text(
        metadata={"pattern": rf"^({NOW}|[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?$"},
        description="The Next of the answer before; empty: from the oldest on; "
        f"`{NOW}`: only what comes from now on.",
    )
