"""Banning and muting accounts, by the name of the user or of one of its characters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from flask import Response, has_request_context

from app.auth import guard
from app.auth.callers import callers
from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.changes import Applied, Change, Intent
from app.core.errors import Forbidden, NotFound, RoleMissing
from app.core.naming import NAME_LENGTH, NIL, Lookup
from app.core.operations import Operation
from app.core.penalties import BAN, MUTE, Penalty, is_in_force
from app.core.permissions import RIGHTS, Need, Permission
from app.core.types import Document
from app.http.api import Blueprint, Schema
from app.http.examples import PLAYER, USER
from app.http.fields import Flag, Integer, MaskedText, Moment, Text
from app.http.intents import LONGEST_REASON, change_response
from app.players.store import players
from app.users.domain import revoke_tokens
from app.users.operations import account_operation
from app.users.schemas import MessageSchema
from app.users.staff.store import staff
from app.users.store import users

BY_ADDRESS = "BanByAddress"
# The fields of an account that a change reads.
READS = (*BAN, *MUTE, BY_ADDRESS, *RIGHTS, "PasswordVersion")


def penalties_in_force(user: Document, now: datetime) -> Document:
    """Return which penalties of an account are in force."""
    record: Document = {}
    for penalty in (BAN, MUTE):
        counts = is_in_force(user, penalty, now)
        record |= {name: user.get(name) if counts else None for name in penalty}
        record[penalty.flag] = counts
    return {**record, BY_ADDRESS: record[BAN.flag] and user.get(BY_ADDRESS) is True}


UNTIL = "2026-02-07T19:04:21Z"
LONGEST_DAYS = 36_500


class PenaltyArgs(Schema):
    duration = Integer(1, LONGEST_DAYS, required=True, example=7, description="In days.")
    # Masked, because it is kept for long and shown to many.
    reason = MaskedText(
        LONGEST_REASON,
        load_default="",
        example="Selling items for money.",
        unrecorded=True,
        description="Shown to staff. Also the reason in history, unless X-Reason gives another.",
    )
    moderator = MaskedText(
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


# Otherwise any tool could lock out all administrators.
ADMINISTERING = {Permission.USERS_MANAGE, Permission.STAFF_MANAGE}


def impose(penalty: Penalty, account: Lookup, args: Document, intent: Intent) -> Applied:
    """Impose a penalty for some days. A ban also makes all tokens of the account void."""
    by = args["moderator"].strip() or intent.origin.name
    fields = {
        penalty.flag: True,
        penalty.reason: args["reason"].strip() or None,
        penalty.until: users.now() + timedelta(days=args["duration"]),
        penalty.by: by,
    }

    def imposed(user: Document) -> Change:
        require_lower(user)
        ends = {BY_ADDRESS: args["ip"], **revoke_tokens(user).fields} if penalty is BAN else {}
        return Change({**fields, **ends}, None)

    meant = intent._replace(arguments={**intent.arguments, "Moderator": by})
    store = staff if penalty is BAN else users
    return store.change(account, READS, imposed, meant)


def require_lower(user: Document) -> None:
    """Raise if the caller may not ban or mute an account.

    The contract protects those who manage users from others. Where named roles or keys are
    involved, only somebody who may do as much bans or mutes staff.
    """
    if not has_request_context():
        return
    caller = guard.caller()
    # Somebody may enable the account again.
    rights = callers.rights({**user, "IsDisabled": False})
    if rights.permissions and (rights.roles or caller.rights.roles or caller.key):
        guard.require_peer(user)
    elif not caller.may(*rights.permissions & ADMINISTERING):
        raise RoleMissing(Permission.USERS_MANAGE.role.value)


def may_punish(user: Document) -> bool:
    """Tell whether the caller may ban or mute an account."""
    try:
        require_lower(user)
    except Forbidden:
        return False
    return True


def lift(user: Document, *, penalty: Penalty) -> Change:
    """End a penalty early; change nothing if there is none."""
    if not user.get(penalty.flag):
        return Change({}, None)
    ends = dict.fromkeys((penalty.reason, penalty.until, penalty.by))
    also = {BY_ADDRESS: False} if penalty is BAN else {}
    return Change({penalty.flag: False, **ends, **also}, None)


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
        store=users,
        reads=READS,
        rule=partial(lift, penalty=penalty),
    )


of_users = Blueprint("UserModeration", __name__, url_prefix="/api/v1/users", group="Users")
of_players = Blueprint("PlayerModeration", __name__, url_prefix="/api/v1/players", group="Players")


higher = RoleMissing(Permission.USERS_MANAGE.role.value)

WORDS = {BAN: "banned", MUTE: "muted"}
ABOUT = {
    BAN: "A banned account gets no tokens, and its existing ones stop working.",
    MUTE: "The game stops a muted account from chatting.",
}


@read_route(of_users, "/<lookup:key>/moderation", ModerationSchema, Permission.USERS_READ)
def get_moderation(key: Lookup) -> Document:
    """Get whether a user is banned or muted

    With the end, the moderator and the reason. Past penalties are in history.
    """
    return penalties_in_force(users.get(key, *READS), users.now())


def user_of(key: Lookup) -> tuple[str, Lookup]:
    """Return the name in the answer, and the account."""
    return users.get(key, "Name")["Name"], key


def owner_of(player: Lookup) -> tuple[str, Lookup]:
    found = players.identity(player)
    if found.user_id is None:
        raise NotFound("user", NIL, f"The player '{found.name}' belongs to no account.")
    return found.name, Lookup.parse(found.user_id)


def add_views(
    blueprint: Blueprint,
    path: str,
    find: Callable[[Lookup], tuple[str, Lookup]],
    whom: str,
    example: str,
    *needs: Need,
) -> None:
    """Add the views that impose and lift penalties, by the name of a user or of a player."""

    def add_view(operation: Operation, done: str, about: str) -> None:
        def view(args: Document | None = None, *, key: Lookup) -> Response:
            name, account = find(key)
            applied = execute(operation, account, args or {})
            return change_response(applied, {"Message": f"{name} has been {done}!"})

        view.__name__ = f"{operation.name}_{whom.split()[-1]}"
        view.__doc__ = f"{operation.name.title()} {whom}\n\n{about}"
        change_route(
            blueprint,
            operation,
            f"{path}/admin/{operation.name}",
            MessageSchema,
            *((higher,) if operation.arguments else ()),
            needs=(*operation.permissions, *needs),
            example={"Message": f"{example} has been {done}!"},
        )(view)

    for penalty, done in WORDS.items():
        own = f"An account with the role\n`users.manage` is {done} only by a caller who has it too."
        over = f"Ends it early. Nothing changes if there is no {IMPOSE[penalty].name}."
        add_view(IMPOSE[penalty], done, f"{ABOUT[penalty]} {own}")
        add_view(LIFT[penalty], f"un{done}", over)


add_views(of_users, "/<lookup:key>", user_of, "a user", USER, Permission.USERS_FIND)
# The contract requires no role for users when the account is found by a character.
add_views(of_players, "/<player:key>", owner_of, "the user of a player", PLAYER)
