"""Player characters: lists and lookup, renaming and deleting."""

from __future__ import annotations

from functools import partial

from flask import Response

from app.auth.views import read_route
from app.core.naming import Lookup
from app.core.paging import Page, Window
from app.core.permissions import Permission
from app.core.types import Document, whole
from app.http.api import Blueprint
from app.http.json import json_response
from app.http.lists import ASCENDING, LegacyListArgs, PageNumberArgs, legacy_list, paged_list
from app.players.domain import ranks
from app.players.schemas import (
    LegacyPlayerPageSchema,
    OnlineCountSchema,
    OnlinePlayerPageSchema,
    OnlinePlayersPageSchema,
    PlayerListArgs,
    PlayerPageSchema,
    PlayerSchema,
    RankArgs,
    RankedPlayerPageSchema,
)
from app.players.store import players

PREFIX = "/api/v1/players"
ABOUT = "Player characters, what they own, and what they know."

blp = Blueprint("Players", __name__, url_prefix=PREFIX, description=ABOUT)

leaderboard = Blueprint("Leaderboard", __name__, url_prefix="/api/v1/leaderboard", group=blp.name)


read = partial(read_route, blp)


@read("", PlayerPageSchema, Permission.PLAYERS_READ, args=PlayerListArgs())
def list_players(args: Document) -> Document:
    """List players

    By name, unless `sortBy` is given. While nothing changes, pages neither skip nor repeat records.
    A page past the end is empty, with the right Total. To read all of a long list, begin with an
    empty `after`, then send the Next of each answer.
    """
    is_ascending = args["sortDirection"] == ASCENDING
    order = {"order": args["sortBy"], "ascending": is_ascending}
    return paged_list(args, partial(players.list, search=args.get("search"), **order))


@read("/rank", PlayerPageSchema, Permission.PLAYERS_READ, args=RankArgs())
def rank_players(args: Document) -> Document:
    """Rank players by level and experience

    Highest first, unless sortDirection is given; ties are in order of name. To read all of it,
    begin with an empty `after`, then send the Next of each answer.
    """
    is_ascending = args["sortDirection"] == ASCENDING
    return paged_list(args, partial(players.list, order="level", ascending=is_ascending))


@read(
    "/online", OnlinePlayerPageSchema, Permission.PLAYERS_READ, args=LegacyListArgs(), method="POST"
)
def list_online_players(args: Document) -> Document:
    """List players who are online

    By name. A player counts as online only while the game keeps reporting it: after a crash of the
    game server, everybody is offline within minutes.
    """
    return legacy_list(args, players.list_online)


@read("/online", OnlinePlayersPageSchema, Permission.PLAYERS_READ, args=PageNumberArgs())
def list_online_players_by_page(args: Document) -> Document:
    """List players who are online, in the common envelope

    The same players as with POST, in the envelope of all other lists.
    """
    return paged_list(args, players.list_online)


@read("/online/count", OnlineCountSchema, Permission.PLAYERS_READ)
def count_online_players() -> Document:
    """Count players who are online

    The length of the list of players who are online.
    """
    return {"onlineCount": players.count_online()}


@read("/<player:key>", PlayerSchema, Permission.PLAYERS_READ)
@blp.sends("X-Version")
def get_player(key: Lookup) -> Response:
    """Get one player

    By name or id, with all further fields that the game stores. The header `X-Version` is the
    Version for `savePlayer`.
    """
    record = players.get(key, "Version")
    # A game may have stored anything as the Version.
    version = whole(record.pop("Version", None))
    return json_response(record, headers={} if version is None else {"X-Version": str(version)})


@read_route(
    leaderboard,
    "",
    RankedPlayerPageSchema,
    Permission.LEADERBOARD_READ,
    args=PageNumberArgs(),
)
def get_leaderboard(args: Document) -> Document:
    """Get the leaderboard

    Names, levels and ranks alone, the highest level first. A key with the permission
    `leaderboard.read` alone can do nothing else, so a web page may contain it.
    """

    def ranked(window: Window) -> Page:
        page = players.list(window, order="level", ascending=False)
        return page._replace(values=ranks(page.values, window.start + 1))

    return paged_list(args, ranked)


@read(
    "",
    LegacyPlayerPageSchema,
    Permission.PLAYERS_READ,
    args=LegacyListArgs(),
    method="POST",
    successor=PREFIX,
)
def list_players_by_body(args: Document) -> Document:
    """List players (deprecated)

    By name, in the deprecated envelope.
    """
    return legacy_list(args, players.list)
