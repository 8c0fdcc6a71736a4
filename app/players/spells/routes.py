"""The spells that players know."""

from __future__ import annotations

from app.auth.execution import change_route
from app.auth.views import read_route
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Blueprint
from app.http.openapi.examples import SPELL
from app.players.spells.domain import NoSpellSlot, SpellKnown, SpellNotKnown, known_spells
from app.players.spells.operations import FORGET, TEACH
from app.players.spells.schemas import KnownSpellSchema, SpellSchema
from app.players.store import players

blp = Blueprint("Spells", __name__, url_prefix="/api/v1/players", group="Players")


@read_route(blp, "/<player:key>/spells", KnownSpellSchema(many=True), Permission.PLAYERS_READ)
def list_spells(key: Lookup) -> list[Document]:
    """List the spells that a player knows

    In slot order, without empty slots.
    """
    return known_spells(players.read(key, "Spells")["Spells"])


change_route(
    blp,
    TEACH,
    "/<player:key>/spells/teach",
    SpellSchema,
    SpellKnown(SPELL),
    NoSpellSlot(35),
    view="teach_spell",
    about="""Teach a player a spell

    It takes the lowest free slot. If the catalogue has spells but not this one, the answer has
    a `Warning`, or the request is refused (`QM_STRICT_CATALOGUE`).
    """,
)
change_route(
    blp,
    FORGET,
    "/<player:key>/spells/forget",
    SpellSchema,
    SpellNotKnown(SPELL),
    view="forget_spell",
    about="""Make a player forget a spell

    Its slot becomes free; the other spells stay in their slots.
    """,
)
