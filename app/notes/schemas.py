from __future__ import annotations

import re

from marshmallow import ValidationError, fields, validates

from app.http.api import Schema
from app.http.fields import Guid, List, Moment, Text
from app.http.lists import CursorPageSchema
from app.naming import is_visible
from app.openapi.examples import NOTE, USER, USER_ID

LONGEST_NOTE = 2000
# No control characters but newlines and tabs.
LINES = re.compile(r"[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*")


class WriterSchema(Schema):
    """Who wrote a note."""

    UserId = Guid(allow_none=True, example=USER_ID)
    Name = Text(allow_none=True, example=USER, description="At the time.")


class NoteSchema(Schema):
    """A note of staff on a player or a user."""

    Id = Guid(example=NOTE)
    At = Moment(example="2026-01-31T19:04:21.250Z")
    By = fields.Nested(WriterSchema)
    Text = Text(example="Asked twice for the same sword; see ticket 4711.")


class NotePageSchema(CursorPageSchema):
    """Some notes, the newest first."""

    Values = List(fields.Nested(NoteSchema))


class NoteArgs(Schema):
    """What to write."""

    Text = Text(
        required=True,
        example="Asked twice for the same sword; see ticket 4711.",
        metadata={"minLength": 1, "maxLength": LONGEST_NOTE, "pattern": f"^{LINES.pattern}$"},
        description="Some text, on one line or several.",
        untold=True,
    )

    @validates("Text")
    def can_be_read(self, value: str, data_key: str) -> None:
        if not is_visible(value) or len(value) > LONGEST_NOTE:
            raise ValidationError(f"Must be 1 to {LONGEST_NOTE} characters that can be seen.")
        if not LINES.fullmatch(value):
            raise ValidationError("Must hold no control characters but newlines and tabs.")
