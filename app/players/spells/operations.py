"""Teaching and forgetting spells."""

from __future__ import annotations

from app.core.changes import Change
from app.core.operations import BY_CHANGES, BatchRow, Inverse, Operation, no_items
from app.core.permissions import Permission
from app.core.types import Document
from app.http.context import setting
from app.players.spells.domain import forget, teach, undo
from app.players.spells.schemas import SpellArgs
from app.players.store import players

READS = ("Spells",)


def teach_spell(player: Document, *, spellid: str) -> Change:
    return teach(player, spellid=spellid, size=setting("SPELLS_SIZE"))


def undo_spells(player: Document, *, changes: list[Document]) -> Change:
    return undo(player, changes=changes, size=setting("SPELLS_SIZE"))


UNDO_SPELLS = Inverse(fields=READS, rule=undo_spells)

TEACH = Operation(
    name="teach",
    subject="player",
    needs=(Permission.PLAYERS_CHANGE,),
    arguments=SpellArgs(),
    store=players,
    reads=READS,
    rule=teach_spell,
    inverse=UNDO_SPELLS,
    moves=no_items,
    needs_object="spellid",
    batch=BatchRow("Teach {SpellId}", "Teach {object} to {whom}", label="Teach a spell"),
    sentence=BY_CHANGES,
    notice="Taught {whom} {SpellId}.",
)
FORGET = Operation(
    name="forget",
    subject="player",
    needs=(Permission.PLAYERS_CHANGE,),
    arguments=SpellArgs(),
    store=players,
    reads=READS,
    rule=forget,
    inverse=UNDO_SPELLS,
    moves=no_items,
    batch=BatchRow("Forget {SpellId}", "Let {whom} forget {object}", label="Forget a spell"),
    sentence=BY_CHANGES,
    notice="{whom} has forgotten {SpellId}.",
)
