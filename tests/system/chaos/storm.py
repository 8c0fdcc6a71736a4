"""The world in which everything breaks, and what breaks in it while clients are at work."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.factories import guid, make_player, sha256
from tests.system.chaos.clients import Caller, CarelessGame, Follower, Worker
from tests.system.chaos.ledger import Judge, Ledger
from tests.system.chaos.machines import ReplicaSet, Service, network
from tests.system.clock import Clock

PLAYERS, CARELESS, CLIENTS, FOLLOWERS = 24, 6, 10, 3
# How much each player has of the item that everybody gives and takes.
SHARED = 50
# By the name of an account its role; one without a role has all flags of Power, and may ask.
ACCOUNTS = {"keeper": None, "asker": "support", "first": "economy", "second": "economy"}
FLAGS, PASSWORD = ("Api", "ApiPersonalInformation", "ApiUserManagement"), "secret"
# For how long workers stand still in each storm; the last one counts for the rest.
STOPPED_SECONDS, CLOCKS = (8, 30, 120), (3600, -3600, 86400, -30 * 86400)
EVENTS_SECONDS = 60
READING = {"w": "majority", "readConcernLevel": "majority", "tz_aware": True}


class World:
    """Three servers, the services on them, and the ledger of all who work with them."""

    def __init__(self, folder, ending, rows=60, kills=1):
        self._began, self.rows, self.kills = time.monotonic(), rows, kills
        self.ledger, self.faults, self.tokens, self.shared_item = Ledger(), Counter(), {}, guid()
        *servers, here, there = network(ending, 5)
        self.replicas, self.clock = ReplicaSet(folder, servers), Clock(folder)
        uri = self.replicas.uri
        # On its side of a split, one service stays with the primary.
        self.near = Service(folder / "near", here, uri, MONGODB_OPERATION_SECONDS="2")
        self.far = Service(folder / "far", there, uri, self.clock)
        # Waits for longer than an erasure takes, with all requests in one worker.
        patient = {"WORKERS": "1", "MONGODB_OPERATION_SECONDS": "40"}
        self.patient = Service(folder / "patient", there, uri, **patient)
        self.services, self.db = [self.near, self.far], MongoClient(uri, **READING).quartermaster
        ending.callback(self.db.client.close)
        self.near.start()
        self.near.wait()  # It has prepared the database for the others.
        self.far.start()
        self.patient.start()
        self.settle()
        for name, role in ACCOUNTS.items():
            self.add_account(name, role)
        self.players = [player["_id"] for player in self.add_players(PLAYERS)]
        self.careless = [player["_id"] for player in self.add_players(CARELESS)]
        self.ledger.ruled.difference_update(self.careless)
        self.ledger.careless.update(self.careless)
        # Batches go through all of them, each from its own place on, so that few collide.
        self.crowd = [*self.players, *(player["_id"] for player in self.add_players(rows))]

    def say(self, text):
        seconds, complaints = time.monotonic() - self._began, len(self.ledger.complaints)
        print(f"{seconds:6.0f} s  {text}; {complaints} complaints", flush=True)

    def add_account(self, name, role=None):
        """Add an account, and sign in; return its id."""
        words = ("user", "create", name, "--email", f"{name}@example.com", "--password-stdin")
        self.near.command(*words, stdin=PASSWORD)
        rights = {f"Power.{flag}": not role for flag in FLAGS} | {"Roles": [role or "viewer"]}
        user = self.db.users.find_one_and_update({"Name": name}, {"$set": rights})
        body = {"grant_type": "password", "username": name, "password": sha256(PASSWORD)}
        self.tokens[name] = Caller(self).ask("POST", "/api/oauth/token", body).body["access_token"]
        return user["_id"]

    def add_players(self, count):
        """Add players as a game does; return them."""
        stack = {"ItemId": self.shared_item, "Quantity": SHARED}
        players = [make_player(Inventory={"0": stack}) for _ in range(count)]
        for player in players:
            self.store(player)
            self.ledger.held[player["_id"], self.shared_item] = SHARED
            self.ledger.ruled.add(player["_id"])
        return players

    def store(self, player):
        """Store a player as soon as there is a primary that takes it."""
        with suppress(PyMongoError):
            return self.db.players.replace_one({"_id": player["_id"]}, player, upsert=True)
        return self.store(player)

    def split(self):
        """Cut the primary and the near service off from the others until a block ends."""
        return self.replicas.split(self.near.node, self.far.node)

    def settle(self):
        """Wait until everything runs as it should again."""
        self.clock.set(0)
        self.replicas.wait()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Service.wait, (*self.services, self.patient)))


class Storm:
    """Clients at work in a world, followers, and a careless game."""

    def __init__(self, world):
        self.world, self.game = world, CarelessGame(world)
        self.clients = [Worker(world) for _ in range(CLIENTS)]
        self.followers = [Follower(world) for _ in range(FOLLOWERS)]

    def write(self, writes):
        """Let everybody begin to work; wait until there are so many more acknowledged changes."""
        for one in (*self.clients, self.game):
            one.start()
        enough = self.world.ledger.acknowledged().total() + writes
        made = self.world.ledger.acknowledged
        while (total := made().total()) < enough:
            self.world.say(f"{total:,} acknowledged changes")
            time.sleep(20 if writes > 10_000 else 2)

    def break_everything(self, number, wanted=()):
        """Let each fault happen once under load, or those that are wanted.

        Each client sees whether it is served again.
        """
        replicas, seconds = self.world.replicas, STOPPED_SECONDS[min(number, 2)]
        one, other = self.world.services[:: -1 if number % 2 else 1]
        for name, fault, *arguments in (
            ("worker killed", one.kill_worker),
            ("clocks apart", self.world.clock.set, CLOCKS[number % len(CLOCKS)]),
            ("worker killed", other.kill_worker),
            ("worker stopped", one.stop_worker, seconds),
            ("primary killed", replicas.kill_primary),
            ("step-down", replicas.step_down),
            ("two-way split", self._split, min(seconds, 10)),
        ):
            if name in (wanted or name):
                fault(*arguments)
                replicas.wait()
                self.world.faults[name] += 1
                self.world.say(name)

    def _split(self, seconds):
        with self.world.split() as former:
            self.world.replicas.primary(than=former)
            time.sleep(seconds)

    def judge(self):
        """End all work; return what was found, with the broken laws."""
        threads = [one for one in (*self.clients, *self.followers, self.game) if one.ident]
        for one in threads:
            one.ending.set()
        for one in threads:
            one.join()
        self.world.settle()
        world, first, until = self.world, self.followers[0], time.monotonic() + EVENTS_SECONDS
        entries = world.db.history.count_documents({})
        while time.monotonic() < until and any(len(f.seen) < entries for f in self.followers):
            for follower in self.followers:
                follower.act()
        for follower in self.followers:
            seen = len(follower.seen), len({*follower.seen})
            follower.expect(seen == (entries, entries), f"of {entries} events (and once)", seen)
            follower.expect(follower.seen == first.seen, "another order of events")
        bugs = [line for one in (*world.services, world.patient) for line in one.tracebacks()]
        first.expect(not bugs, "the service logs bugs of its own", bugs)
        return Judge(world.ledger, world.db)
