"""The page of a player in the console."""

from __future__ import annotations

from urllib.parse import quote

from app.console.session.sessions import COOKIE
from app.oauth.store import RefreshTokens
from benchmarks import worlds
from benchmarks.cells import Cell
from benchmarks.load import Request
from benchmarks.worlds import World


def session_of(world: World) -> str:
    """Return the cookie of a session, for an account with all roles."""
    user = world.db["users"].find_one({"Name": worlds.CALLER}) or {}
    tokens = RefreshTokens(world.storage, 3600, 2000)
    issued = tokens.begin_session(user["_id"], user["PasswordVersion"], 24 * 3600, "bench")
    return f"{COOKIE}={issued.token}"


def pages(world: World) -> list[Request]:
    return [Request("GET", f"/console/players/{quote(name)}") for name in world.read_names]


CONSOLE_CELLS = (
    Cell("n", "page of a player in the console", pages, lambda world, i: world.read_names[i]),
)
