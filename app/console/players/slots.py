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
    buffs = sum(filter(None, map(whole, as_list(slot["StatBuffs"]))))
    return Cell(number, item, name, icon, slot["Quantity"], slot["BagId"], buffs, after)


def as_list(value: Any) -> list[Any]:
    """Return what should be a list; a game may have stored something else."""
    return value if isinstance(value, list) else []


def changes_of(entry: Document | None, container: str) -> dict[int, Any]:
    """Return by slot what an entry would make of a container."""
    found = {}
    for change in (entry or {}).get("Changes", ()):
        root, _, slot = change["Path"].partition(".")
        if root == container and (number := decimal(slot)) is not None:
            found[number] = change["After"]
    return found


class Step(NamedTuple):
    """What a change would do to one slot."""

    place: str
    slot: int
    before: int
    after: int


def preview_lines(entry: Document) -> list[str]:
    """Return what the preview of a change says, a line for each slot."""
    found = steps(entry)
    lines = [str(entry["Warning"])] if "Warning" in entry else []
    lines += [_line(step) for step in found]
    is_kept = all(step.place != "Bank" for step in found)
    return (
        [*lines, "Nothing goes to the bank."] if is_kept and entry["Operation"] == "give" else lines
    )


def _line(step: Step) -> str:
    place = "Bank, slot" if step.place == "Bank" else "Slot"
    before, after = (f"{count:,}" if count else "empty" for count in (step.before, step.after))
    return Markup("{} {}: {} \N{RIGHTWARDS ARROW} <b>{}</b>").format(
        place, step.slot, before, after
    )


def steps(entry: Document) -> list[Step]:
    """Return slot by slot what an entry would change."""
    found = []
    for change in entry["Changes"]:
        root, _, slot = change["Path"].partition(".")
        if root in ("Inventory", "Bank") and (number := decimal(slot)) is not None:
            before, after = (
                quantity_of(value) if value else 0 for value in (change["Before"], change["After"])
            )
            found.append(Step(root, number, before, after))
    return sorted(found, key=lambda step: (step.place != "Inventory", step.slot))
