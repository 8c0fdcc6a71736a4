"""Known spells: a map from slot number to spell. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.changes import Change
from app.core.errors import Conflict
from app.core.types import Document, decimal


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


def teach(player: Document, *, spellid: str, size: int) -> Change:
    """Put a spell into the lowest free slot."""
    spells = player["Spells"]
    if spellid in spells.values():
        raise SpellKnown(spellid)
    return Change(
        {"Spells": {**spells, _free_slot(spells, "0", size): spellid}}, {"SpellId": spellid}
    )


def forget(player: Document, *, spellid: str) -> Change:
    """Empty the slot of a spell."""
    spells = player["Spells"]
    if spellid not in spells.values():
        raise SpellNotKnown(spellid)
    left = {slot: known for slot, known in spells.items() if known != spellid}
    return Change({"Spells": left}, {"SpellId": spellid})


def undo(player: Document, *, changes: list[Document], size: int) -> Change:
    """Forget taught spells, and teach forgotten ones, in their former slots if those are free."""
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
