"""Slots for the grids of the console with the preview of a change, and icons of items. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from app.core.texts import Names, name_of, short_text
from app.core.types import Document, decimal, whole
from app.players.items.domain import quantity_of

# The words in names of items, by icon.
WORDS = {
    "sword": "sword blade sabre scimitar katana rapier",
    "dagger": "dagger knife dirk kris",
    "axe": "axe hatchet pickaxe pick",
    "mace": "mace hammer club flail maul",
    "spear": "spear lance pike halberd trident",
    "bow": "bow crossbow longbow shortbow",
    "staff": "staff wand rod sceptre",
    "shield": "shield buckler",
    "helm": "helm helmet hood hat cap crown mask",
    "armour": "armour armor mail plate cuirass tunic vest chestplate",
    "legs": "greaves leggings trousers pants legs",
    "boots": "boots shoes slippers sandals",
    "gloves": "gloves gauntlets bracers",
    "robe": "robe cloak cape dress mantle",
    "potion": "potion elixir draught tonic brew flask vial antidote milk wine ale",
    "food": "apple pear bread cake pie cheese stew soup broth loaf berry berries food mushroom",
    "meat": "meat goose steak ham",
    "fish": "fish trout salmon carp",
    "egg": "egg eggs",
    "rune": "rune runes glyph",
    "ring": "ring amulet necklace pendant",
    "gem": "gem ruby emerald sapphire diamond topaz opal garnet amber crystal pearl",
    "coin": "coin coins gold silver copper money",
    "bag": "bag backpack pouch sack chest",
    "scroll": "scroll letter map book tome recipe note",
    "key": "key lockpick",
    "wood": "log wood plank branch stick",
    "ore": "ore ingot bar stone rock coal clay salt",
    "herb": "herb sage nightshade mandrake flax flower root leaf seed",
    "cloth": "cloth linen wool silk leather pelt hide fabric",
    "arrow": "arrow arrows bolt bolts",
    "rope": "rope string thread",
    "torch": "torch lantern lamp candle",
    "bone": "bone claw scale fang tooth",
}
_BY_WORD = {word: icon for icon, words in WORDS.items() for word in words.split()}


class Grid(NamedTuple):
    """The slots of an inventory, a bank or a bag."""

    # One for each slot; the item is None in an empty one.
    cells: list[Document]
    filled: int
    size: int

    def within(self, most: int) -> Grid:
        """Return at most this many slots: all of a small container, else only filled ones."""
        grid = self if self.size <= most else self.without_empty()
        return grid._replace(cells=grid.cells[:most])

    def without_empty(self) -> Grid:
        """Return the slots that are filled now or after the change: a bank is mostly empty."""
        return self._replace(cells=[cell for cell in self.cells if cell["item"]])


def grid(slots: list[Document], names: Names, changes: Mapping[int, Document] = {}) -> Grid:
    """Return public slots as a grid, with the changes of a preview by slot."""
    cells = []
    for slot in slots:
        item, after = slot["ItemId"] if slot["Quantity"] else None, None
        if change := changes.get(slot["Slot"]):
            held = change["After"] or {}
            after = quantity_of(held) if held else 0
            # An empty slot shows the item that would be added.
            item = item or held.get("ItemId")
        # A slot shows the beginning of a name; the page of the item shows all of it.
        name = short_text(name_of(item, names)) if item else ""
        # A game may have stored a value that is not a list.
        buffs = slot["StatBuffs"] if isinstance(slot["StatBuffs"], list) else []
        cells.append(
            {
                **slot,
                "item": item,
                "name": name,
                "icon": item_icon(name),
                "buffs": sum(filter(None, map(whole, buffs))),
                # The quantity after a previewed change, if it changes this slot.
                "after": after,
            }
        )
    return Grid(cells, sum(cell["Quantity"] > 0 for cell in cells), len(cells))


def changes_of(entry: Document | None, container: str) -> dict[int, Document]:
    """Return by slot the changes of an entry in one container."""
    found = {}
    for change in entry["Changes"] if entry else ():
        root, _, slot = change["Path"].partition(".")
        if root == container and (number := decimal(slot)) is not None:
            found[number] = change
    return dict(sorted(found.items()))


def preview_lines(entry: Document) -> list[str]:
    """Return the lines of the preview of a change, one per slot."""
    lines = [str(entry["Warning"])] if "Warning" in entry else []
    for container, place in (("Inventory", "Slot"), ("Bank", "Bank, slot")):
        for slot, change in changes_of(entry, container).items():
            sides = (change["Before"], change["After"])
            counts = [f"{quantity_of(held):,}" if held else "empty" for held in sides]
            line = Markup("{} {}: {} \N{RIGHTWARDS ARROW} <b>{}</b>")
            lines.append(line.format(place, slot, *counts))
    if entry["Operation"] == "give" and not changes_of(entry, "Bank"):
        lines.append("Nothing goes into the bank.")
    return lines


def item_icon(name: str) -> str:
    """Return the icon of the last word in a name that has one."""
    known = [_BY_WORD[word] for word in re.findall("[a-z]+", name.lower()) if word in _BY_WORD]
    return known[-1] if known else "box"
