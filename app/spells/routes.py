"""The spells that players know."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response, current_app

from app.auth import roles
from app.http.api import Blueprint
from app.http.idempotency import answer, intent
from app.http.json import json_response
from app.http.stores import current
from app.keys import Lookup
from app.players.store import Players
from app.spells.domain import forget, served, teach
from app.spells.schemas import KnownSpellSchema, SpellArgs, SpellSchema

blp = Blueprint("Spells", __name__, url_prefix="/api/v1/players", description="Known spells.")

players = current(Players)


@blp.route("/<player:key>/spells", tags=["Players"])
@roles.required()
@blp.response(200, KnownSpellSchema(many=True))
def list_spells(key: Lookup) -> Response:
    """List the spells that a player knows"""
    return json_response(served(players.read(key, "Spells")["Spells"]))


@blp.route("/<player:key>/spells/teach", methods=["POST"], tags=["Players"])
@roles.required()
@blp.arguments(SpellArgs())
@blp.response(200, SpellSchema)
def teach_spell(args: dict[str, Any], key: Lookup) -> Response:
    """Teach a player a spell"""
    rule = partial(teach, **args, size=current_app.config["SPELLS_SIZE"])
    return answer(players.change(key, ("Spells",), rule, intent("teach", args)))


@blp.route("/<player:key>/spells/forget", methods=["POST"], tags=["Players"])
@roles.required()
@blp.arguments(SpellArgs())
@blp.response(200, SpellSchema)
def forget_spell(args: dict[str, Any], key: Lookup) -> Response:
    """Make a player forget a spell"""
    return answer(players.change(key, ("Spells",), partial(forget, **args), intent("forget", args)))
