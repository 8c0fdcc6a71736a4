"""The seeded databases that the benches run on. They are kept between runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

import click
import psutil
import pymongo

import config
from app.auth.tokens import AccessTokens
from app.core.changes import Intent, Origin
from app.core.naming import Lookup
from app.core.permissions import Role, with_role
from app.core.progress import progress
from app.database import COLLECTIONS
from app.maintenance.demo import world as names
from app.maintenance.demo.world import seed_world
from app.storage import bulk
from app.storage.client import Storage
from app.storage.embedded import Lease
from app.storage.history import HISTORY
from app.storage.schema.collections import init_for_bulk_load
from app.users.domain import NO_POWER
from app.users.oauth.store import RefreshTokens
from app.users.passwords import Passwords
from app.users.store import Users
from benchmarks.entries import entries

Document = dict[str, Any]

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / ".data"
# A cache for the largest world: the benches measure programs, not disks.
CACHE_GB = 4.0
SECRET = "a secret that only the benches use: 32+ long"  # noqa: S105 (it guards nothing)
BENCH = Origin(None, "bench", "cli")
CALLER = "benchcaller"
LONG_SECONDS = 3600
DAY = 24 * 3600
# How many names the requests are spread over, if there are enough.
NAMES = 4000
PLAYERS_PER_USER = 4
# Part of the stamp: increment it when the preparation below changes.
PREPARED = 7

GIVEN_ITEM = names.ITEM_IDS["Health Potion"]
HELD_BEFORE = 100
# The global variable that a cell sets: its type and name.
GLOBAL = ("servervariable", "Day")


class World:
    """One seeded database, with some players reserved for writes, which are reset afterwards."""

    def __init__(self, lease: Lease, players: int, per_player: int) -> None:
        self.players = players
        self._per_player = per_player
        self.users = max(1, players // PLAYERS_PER_USER)
        self.database = f"world_{players}_{per_player}"
        self.settings = {
            "QM_ENV": "production",
            "QM_SECRET_KEY": SECRET,
            "QM_MONGODB_URI": lease.uri,
            "QM_MONGODB_DATABASE": self.database,
            # If a worker is replaced during a run, its CPU time is lost.
            "QM_MAX_REQUESTS": "0",
        }
        self.storage = Storage(config.load(self.settings))
        self.db = self.storage.db
        self._step = max(2, players // NAMES)
        self.written_ids = [names.guid("player", i) for i in self._spread(1, players)]
        # If the database has more than one process, this is the one that does the work.
        self.mongod = psutil.Process(self.db.command("serverStatus")["pid"])

    @property
    def read_names(self) -> list[str]:
        """Players that are only read."""
        return [names.player_name(i) for i in self._spread(0, self.players)]

    @property
    def written_names(self) -> list[str]:
        """Players reserved for writes, each with a stack of the given item in its first slot."""
        return [names.player_name(i) for i in self._spread(1, self.players)]

    @property
    def user_names(self) -> list[str]:
        return [names.user_name(i) for i in range(0, self.users, max(1, self.users // NAMES))]

    def prepare(self) -> None:
        """Seed what is missing, and reset the world to the initial state of a run."""
        stamp = self._stamp()
        kept = self.db["bench_stamp"].find_one()
        if not kept or kept["Stamp"] != stamp:
            began = time.monotonic()
            self._seed()
            kept = {"Stamp": stamp, "Seconds": time.monotonic() - began}
            self.db["bench_stamp"].insert_one(kept)
        else:
            self.reset()
        self.seed_seconds: float = kept.get("Seconds", 0)
        self._keep_online()

    def reset(self) -> None:
        """Reset the players that were written to, and flush them to disk."""
        back = {"into": "players", "whenMatched": "replace", "whenNotMatched": "fail"}
        with pymongo.timeout(LONG_SECONDS):
            self.db["bench_written"].aggregate([{"$merge": back}])
            self.db["history"].delete_many(self._of_written())
            self.db.client.admin.command("fsync")

    def entries(self) -> int:
        """Return the number of entries in history since the last reset."""
        return self.db["history"].count_documents(self._of_written())

    def _of_written(self) -> Document:
        return {"Subject.Id": {"$in": [*self.written_ids, names.guid(*GLOBAL)]}}

    def token(self) -> str:
        """Return an access token that outlives the bench."""
        users = Users(self.storage)
        if not self.db["users"].count_documents({"Name": CALLER}):
            power = with_role(with_role(NO_POWER, Role.API), Role.USERS_QUERY)
            register = Intent("register", BENCH)
            users.create(CALLER, f"{CALLER}@example.com", None, register, Power=power)
        user = users.get(Lookup.parse(CALLER), "PasswordVersion")
        chain = (
            RefreshTokens(self.storage, DAY, 1000).issue(user["_id"], user["PasswordVersion"]).chain
        )
        return AccessTokens([SECRET], DAY).issue(user["_id"], chain, int(time.time()))

    def close(self) -> None:
        self.storage.close()

    def _spread(self, offset: int, end: int) -> range:
        return range(offset, end, self._step)

    def _seed(self) -> None:
        click.echo(f"Seeding {self.players:,} players and {self.users:,} users.", err=True)
        self.db.client.drop_database(self.database)
        init_for_bulk_load(self.db, COLLECTIONS)
        with pymongo.timeout(LONG_SECONDS), ThreadPoolExecutor(1) as pool:
            self._add_history()
            # MongoDB uses one core for this, so the players are made meanwhile.
            indexing = pool.submit(self._index_history)
            seed_world(self.storage, Passwords(1, 64, 1), self.players, self.users)
            indexing.result()
            self._set_aside()

    def _add_history(self) -> None:
        """Add a year of changes, but none of the players reserved for writes."""
        made = entries(self.players, self._per_player, lambda number: number % self._step == 1)
        with progress("Writing history", self.players * self._per_player) as advance:
            for count in bulk.insert(self.db["history"], made, skips_known=True):
                advance(count)

    def _index_history(self) -> None:
        with pymongo.timeout(LONG_SECONDS):
            self.db["history"].create_indexes(list(HISTORY.indexes))

    def _set_aside(self) -> None:
        """Give each player reserved for writes the stack that gives will merge into."""
        stack = {"ItemId": GIVEN_ITEM, "Quantity": HELD_BEFORE}
        chosen = {"_id": {"$in": self.written_ids}}
        self.db["players"].update_many(chosen, {"$set": {"Inventory.0": stack}})
        self.db["players"].aggregate([{"$match": chosen}, {"$out": "bench_written"}])

    def _keep_online(self) -> None:
        """Keep online players online for the whole run, so that answers do not change."""
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        for kind in ("players", "bench_written"):
            with pymongo.timeout(LONG_SECONDS):
                self.db[kind].update_many({"Online": True}, {"$set": {"LastSeen": tomorrow}})

    def _stamp(self) -> str:
        """Return a digest that changes with the seeded documents and the schema."""
        made = names.World(self.users, names.EPOCH, "")
        documents = [*islice(made.users(), 50), *islice(made.players(200), 200)]
        plans = [
            (plan.name, plan.shape, [index.document for index in plan.indexes])
            for plan in COLLECTIONS
        ]
        text = repr((PREPARED, NAMES, documents, plans))
        return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def opened(data: Path, *sizes: int, per_player: int = 1) -> Iterator[list[World]]:
    """Run the embedded MongoDB with worlds of these sizes, and so many entries per player."""
    lease = Lease(str(data), cache_gb=CACHE_GB)
    try:
        worlds = [World(lease, players, per_player) for players in sizes]
        for world in worlds:
            world.prepare()
        yield worlds
        for world in worlds:
            world.close()
    finally:
        lease.close()
