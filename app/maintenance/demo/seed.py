"""Writes the demo world into a database, and creates the demo account."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial

import click

from app.core.changes import Intent, Origin
from app.core.naming import Lookup
from app.core.progress import progress
from app.core.roles import Role, with_role
from app.database import COLLECTIONS
from app.maintenance.demo.catalogue import objects
from app.maintenance.demo.names import guid
from app.maintenance.demo.world import GUILD_NAMES, World, carries_bag
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.collections import init_database, init_for_bulk_load
from app.users.operations import GRANT_ROLE, REGISTER
from app.users.passwords import Passwords
from app.users.store import Users

# Power alone does not ask for approval. The role has no limits.
DEMO_NAME, DEMO_STAFF_ROLE = "demo", "economy"
DEMO_PLAYERS, DEMO_USERS = 500, 100
# With so many players, building the indexes takes long enough to tell.
LARGE_WORLD = 10_000


def seed_world(storage: Storage, passwords: Passwords, players: int, users: int) -> None:
    world = World(users, datetime.now(timezone.utc), passwords.hash(World.PASSWORD))
    catalogue = list(objects())
    bags = sum(map(carries_bag, range(players)))
    init_for_bulk_load(storage.db, COLLECTIONS)
    for kind, documents, length in (
        ("users", world.users(), users),
        ("players", world.players(players), players),
        ("bags", world.bags(players), bags),
        ("objects", catalogue, len(catalogue)),
        ("guilds", world.guilds(players), len(GUILD_NAMES)),
    ):
        with progress(f"Writing {kind}", length) as advance:
            for count in bulk.add_missing(storage.db[kind], documents):
                advance(count)
    if players >= LARGE_WORLD:
        click.echo("Building indexes", err=True)
    init_database(storage.db, COLLECTIONS)


def holds_other_players(storage: Storage, players: int) -> bool:
    """Tell whether the database holds players that do not come from a seed."""
    stored = storage.db["players"]
    seeded = {guid("player", index) for index in range(max(players, stored.count_documents({})))}
    return any(document["_id"] not in seeded for document in stored.find({}, ["_id"]))


def prepare_demo(storage: Storage, passwords: Passwords) -> None:
    """Seed a database without players, and create the demo account with every role."""
    first = storage.db["players"].find_one({}, ["_id"])
    is_demo = storage.db["players"].find_one({"_id": guid("player", 0)}, ["_id"]) is not None
    if first is None or (is_demo and storage.db["objects"].find_one({}, ["_id"]) is None):
        # A world that an older release seeded has no catalogue yet.
        seed_world(storage, passwords, DEMO_PLAYERS, DEMO_USERS)
    users = Users(storage)
    if users.credentials(DEMO_NAME) is None:
        by = Origin(None, "quartermaster serve --demo", "cli")
        password_hash, intent = passwords.hash(World.PASSWORD), Intent(REGISTER.name, by)
        mail, roles = "demo@example.com", [DEMO_STAFF_ROLE]
        users.create(DEMO_NAME, mail, password_hash, intent, Roles=roles)
        for role in Role:
            intent = Intent(GRANT_ROLE.name, by, {"Role": role.value})
            users.change_power(Lookup.parse(DEMO_NAME), partial(with_role, role=role), intent)
