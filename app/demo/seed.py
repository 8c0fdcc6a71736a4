"""Fills a database with the demo world, and makes the demo account."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial

from app.auth.roles import Role, granted
from app.database import COLLECTIONS
from app.demo.world import World, carries_bag
from app.keys import Lookup
from app.progress import progress
from app.storage import bulk, password_costs
from app.storage.client import Storage
from app.storage.schema.collections import init_collections, init_database
from app.users.passwords import Passwords
from app.users.store import Users

DEMO_NAME = "demo"
DEMO_PLAYERS, DEMO_USERS = 500, 100


def seed_world(storage: Storage, passwords: Passwords, players: int, users: int) -> None:
    world = World(users, datetime.now(timezone.utc), passwords.hash(World.PASSWORD))
    password_costs.record(storage.db, passwords.cost)
    bags = sum(map(carries_bag, range(players)))
    for kind, documents, length in (
        ("users", world.users(), users),
        ("players", world.players(players), players),
        ("bags", world.bags(players), bags),
    ):
        init_collections(storage.db, COLLECTIONS)
        with progress(f"Writing {kind}", length) as advance:
            for count in bulk.add_missing(storage.db[kind], documents):
                advance(count)
    init_database(storage.db, COLLECTIONS)


def make_demo(storage: Storage, passwords: Passwords) -> None:
    """Fill an empty database; one that holds something is left as it is."""
    if storage.db["players"].find_one({}, ["_id"]) is None:
        seed_world(storage, passwords, DEMO_PLAYERS, DEMO_USERS)
    users = Users(storage)
    if users.credentials(DEMO_NAME) is None:
        users.create(DEMO_NAME, "demo@example.com", passwords.hash(World.PASSWORD))
        for role in Role:
            users.change_power(Lookup.parse(DEMO_NAME), partial(granted, role=role))
