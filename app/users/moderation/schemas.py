from __future__ import annotations

from app.core.naming import NAME_LENGTH
from app.http.api import Schema
from app.http.fields import Flag, Integer, Moment, PlainText, Text
from app.http.intents import LONGEST_REASON

UNTIL = "2026-02-07T19:04:21Z"
LONGEST_DAYS = 36_500


class PenaltyArgs(Schema):
    duration = Integer(1, LONGEST_DAYS, required=True, example=7, description="In days.")
    reason = PlainText(
        LONGEST_REASON,
        load_default="",
        example="Selling items for money.",
        unrecorded=True,
        description="Shown to staff. Also the reason in history, unless X-Reason gives another.",
    )
    moderator = PlainText(
        NAME_LENGTH,
        load_default="",
        example="gamemaster",
        description="Who decided it; by default, the caller.",
    )
    ip = Flag(
        load_default=False,
        example=False,
        description="Whether the game also refuses the IP addresses of this person.",
    )


class ModerationSchema(Schema):
    IsBanned = Flag(example=True)
    BanReason = Text(allow_none=True, example="Selling items for money.")
    BannedUntil = Moment(allow_none=True, example=UNTIL, description="Null means permanent.")
    BannedBy = Text(allow_none=True, example="gamemaster")
    BanByAddress = Flag(
        example=False, description="Whether the game also refuses the IP addresses of this person."
    )
    IsMuted = Flag(example=False)
    MuteReason = Text(allow_none=True, example=None)
    MutedUntil = Moment(allow_none=True, example=None, description="Null means permanent.")
    MutedBy = Text(allow_none=True, example=None)
