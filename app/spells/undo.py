"""The inverse of teaching and forgetting. Pure."""

from __future__ import annotations

from app.changes import Change
from app.spells.domain import NoSpellSlot, SpellKnown, SpellNotKnown
from app.types import Document


def undo(player: Document, *, changes: list[Document], size: int) -> Change:
    """Forget what was taught, and teach what was forgotten, in its former slot if that is free."""
    spells = dict(player["Spells"])
    for change in changes:
        if taught := change["After"]:
            slot = next((slot for slot, known in spells.items() if known == taught), None)
            if slot is None:
                raise SpellNotKnown(taught)
            del spells[slot]
    for change in changes:
        if forgotten := change["Before"]:
            if forgotten in spells.values():
                raise SpellKnown(forgotten)
            spells[_free_slot(spells, change["Path"].partition(".")[2], size)] = forgotten
    return Change({"Spells": spells}, None)


def _free_slot(spells: Document, former: str, size: int) -> str:
    for slot in (former, *map(str, range(size))):
        if slot not in spells:
            return slot
    raise NoSpellSlot(size)
