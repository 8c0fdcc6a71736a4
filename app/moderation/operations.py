"""The operations that impose and lift bans and mutes."""

from __future__ import annotations

from typing import Any

from app.auth.roles import Role
from app.auth.scopes import Scope
from app.moderation.penalties import BAN, MUTE
from app.moderation.schemas import PenaltyArgs
from app.operations import Operation


def _operation(name: str, inverse: str, sentence: str, arguments: Any = None) -> Operation:
    return Operation(
        name=name,
        subject="user",
        scope=Scope.USERS_CHANGE,
        roles=(Role.USERS_QUERY,),
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
    BAN: _operation("ban", "unban the user instead", "Banned for {Duration:days}", PenaltyArgs()),
    MUTE: _operation("mute", "unmute the user instead", "Muted for {Duration:days}", PenaltyArgs()),
}
LIFT = {
    BAN: _operation("unban", "ban the user again instead", "Unbanned"),
    MUTE: _operation("unmute", "mute the user again instead", "Unmuted"),
}
