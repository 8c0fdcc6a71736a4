"""The catalogue of the demo world: items, spells, maps and so on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from app.catalogue.domain import TIME, object_document
from app.core.types import Document
from app.maintenance.demo.names import (
    BAG,
    CLASSES,
    FLAGS,
    GEAR,
    GUILD_VARIABLES,
    PLACES,
    SPELLS,
    STACKS,
    VARIABLE_IDS,
    VARIABLES,
    guid,
)

# The types of items, as the game numbers them.
EQUIPMENT, CONSUMABLE, CURRENCY, MATERIAL, BAGS = 1, 2, 3, 5, 6
METALS = "Bronze Iron Steel Silver Mithril Obsidian Adamant Dragonbone".split()
ARMS = ("Sword, Dagger, War Axe, Mace, Spear, Helm, Chain Mail, Greaves, Gauntlets, Shield").split(
    ", "
)
WOODS = "Oak Ash Yew Elder Ebony Moonwood".split()
WOODEN = "Bow Staff Wand Crossbow".split()
CLOTHS = "Linen Wool Silk Shadow Star".split()
CLOTHES = "Robe Hood Cloak Gloves Slippers".split()
STRENGTHS = "Minor Lesser Greater Grand Perfect".split()
BREWS = (
    "Healing Draught, Mana Draught, Elixir of Strength, Elixir of Haste, Elixir of Insight, "
    "Tonic of Stone"
).split(", ")
GEMS = "Amber Garnet Opal Topaz Emerald Sapphire Ruby Diamond".split()
CUTS = "Rough Cut Flawless".split()
FOODS = (
    "Apple, Honey Cake, Smoked Trout, Venison Stew, Cheese Wheel, Dried Meat, Berry Pie, "
    "Mushroom Soup, Goat Milk, Spiced Wine, Rye Loaf, Roast Goose, Pear, Turnip Broth, Barley Ale"
).split(", ")
HARVEST = (
    "Copper Ore, Tin Ore, Silver Ore, Mithril Ore, Ash Log, Yew Log, Elder Log, Nightshade, "
    "Sage, Mandrake, Wolf Pelt, Bear Claw, Spider Silk, Dragon Scale, Salt, Clay, Flax, Beeswax"
).split(", ")
SCHOOLS = "Ember Tide Gale Stone Shadow Sun".split()
FORMS = "Bolt Ward Nova Mark Step Song Veil".split()
DUNGEONS = (
    "Crypt of the Lost King, Sunken Library, Ember Mines, Frozen Pass, Whispering Caves, "
    "Broken Tower, Moonlit Grove, Old Sewers, Drowned Temple, Wyrm's Rest"
).split(", ")
BEASTS = "Wolf Boar Spider Bandit Skeleton Troll Wraith Drake Goblin Golem".split()
RANKS = "Young Grey Elder Cursed".split()
PEOPLE = (
    "Innkeeper Blacksmith Alchemist Guard Captain Fisher Farmer Librarian Healer Ferryman"
).split()
# Objects that have nothing but a name, by type.
NAMED = {
    "quest": "A Letter for the Captain, Rats in the Cellar, The Missing Apprentice, "
    "Ashes of Ravenrock, Bread for Millbrook, The Silver Key, Herbs for the Healer, "
    "A Debt to the Sea, Bones of Kings, The Last Lantern, Trial of the Warden, Honey and Smoke, "
    "What the River Took, The Broken Oath",
    "shop": "Smithy, Bakery, Apothecary, Tailor, Jeweller, Stable, Fletcher, Bookshop",
    "resource": "Oak Tree, Yew Tree, Iron Vein, Copper Vein, Herb Patch, Fishing Spot, Clay Pit",
    "animation": "Slash, Pierce, Burn, Freeze, Heal, Poison, Spark, Smoke, Ascent, Death",
    "projectile": "Arrow, Bolt, Fireball, Throwing Knife, Ice Shard",
    "crafttables": "Anvil, Forge, Loom, Cauldron, Workbench, Oven",
    "crafts": ", ".join(f"{metal} Sword" for metal in METALS),
    "event": "Town Crier, Locked Chest, Ferry, Portal, Lever, Campfire, Shrine, Notice Board",
    "tileset": "Forest, Town, Dungeon, Snow, Coast, Interior",
}
# The global variables, by folder, with their values.
GLOBALS: dict[str, dict[str, int | bool]] = {
    "Rates": {"Experience Rate": 100, "Gold Rate": 100, "Drop Rate": 100, "Craft Rate": 100},
    "Events": {"Harvest Festival": False, "Winter Market": False, "Double Weekend": True},
    "World": {"Day": 412, "Bosses Defeated": 37, "Bridge Repaired": True, "Siege Stage": 2},
    "Server": {"Maintenance": False, "Tutorial Version": 3},
}
MILLISECONDS = 1_704_067_200_000


def objects() -> Iterator[Document]:
    for record in (*_items(), *_spells(), *_places(), *_variables(), *_others()):
        yield object_document(record)


def _object(kind: str, name: str, **fields: object) -> Document:
    return {"Id": guid(kind, name), "Type": kind, "Name": name, **fields}


def _items() -> Iterator[Document]:
    yield _item(BAG, BAGS, 250, "Holds a few things more.", StackLimit=1)
    made = [f"{metal} {arm}" for metal, arm in product(METALS, ARMS)]
    made += [f"{wood} {thing}" for wood, thing in product(WOODS, WOODEN)]
    made += [f"{cloth} {thing}" for cloth, thing in product(CLOTHS, CLOTHES)]
    for rank, name in enumerate(dict.fromkeys((*GEAR, *made))):
        about = "Worn by many before, and still good."
        yield _item(name, EQUIPMENT, 40 + 12 * rank, about, StackLimit=1)
    for rank, (strength, brew) in enumerate(product(STRENGTHS, BREWS)):
        about = f"A {strength.lower()} one; shake it before use."
        yield _item(f"{strength} {brew}", CONSUMABLE, 10 + 8 * rank, about, StackLimit=100)
    for rank, (cut, gem) in enumerate(product(CUTS, GEMS)):
        about = f"{cut}, and worth something to a jeweller."
        yield _item(f"{cut} {gem}", MATERIAL, 25 + 30 * rank, about)
    for price, name in enumerate(FOODS, 3):
        yield _item(name, CONSUMABLE, price, "Eaten by the fire, it restores some health.")
    for price, name in enumerate(HARVEST, 2):
        yield _item(name, MATERIAL, price, "Gathered in the wild.")
    for price, name in enumerate(STACKS, 1):
        kind = CURRENCY if name == "Coin" else CONSUMABLE if "Potion" in name else MATERIAL
        yield _item(name, kind, price, "Found in every pack.")


def _item(name: str, kind: int, price: int, about: str, **more: object) -> Document:
    icon = f"{_text_id(name)}.png"
    return _object("item", name, Description=about, Icon=icon, ItemType=kind, Price=price, **more)


def _spells() -> Iterator[Document]:
    learned = [f"{school} {form}" for school, form in product(SCHOOLS, FORMS)]
    for rank, name in enumerate((*SPELLS, *learned)):
        mana = 5 + rank % 12 * 3
        about = f"Costs {mana} mana."
        yield _object("spell", name, Description=about, ManaCost=mana, Level=1 + rank % 40)


def _places() -> Iterator[Document]:
    for name in CLASSES:
        yield _object("class", name, Description=f"Begins as a {name.lower()}.")
    for number, name in enumerate((*PLACES, *DUNGEONS)):
        yield _object("map", name, Width=32, Height=26, IsIndoors=name in DUNGEONS, Zone=number % 3)


def _variables() -> Iterator[Document]:
    for name in VARIABLES:
        kind = 1 if name in FLAGS else 2
        variable = _object("playervariable", name, TextId=_text_id(name), DataType=kind)
        yield {**variable, "Id": VARIABLE_IDS[name]}
    for name in GUILD_VARIABLES:
        yield _object("guildvariable", name, TextId=_text_id(name), DataType=2)
    for folder, values in GLOBALS.items():
        created: Document = {"Folder": folder, "TimeCreated": MILLISECONDS}
        for name, value in values.items():
            yield _object("servervariable", name, Value=value, TextId=_text_id(name), **created)


def _text_id(name: str) -> str:
    return name.lower().replace(" ", "_")


def _others() -> Iterator[Document]:
    for level, (rank, beast) in enumerate(product(RANKS, BEASTS), 1):
        yield _object("npc", f"{rank} {beast}", Level=2 * level, Experience=15 * level)
    for name in PEOPLE:
        yield _object("npc", name, Level=30, Experience=0)
    for kind, names in NAMED.items():
        for name in names.split(", "):
            yield _object(kind, name)
    yield _object(TIME, "Time", Hour=14, Minute=5, Rate=24, IsSynced=False)
