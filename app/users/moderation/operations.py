"""The operations that impose and lift bans and mutes."""

from __future__ import annotations

from functools import partial

from app.core.operations import Operation
from app.core.penalties import BAN, MUTE, Penalty
from app.core.permissions import Permission
from app.users.moderation.enforcement import impose, lift
from app.users.moderation.schemas import PenaltyArgs
from app.users.operations import account_operation

IMPOSE: dict[Penalty, Operation] = {}
LIFT: dict[Penalty, Operation] = {}
for penalty, verb, done, needed in (
    (BAN, "ban", "banned", Permission.BAN),
    (MUTE, "mute", "muted", Permission.MUTE),
):
    operation = partial(account_operation, needs=(needed,))
    IMPOSE[penalty] = operation(
        verb,
        no_undo=f"un{verb} the user instead",
        sentence=f"{done.capitalize()} for {{Duration:days}}",
        run=partial(impose, penalty),
        arguments=PenaltyArgs(),
    )
    LIFT[penalty] = operation(
        f"un{verb}",
        no_undo=f"{verb} the user again instead",
        sentence=f"Un{done}",
        run=partial(lift, penalty),
    )
