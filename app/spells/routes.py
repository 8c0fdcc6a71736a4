"""The spells that players know."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response, current_app

from app.auth import guard
from app.auth.scopes import Scope
from app.http.api import Blueprint
from app.http.context import current
from app.http.intents import answer, keyed_intent
from app.http.json import json_response
from app.naming import Lookup
from app.objects.domain import NotInCatalogue
from app.objects.store import KnownObjects
from app.openapi.examples import SPELL
from app.players.store import Players
from app.spells.domain import NoSpellSlot, SpellKnown, SpellNotKnown, forget, served, teach
from app.spells.schemas import KnownSpellSchema, SpellArgs, SpellSchema

blp = Blueprint("Spells", __name__, url_prefix="/api/v1/players", group="Players")

known_objects = current(KnownObjects)
players = current(Players)


@blp.route("/<player:key>/spells")
@guard.required(Scope.PLAYERS_READ)
@blp.documents_response(200, KnownSpellSchema(many=True))
def list_spells(key: Lookup) -> Response:
    """List the spells that a player knows

    In slot order, without empty slots.
    """
    return json_response(served(players.read(key, "Spells")["Spells"]))


@blp.route("/<player:key>/spells/teach", methods=["POST"])
@guard.required(Scope.PLAYERS_CHANGE)
@blp.arguments(SpellArgs())
@blp.documents_response(200, SpellSchema)
@blp.refuses(SpellKnown(SPELL), NoSpellSlot(35), NotInCatalogue("spell", SPELL))
@blp.warns
@blp.idempotent
def teach_spell(args: dict[str, Any], key: Lookup) -> Response:
    """Teach a player a spell

    It takes the lowest free slot. Where the catalogue holds spells, and not this one, the answer
    has a `Warning`, or it is refused (`QM_STRICT_CATALOGUE`).
    """
    rule = partial(teach, **args, size=current_app.config["SPELLS_SIZE"])
    change = known_objects.checked(args, rule, keyed_intent("teach", args))
    return answer(players.change(key, ("Spells",), *change))


@blp.route("/<player:key>/spells/forget", methods=["POST"])
@guard.required(Scope.PLAYERS_CHANGE)
@blp.arguments(SpellArgs())
@blp.documents_response(200, SpellSchema)
@blp.refuses(SpellNotKnown(SPELL))
@blp.idempotent
def forget_spell(args: dict[str, Any], key: Lookup) -> Response:
    """Make a player forget a spell

    Its slot is free again; the other spells stay in theirs.
    """
    rule = partial(forget, **args)
    return answer(players.change(key, ("Spells",), rule, keyed_intent("forget", args)))
