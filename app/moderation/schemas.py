from __future__ import annotations

from typing import Any

from app.http.api import Schema
from app.http.fields import Flag, Integer, Moment, Text
from app.http.intents import LONGEST_REASON
from app.http.lists import NO_CONTROLS
from app.naming import NAME_LENGTH

UNTIL = "2026-02-07T19:04:21Z"
LONGEST_DAYS = 36_500


class PlainText(Text):
    """Some text without control characters; empty by default."""

    default_error_messages = {
        "long": "Must hold at most {longest} characters.",
        "control": "Must hold no control characters.",
    }

    def __init__(self, longest: int, **kwargs: Any) -> None:
        about = {"maxLength": longest, "pattern": f"^{NO_CONTROLS.pattern}$"}
        super().__init__(load_default="", metadata=about, **kwargs)
        self._longest = longest

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if len(text) > self._longest:
            raise self.make_error("long", longest=self._longest)
        if not NO_CONTROLS.fullmatch(text):
            raise self.make_error("control")
        return text


class PenaltyArgs(Schema):
    """For how long, and why."""

    duration = Integer(1, LONGEST_DAYS, required=True, example=7, description="In days.")
    reason = PlainText(
        LONGEST_REASON,
        example="Selling items for money.",
        description="Shown to staff, and the reason in history unless X-Reason gives one.",
    )
    moderator = PlainText(
        NAME_LENGTH,
        example="gamemaster",
        description="Who decided it, if not the caller.",
    )
    ip = Flag(
        load_default=False,
        example=False,
        description="Whether the game is to refuse the person's addresses as well.",
    )


class ModerationSchema(Schema):
    """Which penalties of an account are in force."""

    IsBanned = Flag(example=True)
    BanReason = Text(allow_none=True, example="Selling items for money.")
    BannedUntil = Moment(allow_none=True, example=UNTIL, description="Null: without end.")
    BannedBy = Text(allow_none=True, example="gamemaster")
    BanByAddress = Flag(
        example=False, description="Whether the game is to refuse the person's addresses as well."
    )
    IsMuted = Flag(example=False)
    MuteReason = Text(allow_none=True, metadata={"example": None})
    MutedUntil = Moment(
        allow_none=True, metadata={"example": None}, description="Null: without end."
    )
    MutedBy = Text(allow_none=True, metadata={"example": None})
