"""Actions that only the running game can carry out: kick, kill, warp, chat, restart and others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Response

from app.auth.views import read_route
from app.core.errors import NotFound, RoleMissing
from app.core.naming import Lookup
from app.core.permissions import Need, Permission
from app.core.types import Document
from app.game.actions import asking
from app.game.actions.asking import (
    EVERYBODY,
    Answer,
    ask,
    find_guild,
    find_map,
    find_player,
    find_user,
)
from app.game.actions.domain import (
    GUILD_VARIABLE,
    KINDS,
    RESTART,
    ActionFailed,
    CannotWithdraw,
    NoGame,
    done_sentence,
    public_action,
)
from app.game.actions.schemas import (
    LETTER_EXAMPLE,
    ActionListArgs,
    ActionPageSchema,
    ActionSchema,
    ActionUnderWaySchema,
    ChatArgs,
    LetterArgs,
    RestartArgs,
    SaidOnMapSchema,
    SaidSchema,
    SaidToPlayerSchema,
    WarpArgs,
    WarpToPlaceArgs,
)
from app.game.actions.store import actions
from app.http.api import Blueprint
from app.http.examples import ACTION, GUILD, MAP, PLAYER, USER
from app.http.intents import replayed_headers
from app.http.json import json_response
from app.http.lists import cursor_response, page_size
from app.http.masking import masked
from app.http.path_converters import path_guid
from app.players.variables.domain import variable_record
from app.players.variables.schemas import SetVariableArgs, VariableSchema
from app.users.schemas import MessageSchema

ABOUT = "Actions of the running game, and the API for games without a MongoDB driver."
UNDER_WAY = "The game has not answered yet."
CHARACTER = "the character that a user plays"

blp = Blueprint("Game", __name__, url_prefix="/api/v1", description=ABOUT)
of_players = Blueprint("PlayerActions", __name__, url_prefix="/api/v1/players", group="Players")
of_users = Blueprint("UserActions", __name__, url_prefix="/api/v1/users", group="Users")


needs_query = RoleMissing(Permission.USERS_FIND.role.value)


def ask_route(
    blueprint: Blueprint, path: str, schema: type, *needs: Need, **options: Any
) -> Callable[[Any], Any]:
    """Return a decorator for a view that asks the game for an action."""

    def decorator(view: Any) -> Any:
        view = blueprint.idempotent(view)
        view = blueprint.refuses(NoGame(), ActionFailed(f"{PLAYER} is not playing."))(view)
        view = blueprint.alt_response(
            202, schema=ActionUnderWaySchema, description="Not answered yet."
        )(view)
        return read_route(blueprint, path, schema, *needs, method="POST", **options)(view)

    return decorator


def add_views(kind: str, path: str, name: str, about: str, args: Any = None) -> None:
    """Add the views that ask the game to do something to a player, and to a user's character."""
    words = KINDS[kind]
    find_users = (Permission.USERS_FIND,)
    for blueprint, key, find, noun, whom, example, needs in (
        (of_players, "<player:key>", find_player, "player", "a player", PLAYER, ()),
        (of_users, "<lookup:key>", find_user, "user", CHARACTER, USER, find_users),
    ):
        view: Any = partial(act_on, kind, find)
        view.__name__, view.__doc__ = name.format(noun), about.format(whom)
        done = words.done.format(name=example, to=f"{MAP} (13, 22)")
        path_of_key = f"/{key}/admin/{path}"
        options = {"args": args, "example": {"Message": done}}
        ask_route(blueprint, path_of_key, MessageSchema, words.permission, *needs, **options)(view)


def act_on(kind: str, find: Callable[[Lookup], Document], *body: Document, key: Lookup) -> Response:
    answer = ask(kind, find(key), body[0] if body else {})
    return action_response(answer, {"Message": done_sentence(answer.action)})


add_views(
    "kick",
    "kick",
    "kick_{}",
    "Kick {} out of the game\n\nThe player may come back at once. Use a ban to keep a player out.",
)
add_views("kill", "kill", "kill_{}", "Kill {}\n\nThe game decides what a death costs.")
add_views(
    "warp",
    "warpto",
    "warp_{}",
    "Warp {} to a map\n\nThe game decides where on the map.",
    WarpArgs(),
)
add_views(
    "warp",
    "warptoloc",
    "warp_{}_to_place",
    "Warp {} to a place on a map\n\nThe game refuses a place where nobody can stand.",
    WarpToPlaceArgs(),
)


@blp.alias("POST", "/chat")
@ask_route(blp, "/chat/global", SaidSchema, Permission.GAME_ACT, args=ChatArgs())
def say_to_everybody(args: Document) -> Response:
    """Send a chat message to everybody

    Color and Target are passed to the game.
    """
    return say(EVERYBODY, args)


@ask_route(blp, "/chat/proximity/<map_id>", SaidOnMapSchema, Permission.GAME_ACT, args=ChatArgs())
def say_on_map(args: Document, map_id: str) -> Response:
    """Send a chat message to everybody on a map

    Color and Target are passed to the game.
    """
    map_id = path_guid("mapId", map_id, nil=False)
    return say(find_map(map_id), args, mapId=map_id)


@ask_route(
    blp, "/chat/direct/<lookup:receiver>", SaidToPlayerSchema, Permission.GAME_ACT, args=ChatArgs()
)
def say_to_player(args: Document, receiver: Lookup) -> Response:
    """Send a chat message to one player

    Color and Target are passed to the game.
    """
    return say(find_player(receiver), args, lookupKey=masked(str(receiver)))


@ask_route(
    blp,
    "/guilds/<guild_id>/variables/<variable_id>",
    VariableSchema,
    Permission.GAME_ACT,
    args=SetVariableArgs(),
    refuses=(NotFound("guild", GUILD),),
)
def set_guild_variable(args: Document, guild_id: str, variable_id: str) -> Response:
    """Set a variable of a guild

    The running game does it: guilds are its own.
    """
    subject = find_guild(guild_id)
    variable = path_guid("variableId", variable_id, nil=False)
    answer = ask(GUILD_VARIABLE, subject, {"VariableId": variable, "Value": args["value"]})
    return action_response(answer, variable_record(variable, args["value"]))


@ask_route(
    blp,
    "/game/restart",
    MessageSchema,
    Permission.GAME_ACT,
    args=RestartArgs(),
    example={"Message": KINDS[RESTART].done},
)
def restart_game(args: Document) -> Response:
    """Restart the game after a countdown

    The game repeats the message 10, 5 and 1 minutes before. It answers when it restarts, so a
    request with `Minutes` gets 202. `withdrawLetter` stops the countdown.
    """
    answer = ask(RESTART, EVERYBODY, args)
    return action_response(answer, {"Message": done_sentence(answer.action)})


@read_route(
    blp,
    "/actions",
    ActionPageSchema,
    Permission.GAME_ACT,
    args=ActionListArgs(),
    refuses=(NotFound("player", Lookup.parse("nobody")), needs_query),
)
def list_actions(args: Document) -> Response:
    """List game actions

    Newest first. Actions on users need the role `users.query`. Actions are kept as long as history.
    """
    page = asking.search(args, page_size(args))
    now = actions.now()
    return cursor_response(
        page._replace(values=[public_action(action, now) for action in page.values])
    )


@read_route(
    blp,
    "/actions/<action_id>",
    ActionSchema,
    Permission.GAME_ACT,
    refuses=(NotFound("action", ACTION), needs_query),
)
def get_action(action_id: str) -> Document:
    """Get an action and its result

    An action on a user needs the role `users.query`.
    """
    return public_action(asking.visible_action(action_id), actions.now())


@read_route(
    of_players,
    "/<player:key>/letters",
    ActionSchema,
    Permission.GAME_ACT,
    args=LetterArgs(),
    method="POST",
    example=LETTER_EXAMPLE,
)
@of_players.idempotent
def send_letter(args: Document, key: Lookup) -> Response:
    """Send a letter to a player, online or not

    It waits until a game takes it. Items need the permission `items.move` and count as moved now;
    the player gets them, with a history entry, when the game has delivered the letter.
    """
    sent = asking.send_letter(key, args)
    # As it is stored: a repeated request gets the same answer.
    letter = public_action(actions.get(sent.action["_id"]), actions.now())
    return json_response(letter, headers=replayed_headers(sent.replayed))


@read_route(
    blp,
    "/actions/<action_id>/withdraw",
    ActionSchema,
    Permission.GAME_ACT,
    method="POST",
    refuses=(NotFound("action", ACTION), CannotWithdraw()),
    example={**LETTER_EXAMPLE, "State": "withdrawn"},
)
def withdraw_letter(action_id: str) -> Document:
    """Withdraw a letter, or stop a restart

    A letter only while no game has taken it, and if you could give its items; they still count for
    the day. A restart until the game restarts: the game stops its countdown within about a second.
    """
    return public_action(asking.withdraw(action_id), actions.now())


def say(whom: Document, args: Document, **where: str) -> Response:
    """Ask the game to show a message; answer the message as it is shown."""
    answer = ask("chat", whom, args)
    return action_response(answer, {"success": True, "chatMessage": args, **where})


def action_response(answer: Answer, done: Document) -> Response:
    """Return the response to a request for an action: the answer, or 202 if there is none yet."""
    headers = replayed_headers(answer.replayed)
    if answer.action["Done"] is not None:
        return json_response(done, headers=headers)
    under_way = {"Message": UNDER_WAY, "ActionId": answer.action["_id"]}
    return json_response(under_way, 202, headers)
