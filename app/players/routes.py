"""Player characters: lists and lookup."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import roles
from app.http.api import Blueprint
from app.http.json import json_response
from app.http.lists import (
    ASCENDING,
    LegacyListArgs,
    deprecated_headers,
    legacy_envelope,
    legacy_window,
    paged_envelope,
    paged_window,
)
from app.http.stores import current
from app.keys import Lookup
from app.players.schemas import (
    LegacyPlayerPageSchema,
    OnlineCountSchema,
    PlayerListArgs,
    PlayerPageSchema,
    PlayerSchema,
    RankArgs,
)
from app.players.store import Players

PREFIX = "/api/v1/players"

blp = Blueprint("Players", __name__, url_prefix=PREFIX, description="Player characters.")

players = current(Players)


@blp.route("")
@roles.required()
@blp.arguments(PlayerListArgs(), location="query")
@blp.response(200, PlayerPageSchema)
def list_players(args: dict[str, Any]) -> Response:
    """List players"""
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    ascending = args["sortDirection"] == ASCENDING
    page = players.list(window, args.get("search"), args["sortBy"], ascending)
    return json_response(paged_envelope(window, page))


@blp.route("/rank")
@roles.required()
@blp.arguments(RankArgs(), location="query")
@blp.response(200, PlayerPageSchema)
def rank_players(args: dict[str, Any]) -> Response:
    """Rank players by level and experience"""
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    ascending = args["sortDirection"] == ASCENDING
    return json_response(paged_envelope(window, players.list(window, None, "level", ascending)))


@blp.route("/online", methods=["POST"])
@roles.required()
@blp.arguments(LegacyListArgs(), required=False)
@blp.response(200, LegacyPlayerPageSchema)
def list_online_players(args: dict[str, Any]) -> Response:
    """List players who are online"""
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    return json_response(legacy_envelope(window, players.list_online(window)))


@blp.route("/online/count")
@roles.required()
@blp.response(200, OnlineCountSchema)
def count_online_players() -> Response:
    """Count players who are online"""
    return json_response({"onlineCount": players.count_online()})


@blp.route("/<player:key>")
@roles.required()
@blp.response(200, PlayerSchema)
def get_player(key: Lookup) -> Response:
    """Get one player"""
    return json_response(players.get(key))


@blp.route("", methods=["POST"])
@roles.required()
@blp.arguments(LegacyListArgs(), required=False)
@blp.response(200, LegacyPlayerPageSchema)
@blp.doc(deprecated=True)
def list_players_by_body(args: dict[str, Any]) -> Response:
    """List players, the way before GET"""
    window = legacy_window(args, current_app.config["PAGE_SIZE_MAX"])
    body = legacy_envelope(window, players.list(window))
    return json_response(body, headers=deprecated_headers(PREFIX))
