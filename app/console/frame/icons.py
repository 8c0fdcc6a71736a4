"""Chooses the icon of an item from frame/icons.html. Pure."""

from __future__ import annotations

import re

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
_LETTERS = re.compile(r"[a-z]+")


def item_icon(name: str) -> str:
    """Return the icon of the last word in a name that has one."""
    known = [_BY_WORD[word] for word in _LETTERS.findall(name.lower()) if word in _BY_WORD]
    return known[-1] if known else "box"
