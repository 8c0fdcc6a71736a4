"""Generates the demo world, the same for equal arguments, and stores it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from app.core.changes import Intent, Origin
from app.core.naming import Lookup, name_key, named_document
from app.core.permissions import Role, with_role
from app.core.progress import progress
from app.core.types import Document
from app.database import COLLECTIONS
from app.maintenance.demo.catalogue import (
    BAG,
    CLASS_IDS,
    CLASSES,
    FLAGS,
    GEAR,
    GUILD_VARIABLES,
    ITEM_IDS,
    MAP_IDS,
    PLACES,
    SPELL_IDS,
    STACKS,
    VARIABLE_IDS,
    VARIABLES,
    guid,
    objects,
    player_name,
    user_name,
)
from app.players import domain as players
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.collections import init_database, init_for_bulk_load
from app.users import domain as users
from app.users.domain import change_power
from app.users.operations import REGISTER
from app.users.passwords import Passwords
from app.users.staff.operations import GRANT_ROLE
from app.users.store import Users

DAY = 24 * 3600
EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)


GUILD_NAMES = ("The Lanterns", "Iron Oath", "Wayfarers")
GUILD_SIZE = 20


class World:
    """Users, their players, and the players' bags."""

    # What a client sends for the password demo, which every user of this world has.
    PASSWORD = hashlib.sha256(b"demo").hexdigest()

    def __init__(self, user_count: int, now: datetime, password_hash: str) -> None:
        self._user_count = user_count
        self._now = now
        self._password_hash = password_hash
        self._defaults = players.defaults(EPOCH)
        # What players have, to pick from, so that hundreds of thousands are made in seconds. There
        # are enough combinations that no two players look alike.
        rng = random.Random("belongings")  # nosec B311 # noqa: S311 (demo data, no secret)
        self._inventories = [_slots(rng, 35, rng.randint(3, 14)) for _ in range(499)]
        self._banks = [_slots(rng, 100, rng.randrange(12)) for _ in range(503)]
        # By quarters of the levels: the higher a player, the more spells.
        self._spells = [[_spells(rng, 2 + 2 * tier) for _ in range(101)] for tier in range(5)]
        self._variables = [_variables(rng) for _ in range(211)]

    def users(self) -> Iterator[Document]:
        for index in range(self._user_count):
            name = user_name(index)
            now = EPOCH + timedelta(seconds=index * 977 % (600 * DAY))
            user = users.new_account(
                guid("user", index), name, f"{name}@example.com", self._password_hash, now
            )
            if index % 40 == 7:
                user |= {"IsMuted": True, "MuteReason": "Spamming in the market."}
            yield user

    def players(self, count: int) -> Iterator[Document]:
        return map(self._player, range(count))

    def bags(self, count: int) -> Iterator[Document]:
        for index in filter(carries_bag, range(count)):
            rng = random.Random(f"bag {index}")  # nosec B311 # noqa: S311 (demo data, no secret)
            size = rng.choice((8, 12, 16))
            slots = _slots(rng, size, rng.randint(0, size))
            bag = {"_id": guid("bag", index), "SlotCount": size, "Slots": slots}
            yield {**bag, "Version": 0}

    def guilds(self, count: int) -> Iterator[Document]:
        """Yield guilds of twenty players each; the first member is the owner."""
        for index, name in enumerate(GUILD_NAMES):
            members = range(index * GUILD_SIZE, min(count, (index + 1) * GUILD_SIZE))
            yield {
                "_id": guid("guild", index),
                "Name": name,
                "NameKey": name_key(name),
                "FoundingDate": EPOCH + timedelta(days=100 + index),
                "Members": [
                    {"PlayerId": guid("player", member), "Rank": int(member > members[0])}
                    for member in members
                ],
                "Variables": {guid("guildvariable", name): 3 + index for name in GUILD_VARIABLES},
                "Bank": self._banks[index],
            }

    def _player(self, index: int) -> Document:
        rng = random.Random(index)  # nosec B311 # noqa: S311 (demo data, no secret)
        level = min(100, 1 + int(rng.expovariate(1 / 18)))
        created = EPOCH + timedelta(seconds=_below(rng, 600 * DAY))
        return named_document(
            {
                **self._defaults,
                "CreationDate": created,
                "Id": guid("player", index),
                "Name": player_name(index),
                "UserId": guid("user", _below(rng, self._user_count)),
                **_character(rng, level),
                **self._presence(rng, index, created),
                "PlayTimeSeconds": _below(rng, level * 7200),
                "Inventory": _with_bag(_pick(rng, self._inventories), index),
                "Bank": _pick(rng, self._banks),
                "Spells": _pick(rng, self._spells[level // 25]),
                "Variables": _pick(rng, self._variables),
            }
        )

    def _presence(self, rng: random.Random, index: int, created: datetime) -> Document:
        is_online = index % 25 == 4
        left = created + timedelta(seconds=_below(rng, 60 * DAY))
        seen = self._now if is_online else left
        place = _pick(rng, PLACES)
        return {
            "Online": is_online,
            "InBank": is_online and rng.random() < 0.1,
            "LastOnline": seen,
            "LastSeen": seen,
            "MapId": MAP_IDS[place],
            "MapName": place,
            "X": _below(rng, 32),
            "Y": _below(rng, 26),
            "Dir": _below(rng, 4),
        }


def _character(rng: random.Random, level: int) -> Document:
    class_name = _pick(rng, CLASSES)
    health, mana = 80 + 12 * level, 30 + 6 * level
    return {
        "ClassId": CLASS_IDS[class_name],
        "ClassName": class_name,
        "Gender": _below(rng, 2),
        "Level": level,
        "Exp": _below(rng, level * 100),
        "ExperienceToNextLevel": level * 100,
        "StatPoints": _below(rng, 6),
        "MaxVitals": [health, mana],
        "Vitals": [1 + _below(rng, health), _below(rng, mana)],
        "BaseStats": [5 + level + _below(rng, 16) for _ in range(5)],
        "StatPointAllocations": [_below(rng, level + 1) for _ in range(5)],
        "Sprite": f"{class_name.lower()}_{_below(rng, 4)}.png",
        "Face": f"{class_name.lower()}.png",
    }


def carries_bag(index: int) -> bool:
    return index % 10 == 3


def _with_bag(slots: Document, index: int) -> Document:
    if not carries_bag(index):
        return slots
    free = next(str(slot) for slot in range(35) if str(slot) not in slots)
    bag = {"ItemId": ITEM_IDS[BAG], "Quantity": 1, "BagId": guid("bag", index)}
    return {**slots, free: bag}


def _below(rng: random.Random, end: int) -> int:
    """Return a number below the exclusive bound; faster than randrange, and uniform enough here."""
    return int(rng.random() * end)


def _pick(rng: random.Random, choices: Sequence[Any]) -> Any:
    return choices[int(rng.random() * len(choices))]


def _slots(rng: random.Random, size: int, count: int) -> Document:
    return {str(slot): _slot(rng) for slot in sorted(rng.sample(range(size), count))}


def _slot(rng: random.Random) -> Document:
    if rng.random() < 0.7:
        return {"ItemId": ITEM_IDS[rng.choice(STACKS)], "Quantity": rng.randint(1, 250)}
    buffs = [rng.randrange(10) if rng.random() < 0.4 else 0 for _ in range(5)]
    slot: Document = {"ItemId": ITEM_IDS[rng.choice(GEAR)], "Quantity": 1}
    return {**slot, "StatBuffs": buffs} if any(buffs) else slot


def _spells(rng: random.Random, most: int) -> Document:
    known = rng.sample(SPELL_IDS, rng.randint(0, most))
    return {str(slot): spell for slot, spell in enumerate(known)}


def _variables(rng: random.Random) -> Document:
    chosen = rng.sample(VARIABLES, rng.randrange(5))
    return {
        VARIABLE_IDS[name]: rng.random() < 0.5 if name in FLAGS else rng.randrange(500)
        for name in chosen
    }


# Power alone does not ask for approval. The role has no limits.
DEMO_NAME, DEMO_STAFF_ROLE = "demo", "economy"
DEMO_PLAYERS, DEMO_USERS = 500, 100


def seed_world(storage: Storage, passwords: Passwords, players: int, users: int) -> None:
    world = World(users, datetime.now(timezone.utc), passwords.hash(World.PASSWORD))
    catalogue = objects()
    init_for_bulk_load(storage.db, COLLECTIONS)
    for kind, documents, length in (
        ("users", world.users(), users),
        ("players", world.players(players), players),
        ("bags", world.bags(players), players // 10),
        ("objects", catalogue, len(catalogue)),
        ("guilds", world.guilds(players), len(GUILD_NAMES)),
    ):
        with progress(f"Writing {kind}", length) as advance:
            for count in bulk.insert(storage.db[kind], documents, skips_known=True):
                advance(count)
    init_database(storage.db, COLLECTIONS)


def prepare_demo(storage: Storage, passwords: Passwords) -> None:
    """Seed a database without players, and create the demo account with every role."""
    if storage.db["players"].find_one({}, ["_id"]) is None:
        seed_world(storage, passwords, DEMO_PLAYERS, DEMO_USERS)
    users = Users(storage)
    if users.credentials({"NameKey": DEMO_NAME}) is None:
        by = Origin(None, "quartermaster serve --demo", "cli")
        password_hash, intent = passwords.hash(World.PASSWORD), Intent(REGISTER.name, by)
        mail, roles = "demo@example.com", [DEMO_STAFF_ROLE]
        users.create(DEMO_NAME, mail, password_hash, intent, Roles=roles)
        for role in Role:
            intent = Intent(GRANT_ROLE.name, by, {"Role": role.value})
            rule = partial(change_power, role=role.value, change=with_role)
            users.change(Lookup.parse(DEMO_NAME), ("Power",), rule, intent)
