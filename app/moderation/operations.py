"""The operations that impose and lift bans and mutes."""

from __future__ import annotations

from typing import Any

from app.auth.permissions import Permission
from app.moderation.penalties import BAN, MUTE
from app.moderation.schemas import PenaltyArgs
from app.operations import Operation


def _operation(
    name: str, needs: Permission, inverse: str, sentence: str, arguments: Any = None
) -> Operation:
    return Operation(
        name=name,
        subject="user",
        needs=(needs,),
        arguments=arguments,
        prepare="app/moderation/enforcement, which knows the moderator and the time",
        inverse=inverse,
        moves=None,
        batch=None,
        sentence=sentence,
        takes_key=False,
        quotes_staff=True,
    )


IMPOSE = {
    BAN: _operation(
        "ban", Permission.BAN, "unban the user instead", "Banned for {Duration:days}", PenaltyArgs()
    ),
    MUTE: _operation(
        "mute",
        Permission.MUTE,
        "unmute the user instead",
        "Muted for {Duration:days}",
        PenaltyArgs(),
    ),
}
LIFT = {
    BAN: _operation("unban", Permission.BAN, "ban the user again instead", "Unbanned"),
    MUTE: _operation("unmute", Permission.MUTE, "mute the user again instead", "Unmuted"),
}
