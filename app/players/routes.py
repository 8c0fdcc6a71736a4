"""Player characters: lists and lookup, renaming and deleting."""

from __future__ import annotations

from functools import partial

from flask import Response

from app.auth.scopes import Scope
from app.auth.spending import refuse_budgets
from app.auth.views import read_route
from app.execution import change_route, change_routes
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer, keyed_intent
from app.http.lists import ASCENDING, LegacyListArgs, PageNumberArgs, legacy_list, paged_list
from app.naming import Lookup
from app.openapi.examples import PLAYER
from app.players import operations
from app.players.deletion.store import Deletions
from app.players.domain import PlayerOnline
from app.players.operations import DELETE
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
from app.types import Document

PREFIX = "/api/v1/players"
ABOUT = "Player characters, what they own, and what they know."

blp = Blueprint("Players", __name__, url_prefix=PREFIX, description=ABOUT)

deletions = current(Deletions)
players = current(Players)

read = partial(read_route, blp)


@read("", PlayerPageSchema, Scope.PLAYERS_READ, args=PlayerListArgs())
def list_players(args: Document) -> Document:
    """List players

    By name unless asked otherwise. The order is total, so pages neither skip nor repeat while
    nothing changes. A page past the end is empty, with the right Total. To read all of a long
    list, begin with an empty `after` and go on with the Next of each answer.
    """
    is_ascending = args["sortDirection"] == ASCENDING
    order = {"order": args["sortBy"], "ascending": is_ascending}
    return paged_list(args, partial(players.list, search=args.get("search"), **order))


@read("/rank", PlayerPageSchema, Scope.PLAYERS_READ, args=RankArgs())
def rank_players(args: Document) -> Document:
    """Rank players by level and experience

    The highest first, unless sortDirection says otherwise; equals go by name. To read all of it,
    begin with an empty `after` and go on with the Next of each answer.
    """
    is_ascending = args["sortDirection"] == ASCENDING
    return paged_list(args, partial(players.list, order="level", ascending=is_ascending))


@read("/online", OnlinePlayerPageSchema, Scope.PLAYERS_READ, args=LegacyListArgs(), method="POST")
def list_online_players(args: Document) -> Document:
    """List players who are online

    By name. Online counts only while the game keeps saying so: a server that died leaves nobody
    online for more than some minutes.
    """
    return legacy_list(args, players.list_online)


@read("/online", OnlinePlayersPageSchema, Scope.PLAYERS_READ, args=PageNumberArgs())
def list_online_players_by_page(args: Document) -> Document:
    """List players who are online, as the other lists

    The same players as by POST, in the envelope of the list of all.
    """
    return paged_list(args, players.list_online)


@read("/online/count", OnlineCountSchema, Scope.PLAYERS_READ)
def count_online_players() -> Document:
    """Count players who are online

    As many as the list of those who are online has.
    """
    return {"onlineCount": players.count_online()}


@read("/<player:key>", PlayerSchema, Scope.PLAYERS_READ)
def get_player(key: Lookup) -> Document:
    """Get one player

    By name or id. Further fields that the game stores on a player are served as well.
    """
    return players.get(key)


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


change_routes(blp, players, operations)


@read(
    "",
    LegacyPlayerPageSchema,
    Scope.PLAYERS_READ,
    args=LegacyListArgs(),
    method="POST",
    successor=PREFIX,
)
def list_players_by_body(args: Document) -> Document:
    """List players, the way before GET

    By name, in the former envelope.
    """
    return legacy_list(args, players.list)
