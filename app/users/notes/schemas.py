from __future__ import annotations

from marshmallow import fields

from app.http.api import Schema
from app.http.fields import Guid, Moment, PlainText, Text
from app.http.lists import CursorPageSchema, page_of
from app.http.openapi.examples import NOTE, USER, USER_ID

LONGEST_NOTE = 2000


class WriterSchema(Schema):
    UserId = Guid(allow_none=True, example=USER_ID)
    Name = Text(allow_none=True, example=USER, description="At the time.")


class NoteSchema(Schema):
    Id = Guid(example=NOTE)
    At = Moment(example="2026-01-31T19:04:21.250Z")
    By = fields.Nested(WriterSchema)
    Text = Text(example="Asked twice for the same sword; see ticket 4711.")


NotePageSchema = page_of(NoteSchema, CursorPageSchema)


class NoteArgs(Schema):
    Text = PlainText(
        LONGEST_NOTE,
        shortest=1,
        has_lines=True,
        required=True,
        example="Asked twice for the same sword; see ticket 4711.",
        description="Some text, on one line or several.",
        unrecorded=True,
    )
