"""Where storms rage: servers and services that several of them share, and the table of storms."""

from contextlib import ExitStack
from functools import cached_property
from shutil import which
from typing import NamedTuple

from pymongo import MongoClient

from tests.system.chaos import faults, games, people, splits
from tests.system.chaos.machine import NO_CLOCK, NO_DISK
from tests.system.chaos.network import MISSING as NO_NETWORK
from tests.system.chaos.replicas import ReplicaSet, replica_set
from tests.system.chaos.service import Service
from tests.system.chaos.soak import soak

NO_WRK = None if which("wrk") else "wrk is not installed"


class Scale(NamedTuple):
    """How often everything breaks, and how long what does not break goes on."""

    rounds: int = 1
    kinds: tuple = ((splits.TWO_WAY, True),)
    skews: tuple = faults.SKEWS[:1]
    game_seconds: float = 2.0
    writes: int = 500

    @property
    def few(self):
        """How often the slowest things break."""
        return max(1, self.rounds // 2)


class Replicated(NamedTuple):
    """A replica set, and the service on it."""

    replicas: ReplicaSet
    served: Service


class Stage:
    """Starts what storms share when the first one needs it, and stops it when the block ends."""

    def __init__(self, folder, uri):
        self._root, self._uri = folder, uri
        self._ending = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        self._ending.close()

    def folder(self, name):
        folder = self._root / name
        folder.mkdir()
        return folder

    def database(self, name):
        """Return the URI of a database of a storm's own on the single server, and a folder."""
        self._ending.callback(_drop, self._uri, name)
        return self._uri.replace("/?", f"/{name}?"), self.folder(name)

    @cached_property
    def split_world(self):
        """Three servers and some stacks, on machines between which packets are lost."""
        return self._ending.enter_context(splits.world(self.folder("world")))

    @cached_property
    def replicated(self):
        """Three servers, and the service, which comes up before they do."""
        replicas = self._ending.enter_context(replica_set(self.folder("replicas")))
        served = Service(self.folder("service"), MONGODB_URI=replicas.uri)
        self._ending.callback(served.stop)
        faults.database_away_at_start(served, come=replicas.start)
        served.add_account()
        return Replicated(replicas, served)


def _drop(uri, name):
    with MongoClient(uri) as client:
        client.drop_database(name)


# What rages on a stage and at what scale, and why it cannot rage here, if it cannot.
STORMS = {
    "split": (lambda on, at: splits.storm(on.split_world, at.rounds, at.kinds), NO_NETWORK),
    "primary": (lambda on, at: faults.primary(*on.replicated, at.rounds), None),
    "workers": (lambda on, at: faults.workers(*on.replicated, at.rounds), None),
    "people": (lambda on, at: people.storm(*on.replicated, at.rounds), None),
    "clock": (
        lambda on, at: faults.clock(on.replicated.replicas, on.folder("clock"), at.rounds),
        NO_CLOCK,
    ),
    "embedded server": (lambda on, at: faults.embedded(on.folder("embedded"), at.rounds), None),
    "full disk": (lambda on, at: faults.full_disk(on.folder("full"), at.few), NO_DISK),
    "slow database": (lambda on, at: faults.slow_database(*on.database("slow"), at.few), None),
    "skewed clocks": (
        lambda on, at: faults.skewed_clocks(*on.database("skew"), at.few, at.skews),
        NO_CLOCK,
    ),
    "games": (
        lambda on, at: games.storm(*on.database("games"), at.rounds, at.game_seconds),
        None,
    ),
    "soak": (lambda on, at: soak(*on.database("soak"), at.writes), NO_WRK),
}
