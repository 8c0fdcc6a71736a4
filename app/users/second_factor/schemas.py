from __future__ import annotations

from app.http.api import Schema
from app.http.fields import Flag, Text
from app.users.schemas import ADDRESS


class ResetSignInArgs(Schema):
    """The new address of somebody who has lost the former; empty: it stays."""

    Email = Text(
        load_default="",
        example="moved@example.com",
        metadata={**ADDRESS, "unrecorded": True},
    )


class ResetFactorSchema(Schema):
    """Whose second factor was reset."""

    username = Text(required=True, example="demo")
    MailSent = Flag(
        required=True,
        example=True,
        description="Whether a mail told its owner. If not, tell them yourself.",
    )
