"""Banning and muting accounts, by the name of the user or of one of its characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flask import Response

from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.errors import NotFound, RoleMissing
from app.core.naming import NIL, Lookup
from app.core.operations import Operation
from app.core.penalties import BAN, MUTE
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import change_response
from app.http.openapi.examples import PLAYER, USER
from app.players.store import Players
from app.users.moderation.domain import READS, penalties_in_force
from app.users.moderation.operations import IMPOSE, LIFT
from app.users.moderation.schemas import ModerationSchema
from app.users.schemas import MessageSchema
from app.users.store import Users

of_users = Blueprint("UserModeration", __name__, url_prefix="/api/v1/users", group="Users")
of_players = Blueprint("PlayerModeration", __name__, url_prefix="/api/v1/players", group="Players")

players = current(Players)
users = current(Users)

higher = RoleMissing(Permission.USERS_MANAGE.role.value)

WORDS = {BAN: "banned", MUTE: "muted"}


@read_route(of_users, "/<lookup:key>/moderation", ModerationSchema, Permission.USERS_READ)
def get_moderation(key: Lookup) -> Document:
    """Get whether a user is banned or muted

    With the end, the moderator and the reason. Past penalties are in history.
    """
    return penalties_in_force(users.get(key, *READS), users.now())


class Kind(NamedTuple):
    """Whether views find the account by user or by player, with the paths and texts."""

    name: str
    blueprint: Blueprint
    path: str
    whom: str
    example: str
    # Returns the name in the answer, and the account.
    find: Callable[[Lookup], tuple[str, Lookup]]
    # Of a caller, in addition to the permission for the penalty.
    needs: tuple[Permission, ...] = ()


def user_of(key: Lookup) -> tuple[str, Lookup]:
    return users.get(key, "Name")["Name"], key


def owner_of(player: Lookup) -> tuple[str, Lookup]:
    found = players.identity(player)
    if found.user_id is None:
        raise NotFound("user", NIL, f"The player '{found.name}' belongs to no account.")
    return found.name, Lookup.parse(found.user_id)


def add_view(kind: Kind, operation: Operation, done: str, about: str) -> None:
    """Add a view that imposes or lifts a penalty, by the name of a user or of a player."""

    def view(args: Document | None = None, *, key: Lookup) -> Response:
        name, account = kind.find(key)
        applied = execute(operation, account, args or {})
        return change_response(applied, {"Message": f"{name} has been {done}!"})

    view.__name__ = f"{operation.name}_{kind.name}"
    view.__doc__ = f"{operation.name.title()} {kind.whom}\n\n{about}"
    change_route(
        kind.blueprint,
        operation,
        f"{kind.path}/admin/{operation.name}",
        MessageSchema,
        *((higher,) if operation.arguments else ()),
        needs=(*operation.permissions, *kind.needs),
        example={"Message": f"{kind.example} has been {done}!"},
    )(view)


# The contract requires no role for users when the account is found by a character.
KINDS = (
    Kind("user", of_users, "/<lookup:key>", "a user", USER, user_of, (Permission.USERS_FIND,)),
    Kind("player", of_players, "/<player:key>", "the user of a player", PLAYER, owner_of),
)
ABOUT = {
    BAN: "A banned account gets no tokens, and its existing ones stop working.",
    MUTE: "The game stops a muted account from chatting.",
}
for kind in KINDS:
    for penalty, done in WORDS.items():
        own = f"An account with the role\n`users.manage` is {done} only by a caller who has it too."
        verb = IMPOSE[penalty].name
        over = f"Ends it early. Nothing changes if there is no {verb}."
        add_view(kind, IMPOSE[penalty], done, f"{ABOUT[penalty]} {own}")
        add_view(kind, LIFT[penalty], f"un{done}", over)
