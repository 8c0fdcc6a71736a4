"""Player characters: lists and lookup, another name, deleting."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import Scope
from app.auth.spending import refuse_budgets
from app.execution import change_route, execute
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer, keyed_intent
from app.http.json import json_response
from app.http.lists import (
    ASCENDING,
    LegacyListArgs,
    PageNumberArgs,
    deprecated_headers,
    legacy_envelope,
    legacy_window,
    paged_envelope,
    paged_window,
)
from app.naming import Lookup
from app.openapi.examples import PLAYER
from app.players.deletion.store import Deletions
from app.players.domain import PlayerNameTaken, PlayerOnline
from app.players.operations import DELETE, RENAME
from app.players.schemas import (
    LegacyPlayerPageSchema,
    NamedPlayerSchema,
    OnlineCountSchema,
    OnlinePlayerPageSchema,
    OnlinePlayersPageSchema,
    PlayerListArgs,
    PlayerPageSchema,
    PlayerSchema,
    RankArgs,
)
from app.players.store import Players

PREFIX = "/api/v1/players"
ABOUT = "Player characters, what they own, and what they know."

blp = Blueprint("Players", __name__, url_prefix=PREFIX, description=ABOUT)

deletions = current(Deletions)
players = current(Players)


@blp.route("")
@guard.required(Scope.PLAYERS_READ)
@blp.arguments(PlayerListArgs(), location="query")
@blp.documents_response(200, PlayerPageSchema)
def list_players(args: dict[str, Any]) -> Response:
    """List players

    By name unless asked otherwise. The order is total, so pages neither skip nor repeat while
    nothing changes. A page past the end is empty, with the right Total. To read all of a long
    list, begin with an empty `after` and go on with the Next of each answer.
    """
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    ascending = args["sortDirection"] == ASCENDING
    page = players.list(window, args.get("search"), args["sortBy"], ascending)
    return json_response(paged_envelope(window, page))


@blp.route("/rank")
@guard.required(Scope.PLAYERS_READ)
@blp.arguments(RankArgs(), location="query")
@blp.documents_response(200, PlayerPageSchema)
def rank_players(args: dict[str, Any]) -> Response:
    """Rank players by level and experience

    The highest first, unless sortDirection says otherwise; equals go by name. To read all of it,
    begin with an empty `after` and go on with the Next of each answer.
    """
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    ascending = args["sortDirection"] == ASCENDING
    return json_response(paged_envelope(window, players.list(window, None, "level", ascending)))


@blp.route("/online", methods=["POST"])
@guard.required(Scope.PLAYERS_READ)
@blp.arguments(LegacyListArgs(), required=False)
@blp.documents_response(200, OnlinePlayerPageSchema)
def list_online_players(args: dict[str, Any]) -> Response:
    """List players who are online

    By name. Online counts only while the game keeps saying so: a server that died leaves nobody
    online for more than some minutes.
    """
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    return json_response(legacy_envelope(window, players.list_online(window)))


@blp.route("/online")
@guard.required(Scope.PLAYERS_READ)
@blp.arguments(PageNumberArgs(), location="query")
@blp.documents_response(200, OnlinePlayersPageSchema)
def list_online_players_by_page(args: dict[str, Any]) -> Response:
    """List players who are online, as the other lists

    The same players as by POST, in the envelope of the list of all.
    """
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    return json_response(paged_envelope(window, players.list_online(window)))


@blp.route("/online/count")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, OnlineCountSchema)
def count_online_players() -> Response:
    """Count players who are online

    As many as the list of those who are online has.
    """
    return json_response({"onlineCount": players.count_online()})


@blp.route("/<player:key>")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, PlayerSchema)
def get_player(key: Lookup) -> Response:
    """Get one player

    By name or id. Further fields that the game stores on a player are served as well.
    """
    return json_response(players.get(key))


@change_route(
    blp, DELETE, "/<player:key>", NamedPlayerSchema, PlayerOnline(PLAYER), method="DELETE"
)
def delete_player(key: Lookup) -> Response:
    """Delete a player

    With all that it owns and knows. Undoing its entry in history brings it back, for as long as
    history is kept. A player who is online is not deleted: the game would store it again.
    """
    refuse_budgets("deleting a player")
    return answer(deletions.delete(key, keyed_intent(DELETE, {})))


@change_route(blp, RENAME, "/<player:key>/name", NamedPlayerSchema, PlayerNameTaken())
def rename_player(args: dict[str, Any], key: Lookup) -> Response:
    """Give a player another name

    Names are unique without case. Undoing its entry in history gives the former name back, unless
    the player was renamed since.
    """
    return answer(execute(RENAME, players, key, args))


@blp.route("", methods=["POST"])
@guard.required(Scope.PLAYERS_READ)
@blp.arguments(LegacyListArgs(), required=False)
@blp.documents_response(200, LegacyPlayerPageSchema)
@blp.doc(deprecated=True)
def list_players_by_body(args: dict[str, Any]) -> Response:
    """List players, the way before GET

    By name, in the former envelope.
    """
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    body = legacy_envelope(window, players.list(window))
    return json_response(body, headers=deprecated_headers(PREFIX))
