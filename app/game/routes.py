"""The name, the state and the settings of the game, which clients request first."""

from __future__ import annotations

import time
from functools import partial

from app.auth.spending import limits_today
from app.auth.views import read_route
from app.core.permissions import KeyAccess, Permission, SignedIn
from app.core.types import Document
from app.game.schemas import (
    STAT_NAMES,
    STATS,
    AuthorizedSchema,
    GameConfigSchema,
    InfoSchema,
    LimitsSchema,
    MetricsSchema,
    StatsSchema,
)
from app.http.api import Blueprint
from app.http.context import setting
from app.players.store import players

ABOUT = "The game: its name, its state and its settings."
# The master process imports this before it forks, so it is the same in all of its workers.
STARTED = time.monotonic()
# The settings that limit players, by their names in the game.
LIMITS = {
    "MaxCharacters": "MAX_CHARACTERS",
    "MaxStat": "MAX_STAT",
    "MaxLevel": "MAX_LEVEL",
    "MaxInventory": "INVENTORY_SIZE",
    "MaxBank": "BANK_SIZE",
    "MaxSpells": "SPELLS_SIZE",
}

blp = Blueprint("Info", __name__, url_prefix="/api/v1/info", description=ABOUT)


read = partial(read_route, blp)


@read("", InfoSchema, Permission.PLAYERS_READ, KeyAccess.ANY)
def get_info() -> Document:
    """Get the game's name and port

    Both are settings.
    """
    return {"name": setting("GAME_NAME"), "port": setting("GAME_PORT")}


@read("/authorized", AuthorizedSchema, Permission.PLAYERS_READ, KeyAccess.ANY)
def get_authorized() -> Document:
    """Check whether the token is accepted

    The answer is 401 if it is not.
    """
    return {"authorized": True}


@read("/limits", LimitsSchema, SignedIn.ANYBODY, KeyAccess.ANY)
def get_limits() -> Document:
    """Get your limits

    The limits of your roles, and how many items you may still move today, in UTC. Null means no
    limit. A key also counts towards the limits of its account.
    """
    return limits_today()


@read("/stats", StatsSchema, Permission.PLAYERS_READ, KeyAccess.ANY)
def get_stats() -> Document:
    """Get the state of the game

    How many players are online, and how long this service has run.
    """
    return stats_record()


def stats_record() -> Document:
    online = players.count_online()
    uptime = int((time.monotonic() - STARTED) * 1000)
    return {"uptime": uptime, "cps": 0, "connectedClients": online, "onlineCount": online}


@read("/metrics", MetricsSchema, Permission.PLAYERS_READ, KeyAccess.ANY)
def get_metrics() -> Document:
    """Get the numbers of the game

    Those of `info/stats`, and how many players there are. `/metrics` has those of this service, for
    Prometheus.
    """
    return {**stats_record(), "players": players.count()}


@read("/config/stats", STAT_NAMES, Permission.PLAYERS_READ, KeyAccess.ANY)
def list_stats() -> list[str]:
    """Get the names of the stats

    In the order of BaseStats.
    """
    return list(STATS)


@read("/config", GameConfigSchema, Permission.PLAYERS_READ, KeyAccess.ANY)
def get_config() -> Document:
    """Get the settings of the game

    Those that clients need.
    """
    return {
        "GameName": setting("GAME_NAME"),
        "ServerPort": setting("GAME_PORT"),
        "AdminOnly": setting("GAME_ADMIN_ONLY"),
        "Player": {name: setting(source) for name, source in LIMITS.items()},
    }
