"""The spells that players know."""

from __future__ import annotations

from app.auth.permissions import Permission
from app.auth.views import read_route
from app.execution import change_routes
from app.http.api import Blueprint
from app.http.context import current
from app.naming import Lookup
from app.players.store import Players
from app.spells import operations
from app.spells.domain import known_spells
from app.spells.schemas import KnownSpellSchema
from app.types import Document

blp = Blueprint("Spells", __name__, url_prefix="/api/v1/players", group="Players")

players = current(Players)


@read_route(blp, "/<player:key>/spells", KnownSpellSchema(many=True), Permission.PLAYERS_READ)
def list_spells(key: Lookup) -> list[Document]:
    """List the spells that a player knows

    In slot order, without empty slots.
    """
    return known_spells(players.read(key, "Spells")["Spells"])


change_routes(blp, operations)
