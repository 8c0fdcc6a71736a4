"""Banning and muting accounts, by the name of the user or of one of its characters."""

from __future__ import annotations

from typing import Any, NamedTuple

from flask import Response

from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.errors import NotFound, RoleMissing
from app.execution import change_route
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import change_response
from app.http.json import json_response
from app.moderation.domain import READS, served
from app.moderation.enforcement import impose_on, lift_from
from app.moderation.operations import IMPOSE, LIFT
from app.moderation.penalties import BAN, MUTE, Penalty
from app.moderation.schemas import ModerationSchema
from app.naming import NIL, Lookup
from app.openapi.examples import PLAYER, USER
from app.players.store import Players
from app.users.schemas import MessageSchema
from app.users.store import Users

of_users = Blueprint("UserModeration", __name__, url_prefix="/api/v1/users", group="Users")
of_players = Blueprint("PlayerModeration", __name__, url_prefix="/api/v1/players", group="Players")

players = current(Players)
users = current(Users)

# By the name of a character, a ban needs no role for users: the contract has it so.
BY_PLAYER = (Scope.USERS_CHANGE,)
higher = RoleMissing(Role.USERS_MANAGE.value)

WORDS = {BAN: "banned", MUTE: "muted"}


@of_users.route("/<lookup:key>/moderation")
@guard.required(Scope.USERS_READ, Role.USERS_QUERY)
@of_users.documents_response(200, ModerationSchema)
def get_moderation(key: Lookup) -> Response:
    """Get whether a user is banned or muted

    Until when, by whom and why. A penalty that is over is no longer told here, but in history.
    """
    return json_response(served(users.get(key, *READS), users.now()))


@change_route(
    of_users,
    IMPOSE[BAN],
    "/<lookup:key>/admin/ban",
    MessageSchema,
    higher,
    example={"Message": f"{USER} has been banned!"},
)
def ban_user(args: dict[str, Any], key: Lookup) -> Response:
    """Ban a user

    A banned account gets no token, and those that it has end. An account with the role
    `users.manage` is banned only by a caller who has it too.
    """
    return imposed(BAN, user_of(key), args)


@change_route(
    of_users,
    LIFT[BAN],
    "/<lookup:key>/admin/unban",
    MessageSchema,
    example={"Message": f"{USER} has been unbanned!"},
)
def unban_user(key: Lookup) -> Response:
    """Unban a user

    Before its time is over. Nothing changes where there is no ban.
    """
    return lifted(BAN, user_of(key))


@change_route(
    of_users,
    IMPOSE[MUTE],
    "/<lookup:key>/admin/mute",
    MessageSchema,
    higher,
    example={"Message": f"{USER} has been muted!"},
)
def mute_user(args: dict[str, Any], key: Lookup) -> Response:
    """Mute a user

    The game keeps a muted account from speaking. An account with the role `users.manage` is muted
    only by a caller who has it too.
    """
    return imposed(MUTE, user_of(key), args)


@change_route(
    of_users,
    LIFT[MUTE],
    "/<lookup:key>/admin/unmute",
    MessageSchema,
    example={"Message": f"{USER} has been unmuted!"},
)
def unmute_user(key: Lookup) -> Response:
    """Unmute a user

    Before its time is over. Nothing changes where there is no mute.
    """
    return lifted(MUTE, user_of(key))


@change_route(
    of_players,
    IMPOSE[BAN],
    "/<player:key>/admin/ban",
    MessageSchema,
    higher,
    needs=BY_PLAYER,
    example={"Message": f"{PLAYER} has been banned!"},
)
def ban_player(args: dict[str, Any], key: Lookup) -> Response:
    """Ban the user of a player

    A banned account gets no token, and those that it has end. An account with the role
    `users.manage` is banned only by a caller who has it too.
    """
    return imposed(BAN, owner_of(key), args)


@change_route(
    of_players,
    LIFT[BAN],
    "/<player:key>/admin/unban",
    MessageSchema,
    needs=BY_PLAYER,
    example={"Message": f"{PLAYER} has been unbanned!"},
)
def unban_player(key: Lookup) -> Response:
    """Unban the user of a player

    Before its time is over. Nothing changes where there is no ban.
    """
    return lifted(BAN, owner_of(key))


@change_route(
    of_players,
    IMPOSE[MUTE],
    "/<player:key>/admin/mute",
    MessageSchema,
    higher,
    needs=BY_PLAYER,
    example={"Message": f"{PLAYER} has been muted!"},
)
def mute_player(args: dict[str, Any], key: Lookup) -> Response:
    """Mute the user of a player

    The game keeps a muted account from speaking. An account with the role `users.manage` is muted
    only by a caller who has it too.
    """
    return imposed(MUTE, owner_of(key), args)


@change_route(
    of_players,
    LIFT[MUTE],
    "/<player:key>/admin/unmute",
    MessageSchema,
    needs=BY_PLAYER,
    example={"Message": f"{PLAYER} has been unmuted!"},
)
def unmute_player(key: Lookup) -> Response:
    """Unmute the user of a player

    Before its time is over. Nothing changes where there is no mute.
    """
    return lifted(MUTE, owner_of(key))


class Target(NamedTuple):
    """Whose account is meant, and the name that was asked for."""

    name: str
    account: Lookup


def user_of(key: Lookup) -> Target:
    return Target(users.get(key, "Name")["Name"], key)


def owner_of(player: Lookup) -> Target:
    """Return the account that plays a player."""
    found = players.identity(player)
    if found.user_id is None:
        raise NotFound("user", NIL, f"The player '{found.name}' belongs to no account.")
    return Target(found.name, Lookup.parse(found.user_id))


def imposed(penalty: Penalty, target: Target, args: dict[str, Any]) -> Response:
    applied = impose_on(target.account, penalty, args)
    return change_response(applied, {"Message": f"{target.name} has been {WORDS[penalty]}!"})


def lifted(penalty: Penalty, target: Target) -> Response:
    applied = lift_from(target.account, penalty)
    return change_response(applied, {"Message": f"{target.name} has been un{WORDS[penalty]}!"})
