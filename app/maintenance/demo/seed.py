"""Writes the demo world into a database, and creates the demo account."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial

from app.core.changes import Intent, Origin
from app.core.naming import Lookup
from app.core.permissions import Role, with_role
from app.core.progress import progress
from app.database import COLLECTIONS
from app.maintenance.demo.catalogue import objects
from app.maintenance.demo.world import GUILD_NAMES, World
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.collections import init_database, init_for_bulk_load
from app.users.domain import change_power
from app.users.operations import GRANT_ROLE, REGISTER
from app.users.passwords import Passwords
from app.users.store import Users

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
            rule = partial(change_power, change=partial(with_role, role=role))
            users.change(Lookup.parse(DEMO_NAME), ("Power",), rule, intent)
