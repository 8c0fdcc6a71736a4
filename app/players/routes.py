"""Player characters: lists and lookup."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app

from app.auth import roles
from app.http.api import Blueprint
from app.http.json import json_response
from app.http.lists import PagedListArgs, paged_envelope, paged_window
from app.http.stores import current
from app.keys import Lookup
from app.players.schemas import PlayerPageSchema, PlayerSchema
from app.players.store import Players

blp = Blueprint("Players", __name__, url_prefix="/api/v1/players", description="Characters.")

players = current(Players)


@blp.route("")
@roles.required()
@blp.arguments(PagedListArgs(), location="query")
@blp.response(200, PlayerPageSchema)
def list_players(args: dict[str, Any]) -> Response:
    """List players"""
    window = paged_window(args, current_app.config["PAGE_SIZE_MAX"])
    return json_response(paged_envelope(window, players.list(window)))


@blp.route("/<lookup:key>")
@roles.required()
@blp.response(200, PlayerSchema)
def get_player(key: Lookup) -> Response:
    """Get one player"""
    return json_response(players.get(key))
