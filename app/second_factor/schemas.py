from __future__ import annotations

from app.http.api import Schema
from app.http.fields import Flag, Text


class ResetFactorSchema(Schema):
    """Whose second factor was reset."""

    username = Text(required=True, example="demo")
    MailSent = Flag(
        required=True,
        example=True,
        description="Whether a mail told its owner. If not, tell them yourself.",
    )
