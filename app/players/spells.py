"""The spells that players know: a map from slot number to spell."""

from __future__ import annotations

from collections.abc import Mapping

from app.auth.execution import change_route
from app.auth.views import read_route
from app.catalogue.domain import NotInCatalogue
from app.catalogue.store import in_catalogue
from app.core.changes import Change
from app.core.errors import Conflict
from app.core.naming import Lookup
from app.core.operations import BatchRow, Inverse
from app.core.permissions import Permission
from app.core.types import Document, decimal
from app.http.api import Blueprint, Schema
from app.http.context import setting
from app.http.examples import KNOWN_SPELL, SPELL
from app.http.fields import Guid, Integer
from app.players.character import player_change
from app.players.store import players


class SpellKnown(Conflict):
    sentence = "The player already knows the spell {spell}."


class SpellNotKnown(Conflict):
    sentence = "The player does not know the spell {spell}."


class NoSpellSlot(Conflict):
    sentence = "The player has no free spell slot: all {size} are taken."


def known_spells(spells: Mapping[str, str]) -> list[Document]:
    """Return the known spells in slot order, without invalid entries."""
    known = (
        (number, spell)
        for slot, spell in spells.items()
        if (number := decimal(slot)) is not None and isinstance(spell, str)
    )
    return [{"Slot": slot, "SpellId": spell} for slot, spell in sorted(known)]


def teach(player: Document, *, spellid: str, size: int, former: str = "0") -> Change:
    """Put a spell into its former slot, or into the lowest free one."""
    spells = player["Spells"]
    if spellid in spells.values():
        raise SpellKnown(spellid)
    for slot in (former, *map(str, range(size))):
        if slot not in spells:
            return Change({"Spells": {**spells, slot: spellid}}, {"SpellId": spellid})
    raise NoSpellSlot(size)


def forget(player: Document, *, spellid: str) -> Change:
    """Empty the slot of a spell."""
    spells = player["Spells"]
    if spellid not in spells.values():
        raise SpellNotKnown(spellid)
    left = {slot: known for slot, known in spells.items() if known != spellid}
    return Change({"Spells": left}, {"SpellId": spellid})


def undo(player: Document, *, changes: list[Document], size: int) -> Change:
    """Forget taught spells, and teach forgotten ones, in their former slots if those are free."""
    for change in changes:
        if taught := change["After"]:
            player = {**forget(player, spellid=taught).fields}
    for change in changes:
        if forgotten := change["Before"]:
            former = change["Path"].partition(".")[2]
            player = {**teach(player, spellid=forgotten, size=size, former=former).fields}
    return Change({"Spells": player["Spells"]}, None)


class KnownSpellSchema(Schema):
    Slot = Integer(0, example=0)
    SpellId = Guid(example=KNOWN_SPELL)


class SpellArgs(Schema):
    spellid = Guid(required=True, example=SPELL, history_name="SpellId", object_type="spell")


class SpellSchema(Schema):
    SpellId = Guid(example=SPELL)


READS = ("Spells",)


def teach_spell(player: Document, *, spellid: str) -> Change:
    return teach(player, spellid=spellid, size=setting("SPELLS_SIZE"))


def undo_spells(player: Document, *, changes: list[Document]) -> Change:
    return undo(player, changes=changes, size=setting("SPELLS_SIZE"))


UNDO_SPELLS = Inverse(fields=READS, rule=undo_spells)

TEACH = player_change(
    name="teach",
    arguments=SpellArgs(),
    reads=READS,
    rule=teach_spell,
    inverse=UNDO_SPELLS,
    in_catalogue=in_catalogue("spell", "spellid"),
    batch=BatchRow("Teach {SpellId}", "Teach {object} to {whom}", label="Teach a spell"),
    notice="Taught {whom} {SpellId}.",
)
FORGET = player_change(
    name="forget",
    arguments=SpellArgs(),
    reads=READS,
    rule=forget,
    inverse=UNDO_SPELLS,
    batch=BatchRow("Forget {SpellId}", "Let {whom} forget {object}", label="Forget a spell"),
    notice="{whom} has forgotten {SpellId}.",
)


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
    NotInCatalogue("spell", SPELL),
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
