"""The network splits: a primary that is cut off goes on for a while as if it were one.

What it does meanwhile is undone when it is back. The near stack of the service is on its side of
the split, the far one on the side where another primary is elected.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.system.chaos.network import dropped, network
from tests.system.chaos.replicas import SETTINGS, ReplicaSet, replica_set
from tests.system.chaos.service import Service
from tests.system.chaos.storm import SharedStorm
from tests.system.chaos.world import PATIENCE_MS, ExampleWorld
from tests.system.programs import wait_until

# Those at the near stack leave the old primary with more changes than the new one has when the
# split is healed; with fewer, no number of a change could be taken for another's.
NEAR_CLIENTS, FAR_CLIENTS = 8, 2
# What is under way when the network is split lives until it is healed, and each has its thread.
WAITS = {"MONGODB_OPERATION_SECONDS": "8", "MONGODB_SELECTION_SECONDS": "8", "THREADS": "12"}
# Which packets are dropped, and whether those of the near stack are, too.
TWO_WAY, MUTE, DEAF = "two-way split", "one-way split, primary mute", "one-way split, primary deaf"
KINDS = [(way, with_stack) for with_stack in (True, False) for way in (TWO_WAY, MUTE, DEAF)]


class World(NamedTuple):
    """Three servers and the stacks of the service, each on a machine of its own."""

    replicas: ReplicaSet
    # Waits for a primary for as long as a test takes, and not at all; on the same machine.
    patient: Service
    hasty: Service
    near: Service
    far: Service

    @property
    def stacks(self):
        return self.patient, self.hasty, self.near, self.far

    @contextmanager
    def split(self, way=TWO_WAY, with_stack=True):
        """Cut the primary off from the others until the block ends; yield it."""
        primary = self.replicas.primary()
        here, there = [primary.node], [m.node for m in self.replicas.others(primary)]
        if with_stack:
            here, there = [*here, self.near.node], [*there, self.far.node]
        with ExitStack() as cuts:
            if way != DEAF:
                cuts.enter_context(dropped(here, there))
            if way != MUTE:
                cuts.enter_context(dropped(there, here))
            yield primary


@contextmanager
def world(folder):
    """Start all of it, and remove all of it when the block ends."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as ending:
        net = ending.enter_context(network())
        nodes = [net.node() for _ in range(3)]
        replicas = ending.enter_context(replica_set(folder / "replicas", nodes))
        replicas.start()
        here, there = net.node(), net.node()
        patience = {"MONGODB_OPERATION_SECONDS": "25", "MONGODB_SELECTION_SECONDS": "8"}
        haste = {"MONGODB_OPERATION_SECONDS": "1"}
        stacks = [
            _stack(folder / name, replicas, node, **settings)
            for name, node, settings in (
                ("patient", here, {**patience, "WORKERS": "1"}),
                ("hasty", here, {**haste, "WORKERS": "1"}),
                ("near", here, WAITS),
                ("far", there, {}),
            )
        ]
        for stack in stacks:
            ending.callback(stack.stop)
        with ThreadPoolExecutor() as pool:
            list(pool.map(_start, stacks))
        stacks[0].add_account()
        yield World(replicas, *stacks)


def _stack(folder, replicas, node, **settings):
    folder.mkdir()
    return Service(folder, node=node, MONGODB_URI=replicas.uri, **settings)


def _start(stack):
    stack.start()
    stack.wait_until_ready()


def storm(world, rounds, kinds=tuple(KINDS)):
    """The primary is killed, steps down, and is cut off in each way.

    Each split lasts until the far side has acknowledged changes to everybody.
    """
    clients = [world.near] * NEAR_CLIENTS + [world.far] * FAR_CLIENTS
    storm = SharedStorm("split network", [world.near, world.far], world.replicas.uri, clients)
    # On either side, a world shares some of the players.
    storm.beside += [
        ExampleWorld(
            *(storm.uri, storm.folder, ids),
            **{"pace": 1 / storm.pace, "node": stack.node, "patience": PATIENCE_MS},
        )
        for ids, stack in ((storm.ids[:2], world.near), (storm.ids[2:], world.far))
    ]
    world.replicas.elect_after(SETTINGS["electionTimeoutMillis"])
    with storm.raging():
        for _ in range(rounds):
            storm.inject("primary killed", world.replicas.kill_primary)
            world.replicas.wait()
            storm.inject("primary stepped down", world.replicas.step_down)
            world.replicas.wait()
            for way, with_stack in kinds:
                name = way if with_stack else f"{way}, stacks see all"
                storm.inject(name, _split, storm, world, way, with_stack)
                world.replicas.wait()
    return storm.outcome


def _split(storm, world, way, with_stack):
    with world.split(way, with_stack) as former:
        world.replicas.wait_for_another(former)
        # Whatever is acknowledged from now on, the new primary has acknowledged.
        before = _changes(storm)
        wait_until(lambda: all((_changes(storm) - before)[player] for player in storm.ids))


def _changes(storm):
    """Count the acknowledged changes of each player, through the far stack."""
    far = storm.clients[NEAR_CLIENTS : NEAR_CLIENTS + FAR_CLIENTS]
    return sum((Counter(client.ledger.writes) for client in far), Counter())
