"""What only the running game can do: kick, kill, warp and chat."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.errors import NotFound, RoleMissing
from app.game.actions import access
from app.game.actions.asking import (
    EVERYBODY,
    Answer,
    ask,
    map_subject,
    player_subject,
    say,
    user_subject,
    warp,
)
from app.game.actions.domain import ActionFailed, ActionNotFound, NoGame, done_sentence, served
from app.game.actions.schemas import (
    ActionListArgs,
    ActionPageSchema,
    ActionSchema,
    ActionUnderWaySchema,
    ChatArgs,
    SaidOnMapSchema,
    SaidSchema,
    SaidToPlayerSchema,
    WarpArgs,
    WarpToPlaceArgs,
)
from app.game.actions.store import Actions
from app.http.api import Blueprint
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import replayed_headers
from app.http.json import json_response
from app.http.lists import cursor_response, page_size
from app.http.masking import masked
from app.http.path_converters import path_guid
from app.naming import Lookup
from app.openapi.examples import ACTION, MAP, PLAYER, USER
from app.types import Document
from app.users.schemas import MessageSchema

ABOUT = "What only the running game can do, and what a game says and asks that has no driver."
UNDER_WAY = "The game has not answered yet."

blp = Blueprint("Game", __name__, url_prefix="/api/v1", description=ABOUT)
of_players = Blueprint("PlayerActions", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserActions", __name__, url_prefix="/api/v1/users", group="Users")

actions = current(Actions)
cursors = current(Cursors)

act = guard.required(Scope.GAME_ACT)
act_on_users = guard.required(Scope.GAME_ACT, Role.USERS_QUERY)


def asks_the_game(blueprint: Blueprint, schema: type, **success: Any) -> Any:
    """Document what every view answers that asks the game for an action."""

    def decorator(view: Any) -> Any:
        view = blueprint.leaves_no_entry(blueprint.idempotent(view))
        view = blueprint.refuses(NoGame(), ActionFailed(f"{PLAYER} is not playing."))(view)
        view = blueprint.documents_alternative(
            202, schema=ActionUnderWaySchema, description="Not answered yet."
        )(view)
        return blueprint.documents_response(200, schema, **success)(view)

    return decorator


def said(sentence: str) -> dict[str, Any]:
    return {"example": {"Message": sentence}}


@of_players.route("/<player:key>/admin/kick", methods=["POST"])
@act
@asks_the_game(of_players, MessageSchema, **said(f"{PLAYER} has been kicked by the server!"))
def kick_player(key: Lookup) -> Response:
    """Kick a player out of the game

    The player may come back at once; a ban keeps out.
    """
    return told(ask("kick", player_subject(key)))


@of_players.route("/<player:key>/admin/kill", methods=["POST"])
@act
@asks_the_game(of_players, MessageSchema, **said(f"{PLAYER} has been killed!"))
def kill_player(key: Lookup) -> Response:
    """Kill a player

    What a death costs, the game decides.
    """
    return told(ask("kill", player_subject(key)))


@of_players.route("/<player:key>/admin/warpto", methods=["POST"])
@act
@of_players.arguments(WarpArgs())
@asks_the_game(of_players, MessageSchema, **said(f"Warped '{PLAYER}' to {MAP} (13, 22)."))
def warp_player(args: dict[str, Any], key: Lookup) -> Response:
    """Warp a player to a map

    Where on it, the game decides.
    """
    return told(warp(player_subject(key), args))


@of_players.route("/<player:key>/admin/warptoloc", methods=["POST"])
@act
@of_players.arguments(WarpToPlaceArgs())
@asks_the_game(of_players, MessageSchema, **said(f"Warped '{PLAYER}' to {MAP} (13, 22)."))
def warp_player_to_place(args: dict[str, Any], key: Lookup) -> Response:
    """Warp a player to a place on a map

    If nobody can stand there, the game says so.
    """
    return told(warp(player_subject(key), args))


@of_users.route("/<lookup:key>/admin/kick", methods=["POST"])
@act_on_users
@asks_the_game(of_users, MessageSchema, **said(f"{USER} has been kicked by the server!"))
def kick_user(key: Lookup) -> Response:
    """Kick a user out of the game

    Whoever plays with this account.
    """
    return told(ask("kick", user_subject(key)))


@of_users.route("/<lookup:key>/admin/kill", methods=["POST"])
@act_on_users
@asks_the_game(of_users, MessageSchema, **said(f"{USER} has been killed!"))
def kill_user(key: Lookup) -> Response:
    """Kill the character that a user plays

    What a death costs, the game decides.
    """
    return told(ask("kill", user_subject(key)))


@of_users.route("/<lookup:key>/admin/warpto", methods=["POST"])
@act_on_users
@of_users.arguments(WarpArgs())
@asks_the_game(of_users, MessageSchema, **said(f"Warped '{USER}' to {MAP} (13, 22)."))
def warp_user(args: dict[str, Any], key: Lookup) -> Response:
    """Warp the character that a user plays to a map

    Where on it, the game decides.
    """
    return told(warp(user_subject(key), args))


@of_users.route("/<lookup:key>/admin/warptoloc", methods=["POST"])
@act_on_users
@of_users.arguments(WarpToPlaceArgs())
@asks_the_game(of_users, MessageSchema, **said(f"Warped '{USER}' to {MAP} (13, 22)."))
def warp_user_to_place(args: dict[str, Any], key: Lookup) -> Response:
    """Warp the character that a user plays to a place on a map

    If nobody can stand there, the game says so.
    """
    return told(warp(user_subject(key), args))


@blp.route("/chat/global", methods=["POST"])
@act
@blp.arguments(ChatArgs())
@asks_the_game(blp, SaidSchema)
def say_to_everybody(args: dict[str, Any]) -> Response:
    """Say something to all who play

    Color and Target are handed on to the game.
    """
    return heard(say(EVERYBODY, args), args)


@blp.route("/chat/proximity/<map_id>", methods=["POST"])
@act
@blp.arguments(ChatArgs())
@asks_the_game(blp, SaidOnMapSchema)
def say_on_map(args: dict[str, Any], map_id: str) -> Response:
    """Say something to all on a map

    Color and Target are handed on to the game.
    """
    map_id = path_guid("mapId", map_id, nil=False)
    return heard(say(map_subject(map_id), args), args, mapId=map_id)


@blp.route("/chat/direct/<lookup:key>", methods=["POST"])
@act
@blp.arguments(ChatArgs())
@asks_the_game(blp, SaidToPlayerSchema)
def say_to_player(args: dict[str, Any], key: Lookup) -> Response:
    """Say something to one player

    Color and Target are handed on to the game.
    """
    return heard(say(player_subject(key), args), args, lookupKey=masked(str(key)))


@blp.route("/actions")
@act
@blp.arguments(ActionListArgs(), location="query")
@blp.documents_response(200, ActionPageSchema)
@blp.refuses(NotFound("player", Lookup.parse("nobody")), RoleMissing(Role.USERS_QUERY.value))
def list_actions(args: dict[str, Any]) -> Response:
    """List what the game was asked to do

    The newest first, what was asked of users only with the role `users.query`. Kept for as long as
    history is.
    """
    page = access.search(args, page_size(args))
    now = actions.now()
    return cursor_response(page._replace(values=[served(action, now) for action in page.values]))


@blp.route("/actions/<action_id>")
@act
@blp.documents_response(200, ActionSchema)
@blp.refuses(ActionNotFound(ACTION), RoleMissing(Role.USERS_QUERY.value))
def get_action(action_id: str) -> Response:
    """Get what came of an action

    Of one of a user, only with the role `users.query`.
    """
    action = access.visible_action(path_guid("id", action_id))
    return json_response(served(action, actions.now()))


def told(answer: Answer) -> Response:
    """Answer with the sentence that clients match, or that the game has not answered yet."""
    return answered(answer, {"Message": done_sentence(answer.action)})


def heard(answer: Answer, args: dict[str, Any], **where: str) -> Response:
    """Answer what was said, without what must not be repeated."""
    body = {n: masked(value) if isinstance(value, str) else value for n, value in args.items()}
    return answered(answer, {"success": True, "chatMessage": body, **where})


def answered(answer: Answer, done: Document) -> Response:
    headers = replayed_headers(answer.replayed)
    if answer.is_done:
        return json_response(done, headers=headers)
    under_way = {"Message": UNDER_WAY, "ActionId": answer.action["_id"]}
    return json_response(under_way, 202, headers)
