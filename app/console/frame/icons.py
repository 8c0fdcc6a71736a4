"""The icons of the console, drawn on a grid of 24 by 24, and which one an item gets. Pure."""

from __future__ import annotations

import re

# Paths of strokes; the stylesheet gives their colour and width.
ICONS = {
    "logo": "M3 8.5h18v10a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2zM3 13h18M12 11.2v3.6M7.5 8.5V6A2.5 "
    "2.5 0 0 1 10 3.5h4A2.5 2.5 0 0 1 16.5 6v2.5",
    "search": "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.3 15.3 20 20",
    "players": "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4.5 20c.8-3.6 3.8-5.5 7.5-5.5s6.7 1.9 7.5 5.5",
    "users": "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM2.5 19c.6-3 3-4.7 6.5-4.7s5.9 "
    "1.7 6.5 4.7M15.5 5.3a3.5 3.5 0 0 1 0 6.5M18 14.8c2 .7 3.2 2.2 3.5 4.2",
    "history": "M4 12a8 8 0 1 0 2.5-5.8M4 4.5v4h4M12 7.5V12l3 2",
    "catalogue": "M5 4.5h5.5A1.5 1.5 0 0 1 12 6v14a2 2 0 0 0-2-1.5H5zM19 4.5h-5.5A1.5 "
    "1.5 0 0 0 12 6v14a2 2 0 0 1 2-1.5h5z",
    "game": "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM4 12h16M12 4c2.4 2.2 3.6 4.9 3.6 8s-1.2 5.8-3.6 "
    "8c-2.4-2.2-3.6-4.9-3.6-8S9.6 6.2 12 4z",
    "chat": "M4 5.5h16v11h-9L6.5 20v-3.5H4zM8 9.5h8M8 12.5h5",
    "batches": "M4 5.5h3v3H4zM4 10.5h3v3H4zM4 15.5h3v3H4zM10.5 7H20M10.5 12H20M10.5 17H20",
    "health": "M3 12.5h4l2-5.5 4 11 2.5-5.5H21",
    "home": "M4 11 12 4l8 7M6 9.5V20h12V9.5M10 20v-5h4v5",
    "out": "M14 4.5h4A1.5 1.5 0 0 1 19.5 6v12a1.5 1.5 0 0 1-1.5 1.5h-4M4 12h10M10.5 "
    "8.5 14 12l-3.5 3.5",
    "note": "M6 3.5h12v17l-3-2-3 2-3-2-3 2zM9 8h6M9 12h6",
    "box": "M12 3.5 20 7.5v9L12 20.5 4 16.5v-9zM4 7.5l8 4 8-4M12 11.5v9",
    "sword": "M20 4 9.5 14.5M20 4l-.8 5.2L12 16M20 4l-5.2.8L8 12M6.5 12.5l5 5M8.8 15.2 4.5 "
    "19.5M4 17.5l2.5 2.5",
    "dagger": "M18.5 5.5 10.5 13.5M18.5 5.5l-1 4-5 5M18.5 5.5l-4 1-5 5M8 11.5l4.5 4.5M10 14l-5 5",
    "axe": "M6 20 16 6M12.5 4.5c3-1.5 6.5-.5 8 2.5-1.5 2.5-4.5 3.5-7.5 2.5z",
    "mace": "M5 20l8-9M15 4.5a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM15 2.5v2M15 12.5v2M9 8.5h2M19 8.5h2",
    "spear": "M4.5 19.5 16 8M14 4.5l5.5-.5-.5 5.5-3 1-3-3z",
    "bow": "M6 4c8 1 13 6 14 14M6 4l14 14M4 20l5-5M9 15v3M9 15H6",
    "staff": "M6 20.5 15.5 9M17 3.5a3.5 3.5 0 1 1-2.5 6",
    "shield": "M12 3.5 19.5 6v5.5c0 4.5-3 7.5-7.5 9-4.5-1.5-7.5-4.5-7.5-9V6zM12 8v8",
    "helm": "M5 19v-6a7 7 0 0 1 14 0v6h-4v-4.5H9V19zM12 6v5",
    "armour": "M8.5 4 4.5 6.5 6 11l1.5-.5V20h9v-9.5L18 11l1.5-4.5-4-2.5c-1 2-6 2-7 0z",
    "legs": "M7 4h10l1 16h-4l-2-10-2 10H6z",
    "boots": "M8 4h5v9l6 3v4H6v-7z",
    "gloves": "M8 20v-5l-2.5-4 1.8-1 2.2 2.5V5.5h2v5V4.5h2v6V5.5h2v6V8h2v7l-2 5z",
    "robe": "M9 4h6l1.5 4L20 10l-1.5 4-2-1 1.5 7H6l1.5-7-2 1L4 10l3.5-2z",
    "potion": "M10 3.5h4M10.5 3.5V9l-4.3 7.6A2.8 2.8 0 0 0 8.6 20.5h6.8a2.8 2.8 0 0 0 "
    "2.4-3.9L13.5 9V3.5M7.8 14.5h8.4",
    "food": "M12 8c-4-2-7.5.5-7.5 5 0 4 2.5 7.5 5 7.5 1 0 1.5-.5 2.5-.5s1.5.5 2.5.5c2.5 0 "
    "5-3.5 5-7.5 0-4.5-3.5-7-7.5-5zM12 8c0-2.5 1-4 3-4.5",
    "meat": "M13 5c4 0 7 2.5 7 6s-3 6-6.5 6c-2 0-3 .5-4 1.5l-2 2-3-3 2-2c1-1 1.5-2 1.5-4C8 8 "
    "9.5 5 13 5zM14.5 9.5a2 2 0 1 0 0 3",
    "fish": "M4 12c3-5 10-6.5 14-1.5l3-2.5v8l-3-2.5c-4 5-11 3.5-14-1.5zM8.5 11h.01",
    "egg": "M12 3.5c3.5 0 6.5 5.5 6.5 10a6.5 6.5 0 0 1-13 0c0-4.5 3-10 6.5-10z",
    "rune": "M7 4.5h10l2 5-2 10H7l-2-10zM12 8v8M12 8l-3 3M12 11l3-3M9 16h6",
    "ring": "M12 9.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM9 6.5 10.5 4h3L15 6.5l-3 3z",
    "gem": "M7 5h10l4 5-9 10L3 10zM3 10h18M9.5 10 12 20l2.5-10L12 5z",
    "coin": "M12 4.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM12 8v8M9.5 9.5h4a1.3 1.3 0 0 1 0 "
    "2.5h-3a1.3 1.3 0 0 0 0 2.5h4",
    "bag": "M8.5 8.5V7a3.5 3.5 0 0 1 7 0v1.5M5.5 8.5h13l1.5 12H4zM9 12.5h6",
    "scroll": "M7 4h10a2 2 0 0 1 2 2v2h-3M16 8v10a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2v-1h8v1a2 2 0 0 0 "
    "2 2M7 4a2 2 0 0 0-2 2v11M8.5 9h4M8.5 12.5h4",
    "key": "M8 8.5a4 4 0 1 0 3.5 6L20 14.5v3M16.5 14.5v2.5M7.5 12h.01",
    "wood": "M5 14.5a3 3 0 1 0 0 5 3 3 0 0 0 0-5zM5 14.5l10-8.5a3 3 0 0 1 4 4.5l-10 8.5M13 9l4 4",
    "ore": "M5 18 8 9l5-3.5L18 9l2 7-4.5 4h-7zM8 9l4 4 6-4M12 13l.5 7",
    "herb": "M12 20.5V11M12 11C8 11 5.5 8.5 5.5 4.5 9.5 4.5 12 7 12 11zM12 14c0-3.5 2-6 "
    "6.5-6.5.0 4-2.5 6.5-6.5 6.5z",
    "cloth": "M4 7c3-2 5 2 8 0s5-2 8 0v11c-3-2-5 2-8 0s-5-2-8 0zM4 12c3-2 5 2 8 0s5-2 8 0",
    "arrow": "M5 19 17 7M13.5 5.5 19.5 4.5l-1 6zM5 19l-1.5-3 3-.5M5 19l3 1.5.5-3",
    "rope": "M8 19.5c-3-2-3-5 0-6.5 4-2 9 .5 9-4.5 0-2.5-2-4-4.5-4S8 6 8 8.5c0 5 9 3 9 8 0 "
    "2-1.5 3.5-3.5 3.5",
    "torch": "M10 11h4l-1 9.5h-2zM12 9.5c-2.5 0-3.5-1.5-3-3.5.5-1.5 2-2 2-3.5 2 1 4 3 4 5 0 "
    "1.2-1 2-3 2z",
    "spell": "M12 3.5l1.8 5.7 5.7 1.8-5.7 1.8L12 18.5l-1.8-5.7L4.5 11l5.7-1.8zM18.5 "
    "16.5v4M16.5 18.5h4",
    "map": "M4 6.5 9.5 4.5l5 2 5.5-2v13l-5.5 2-5-2L4 19.5zM9.5 4.5v13M14.5 6.5v13",
    "quest": "M12 4.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM12 8v5M12 15.8h.01",
    "bone": "M7 14a2.5 2.5 0 1 0 2.5 3.5l5-5.5A2.5 2.5 0 1 0 18 9a2.5 2.5 0 1 0-3.5-3.5L9 11.5",
    "copy": "M9 9h10v11H9zM5 15V4h10",
    "sun": "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2",
    "close": "M6 6l12 12M18 6 6 18",
}
# The words of names that an icon stands for; of several words in a name the last one counts.
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
    """Return the icon of an item, by the last word of its name that one is known for."""
    known = [_BY_WORD[word] for word in _LETTERS.findall(name.lower()) if word in _BY_WORD]
    return known[-1] if known else "box"
