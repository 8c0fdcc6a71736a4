"""Banning and muting accounts, by the name of the user or of one of its characters."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response

from app.auth.execution import change_route, execute
from app.auth.views import read_route
from app.core.errors import NotFound, RoleMissing
from app.core.naming import NIL, Lookup
from app.core.operations import Operation
from app.core.penalties import BAN, MUTE
from app.core.permissions import Need, Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.intents import change_response
from app.http.openapi.examples import PLAYER, USER
from app.players.store import players
from app.users.moderation.domain import READS, penalties_in_force
from app.users.moderation.operations import IMPOSE, LIFT
from app.users.moderation.schemas import ModerationSchema
from app.users.schemas import MessageSchema
from app.users.store import users

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
