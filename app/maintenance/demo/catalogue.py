"""The names in the demo world, and its catalogue: items, spells, maps and so on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from app.catalogue.domain import TIME
from app.core.naming import named_document
from app.core.types import Document

FIRST = (
    "Al Bar Cor Dag El Fen Gor Hal Is Jor Kel Lor Mir Nor Or Per Quin Ro Sel Tor Ul Ver Wil Yor "
    "Zan Ash Bryn Cael Dra Ebr Fal Gwen Hild Ing Kae Lys Mor Nim Sig Thal"
).split()
MIDDLE = "a e i o u an ar en er il in ir ol on or un ae ei ia ue".split()
LAST = (
    "dric dor wyn mir dan ra lia neth gar thas bert rik na ris win la ton mund dis vel "
    "rian sha ven lor kas mar then dra nor lin"
).split()
PLACES = (
    "Ashford Briarwood Coldwater Dawnmere Eastvale Frostholm Greywick Highmoor Ironhill Kingsport "
    "Lakeside Millbrook Northgate Oakhaven Pinecrest Ravenrock Silverlake Thornfield Westreach "
    "Yarrow Stonebridge Redcliff Goldcrest Mistvale Farhaven Deepwell Brightwater Hollowmere "
    "Summerfield Elmstead"
).split()
CLASSES = ("Warrior", "Mage", "Ranger", "Cleric", "Rogue", "Paladin", "Druid", "Bard")
STACKS = (
    "Health Potion, Mana Potion, Bread, Iron Ore, Gold Ore, Oak Log, Herb, Feather, Arrow, Rune, "
    "Fish, Leather, Gem, Coin, Torch, Antidote, Cloth, Coal, Bone, Egg"
).split(", ")
GEAR = (
    "Iron Sword, Oak Bow, Ash Staff, Steel Helm, Chain Mail, Leather Boots, Silver Ring, Amulet, "
    "Round Shield, Dagger, War Axe, Silk Robe"
).split(", ")
SPELLS = (
    "Fireball, Heal, Frost Bolt, Lightning, Shield, Haste, Poison, Revive, Teleport, Bless, Curse, "
    "Light, Barrier, Drain, Summon, Quake"
).split(", ")
VARIABLES = (
    "Tutorial Done, Quest Step, Reputation, Boss Defeated, House Owned, Daily Streak, Title, Guild"
).split(", ")
GUILD_VARIABLES = ("Fame", "Hall Level", "Sieges Won")

GIVEN_NAMES = len(FIRST) * len(MIDDLE) * len(LAST)
# Coprime to GIVEN_NAMES, so that its multiples visit every given name in a scattered order.
STRIDE = 9973


def guid(kind: str, name: object) -> str:
    """Return the same id for the same name in every world."""
    digits = hashlib.sha256(f"{kind} {name}".encode()).hexdigest()
    # Version 4 and its variant, five times as fast as with uuid.UUID.
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


BAG = "Bag"
ITEM_IDS = {name: guid("item", name) for name in (*STACKS, *GEAR, BAG)}
SPELL_IDS = [guid("spell", name) for name in SPELLS]
CLASS_IDS = {name: guid("class", name) for name in CLASSES}
MAP_IDS = {name: guid("map", name) for name in PLACES}
VARIABLE_IDS = {name: guid("variable", name) for name in VARIABLES}
FLAGS = {"Tutorial Done", "Boss Defeated", "House Owned"}


def given_name(index: int) -> str:
    index = index * STRIDE % GIVEN_NAMES
    index, first = divmod(index, len(FIRST))
    last, middle = divmod(index, len(MIDDLE))
    return FIRST[first] + MIDDLE[middle] + LAST[last]


def player_name(index: int) -> str:
    """Return a name unique to the index: given names first, then with a place, then a number."""
    generation, place = divmod(index // GIVEN_NAMES, len(PLACES) + 1)
    name = given_name(index)
    name += f" of {PLACES[place - 1]}" if place else ""
    return f"{name} {generation + 1}" if generation else name


def user_name(index: int) -> str:
    generation = index // GIVEN_NAMES
    name = given_name(index).lower()
    return f"{name}{generation}" if generation else name


# The types of items, as the game numbers them.
EQUIPMENT, CONSUMABLE, CURRENCY, BAGS = 1, 2, 3, 6
# The type of some items, the price of the first, and their names.
ITEMS = (
    (BAGS, 250, [BAG]),
    (EQUIPMENT, 40, GEAR),
    (CURRENCY, 1, ["Coin"]),
    (CONSUMABLE, 8, STACKS),
)
# Objects that have little but a name, by type.
NAMED = {
    "spell": SPELLS,
    "class": CLASSES,
    "map": PLACES,
    "npc": "Innkeeper Blacksmith Alchemist Guard Captain Fisher Wolf Bandit Troll Golem".split(),
    "quest": ["A Letter for the Captain", "Rats in the Cellar", "The Missing Apprentice"],
    "shop": "Smithy Bakery Apothecary Tailor Jeweller Stable Fletcher Bookshop".split(),
    "guildvariable": GUILD_VARIABLES,
}
LEVELLED = ("spell", "npc", "quest")
# The global variables, by folder, with their values.
GLOBALS: dict[str, dict[str, int | bool]] = {
    "Rates": {"Experience Rate": 100, "Gold Rate": 100, "Drop Rate": 100, "Craft Rate": 100},
    "Events": {"Harvest Festival": False, "Winter Market": False, "Double Weekend": True},
    "World": {"Day": 412, "Bosses Defeated": 37, "Bridge Repaired": True, "Siege Stage": 2},
}
MILLISECONDS = 1_704_067_200_000


def objects() -> list[Document]:
    """Return all objects; the first of a type and name counts."""
    found: dict[str, Document] = {}
    for record in (*_items(), *_named_objects(), *_variables()):
        found.setdefault(record["Id"], named_document(record))
    return list(found.values())


def _object(kind: str, name: str, **fields: object) -> Document:
    return {"Id": guid(kind, name), "Type": kind, "Name": name, **fields}


def _items() -> Iterator[Document]:
    for kind, price, names in ITEMS:
        limit = {"StackLimit": 1} if kind in (EQUIPMENT, BAGS) else {}
        for rank, name in enumerate(names, 1):
            icon = {"Icon": f"{_text_id(name)}.png", "Description": "Worn, and still good."}
            yield _object("item", name, **icon, ItemType=kind, Price=price * rank, **limit)


def _named_objects() -> Iterator[Document]:
    for kind, names in NAMED.items():
        for rank, name in enumerate(names, 1):
            level = {"Level": rank} if kind in LEVELLED else {}
            yield _object(kind, name, TextId=_text_id(name), **level)
    yield _object(TIME, "Time", Hour=14, Minute=5, Rate=24, IsSynced=False)


def _variables() -> Iterator[Document]:
    for name in VARIABLES:
        kind = 1 if name in FLAGS else 2
        variable = _object("playervariable", name, TextId=_text_id(name), DataType=kind)
        yield {**variable, "Id": VARIABLE_IDS[name]}
    for folder, values in GLOBALS.items():
        created: Document = {"Folder": folder, "TimeCreated": MILLISECONDS}
        for name, value in values.items():
            yield _object("servervariable", name, Value=value, TextId=_text_id(name), **created)


def _text_id(name: str) -> str:
    return name.lower().replace(" ", "_")
