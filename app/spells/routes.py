"""The spells that players know."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.auth import guard
from app.auth.scopes import Scope
from app.execution import change_route, execute
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer
from app.http.json import json_response
from app.naming import Lookup
from app.openapi.examples import SPELL
from app.players.store import Players
from app.spells.domain import NoSpellSlot, SpellKnown, SpellNotKnown, served
from app.spells.operations import FORGET, TEACH
from app.spells.schemas import KnownSpellSchema, SpellSchema

blp = Blueprint("Spells", __name__, url_prefix="/api/v1/players", group="Players")

players = current(Players)


@blp.route("/<player:key>/spells")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, KnownSpellSchema(many=True))
def list_spells(key: Lookup) -> Response:
    """List the spells that a player knows

    In slot order, without empty slots.
    """
    return json_response(served(players.read(key, "Spells")["Spells"]))


@change_route(
    blp, TEACH, "/<player:key>/spells/teach", SpellSchema, SpellKnown(SPELL), NoSpellSlot(35)
)
def teach_spell(args: dict[str, Any], key: Lookup) -> Response:
    """Teach a player a spell

    It takes the lowest free slot. Where the catalogue holds spells, and not this one, the answer
    has a `Warning`, or it is refused (`QM_STRICT_CATALOGUE`).
    """
    return answer(execute(TEACH, players, key, args))


@change_route(blp, FORGET, "/<player:key>/spells/forget", SpellSchema, SpellNotKnown(SPELL))
def forget_spell(args: dict[str, Any], key: Lookup) -> Response:
    """Make a player forget a spell

    Its slot is free again; the other spells stay in theirs.
    """
    return answer(execute(FORGET, players, key, args))
