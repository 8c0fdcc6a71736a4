"""What clients ask first: the game's name, its state and its settings."""

from __future__ import annotations

import time

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import KeyAccess
from app.game.schemas import AuthorizedSchema, GameConfigSchema, InfoSchema, StatsSchema
from app.http.api import Blueprint
from app.http.context import current
from app.http.json import json_response
from app.players.store import Players

ABOUT = "The game: its name, its state and its settings."
# The master process imports this before it forks, so it is the same in all of its workers.
STARTED = time.monotonic()

blp = Blueprint("Info", __name__, url_prefix="/api/v1/info", description=ABOUT)

players = current(Players)


@blp.route("")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, InfoSchema)
def get_info() -> Response:
    """Get the game's name and port

    Both are settings.
    """
    settings = current_app.config
    return json_response({"name": settings["GAME_NAME"], "port": settings["GAME_PORT"]})


@blp.route("/authorized")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, AuthorizedSchema)
def get_authorized() -> Response:
    """Ask whether the token is accepted

    A 401 tells that it is not.
    """
    return json_response({"authorized": True})


@blp.route("/stats")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, StatsSchema)
def get_stats() -> Response:
    """Get the state of the game

    How many players are online, and since when this service runs.
    """
    online = players.count_online()
    uptime = int((time.monotonic() - STARTED) * 1000)
    return json_response(
        {"uptime": uptime, "cps": 0, "connectedClients": online, "onlineCount": online}
    )


@blp.route("/config")
@guard.required(KeyAccess.ANY)
@blp.documents_response(200, GameConfigSchema)
def get_config() -> Response:
    """Get the settings of the game

    Those that clients ask for.
    """
    settings = current_app.config
    limits = {
        "MaxCharacters": settings["MAX_CHARACTERS"],
        "MaxStat": settings["MAX_STAT"],
        "MaxLevel": settings["MAX_LEVEL"],
        "MaxInventory": settings["INVENTORY_SIZE"],
        "MaxBank": settings["BANK_SIZE"],
        "MaxSpells": settings["SPELLS_SIZE"],
    }
    return json_response(
        {
            "GameName": settings["GAME_NAME"],
            "ServerPort": settings["GAME_PORT"],
            "AdminOnly": settings["GAME_ADMIN_ONLY"],
            "Player": limits,
        }
    )
