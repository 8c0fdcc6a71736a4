"""Slots as the grids of the console show them, with what a change would make of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from app.console.frame.icons import item_icon
from app.console.history.sentences import Names, name_of, short_text
from app.items.domain import quantity_of
from app.types import Document, decimal, whole


class Cell(NamedTuple):
    """A slot; the item is None in an empty one."""

    number: int
    item: str | None
    name: str
    icon: str
    quantity: int
    bag: str | None
    buffs: int
    # The quantity that a change would leave, where it changes this slot.
    after: int | None


class Grid(NamedTuple):
    """The slots of an inventory, a bank or a bag."""

    cells: list[Cell]
    filled: int
    size: int

    def within(self, most: int) -> Grid:
        """Return so many slots at most: all of a small container, else the filled ones."""
        grid = self if self.size <= most else self.without_empty()
        return grid._replace(cells=grid.cells[:most])

    def without_empty(self) -> Grid:
        """Return the slots that hold something, or would: a bank is large and mostly empty."""
        return self._replace(cells=[cell for cell in self.cells if cell.item])


def item_ids(slots: Iterable[Document]) -> set[str]:
    return {slot["ItemId"] for slot in slots if slot["Quantity"]}


def grid(slots: list[Document], names: Names, changes: Mapping[int, Any] | None = None) -> Grid:
    """Return served slots as a grid; changes hold the content of slots after a change."""
    cells = [_cell(slot, names, changes or {}) for slot in slots]
    return Grid(cells, sum(cell.quantity > 0 for cell in cells), len(cells))


def _cell(slot: Document, names: Names, changes: Mapping[int, Any]) -> Cell:
    number, item = slot["Slot"], slot["ItemId"] if slot["Quantity"] else None
    after = None
    if number in changes:
        held = changes[number]
        after = quantity_of(held) if held else 0
        # An empty slot shows already what would come.
        item = item or (held or {}).get("ItemId")
    # A slot shows the beginning of a name; the page of the item has all of it.
    name = short_text(name_of(item, names)) if item else ""
    icon = item_icon(name) if item else ""
    # A game may have stored something else than a list.
    buffs = slot["StatBuffs"] if isinstance(slot["StatBuffs"], list) else []
    bonus = sum(filter(None, map(whole, buffs)))
    return Cell(number, item, name, icon, slot["Quantity"], slot["BagId"], bonus, after)


class Step(NamedTuple):
    """What a change does to one slot."""

    place: str
    slot: int
    before: Document | None
    after: Document | None


def steps(entry: Document | None) -> list[Step]:
    """Return slot by slot what an entry changes, the inventory first."""
    found = []
    for change in (entry or {}).get("Changes", ()):
        root, _, slot = change["Path"].partition(".")
        if root in ("Inventory", "Bank") and (number := decimal(slot)) is not None:
            found.append(Step(root, number, change["Before"], change["After"]))
    return sorted(found, key=lambda step: (step.place != "Inventory", step.slot))


def changes_of(entry: Document | None, container: str) -> dict[int, Any]:
    """Return by slot what an entry makes of a container."""
    return {step.slot: step.after for step in steps(entry) if step.place == container}


def preview_lines(entry: Document) -> list[str]:
    """Return what the preview of a change says, a line for each slot."""
    found = steps(entry)
    lines = [str(entry["Warning"])] if "Warning" in entry else []
    for step in found:
        place = "Bank, slot" if step.place == "Bank" else "Slot"
        counts = [quantity_of(held) if held else 0 for held in (step.before, step.after)]
        texts = (f"{count:,}" if count else "empty" for count in counts)
        line = Markup("{} {}: {} \N{RIGHTWARDS ARROW} <b>{}</b>")
        lines.append(line.format(place, step.slot, *texts))
    if entry["Operation"] == "give" and all(step.place != "Bank" for step in found):
        lines.append("Nothing goes to the bank.")
    return lines
