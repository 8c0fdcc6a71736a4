"""The operations that impose and lift bans and mutes."""

from __future__ import annotations

from functools import partial
from typing import Any

from app.core.operations import NotUndoable, Operation, Run, no_items
from app.core.penalties import BAN, MUTE
from app.core.permissions import Permission
from app.users.moderation.enforcement import impose_on, lift_from
from app.users.moderation.schemas import PenaltyArgs


def _operation(
    name: str,
    needs: Permission,
    inverse: str,
    sentence: str,
    run: Run,
    arguments: Any = None,
) -> Operation:
    return Operation(
        name=name,
        subject="user",
        needs=(needs,),
        arguments=arguments,
        run=run,
        inverse=NotUndoable(inverse),
        moves=no_items,
        sentence=sentence,
        takes_key=False,
    )


IMPOSE = {
    BAN: _operation(
        "ban",
        Permission.BAN,
        "unban the user instead",
        "Banned for {Duration:days}",
        partial(impose_on, BAN),
        PenaltyArgs(),
    ),
    MUTE: _operation(
        "mute",
        Permission.MUTE,
        "unmute the user instead",
        "Muted for {Duration:days}",
        partial(impose_on, MUTE),
        PenaltyArgs(),
    ),
}
LIFT = {
    BAN: _operation(
        "unban", Permission.BAN, "ban the user again instead", "Unbanned", partial(lift_from, BAN)
    ),
    MUTE: _operation(
        "unmute",
        Permission.MUTE,
        "mute the user again instead",
        "Unmuted",
        partial(lift_from, MUTE),
    ),
}
