from __future__ import annotations

from marshmallow import fields

from app.history.schemas import EntrySchema
from app.http.api import Schema
from app.http.fields import Integer, List, Text
from app.http.lists import CursorListArgs
from app.http.openapi.examples import CURSOR_EXAMPLE

# The value of "after" that means the end of the list.
NOW = "now"


class EventSchema(EntrySchema):
    """A change, with what tells a receiver whether one is missing."""

    Version = Integer(
        0,
        allow_none=True,
        example=7,
        description="The Version of the subject after the change. Games increment it, too.",
    )
    Number = Integer(
        1,
        allow_none=True,
        example=3,
        description="Of changes before release 0.4.0: the number of the change of its subject.",
    )


class EventPageSchema(Schema):
    Values = List(fields.Nested(EventSchema))
    Next = Text(example=CURSOR_EXAMPLE, description="The `after` of the next request; never null.")


class EventListArgs(CursorListArgs):
    after = Text(
        metadata={"pattern": rf"^({NOW}|[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?$"},
        description=(
            "The Next of the previous answer. Empty: from the oldest on. `{NOW}`: only new changes."
        ),
    )
