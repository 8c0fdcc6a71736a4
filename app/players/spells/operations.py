"""Teaching and forgetting spells."""

from __future__ import annotations

from functools import partial

from app.core.operations import BY_CHANGES, BatchRow, Inverse, Operation, Prepared, no_items
from app.core.permissions import Permission
from app.core.types import Document
from app.http.context import current, setting
from app.players.spells.domain import forget, teach, undo
from app.players.spells.schemas import SpellArgs
from app.players.store import Players

players = current(Players)

READS = ("Spells",)


def prepare_teach(args: Document) -> Prepared:
    return Prepared(READS, partial(teach, **args, size=setting("SPELLS_SIZE")))


def prepare_forget(args: Document) -> Prepared:
    return Prepared(READS, partial(forget, **args))


def prepare_undo(changes: list[Document]) -> Prepared:
    return Prepared(READS, partial(undo, changes=changes, size=setting("SPELLS_SIZE")))


UNDO_SPELLS = Inverse(fields=READS, prepare=prepare_undo)

TEACH = Operation(
    name="teach",
    subject="player",
    needs=(Permission.PLAYERS_CHANGE,),
    arguments=SpellArgs(),
    store=players,
    prepare=prepare_teach,
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
    prepare=prepare_forget,
    inverse=UNDO_SPELLS,
    moves=no_items,
    batch=BatchRow("Forget {SpellId}", "Let {whom} forget {object}", label="Forget a spell"),
    sentence=BY_CHANGES,
    notice="{whom} has forgotten {SpellId}.",
)
