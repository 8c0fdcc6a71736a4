"""The names in the demo world, and their ids."""

from __future__ import annotations

import hashlib

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
