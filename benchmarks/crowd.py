"""Many clients give items at once: to many players, to a few, to one."""

from __future__ import annotations

import re
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from benchmarks import load
from benchmarks.cells import CELLS, gives_to
from benchmarks.checks import WrongAnswer, check_effects, check_entries
from benchmarks.load import Load
from benchmarks.servers import Running
from benchmarks.worlds import World

CLIENTS = 32
GROUPS = (1000, 8, 1)
WARM_UP_SECONDS = 2
SETTLE_SECONDS = 6.0
GIVE = next(cell for cell in CELLS if cell.key == "d")
# Every attempt to change a player is one of these commands, whether it succeeds or not; so is
# removing moved entries from a Journal.
ATTEMPTS = ("update", "findAndModify")
RETRIES = re.compile(r"^\w*retries\w*(?:\{[^}]*\})? (\S+)", re.MULTILINE)


class Crowd(NamedTuple):
    """The result of gives by many clients to some players."""

    players: int
    load: Load
    # From the service's metrics; MongoDB does not distinguish retries from moving entries.
    retries: float

    @property
    def retries_each(self) -> float:
        return self.retries / max(1, self.load.served)

    @property
    def refused_part(self) -> float:
        return self.load.refused / self.load.requests


def crowds(served: Running, seconds: int, data: Path) -> list[Crowd]:
    return [crowd(served, players, seconds, data) for players in GROUPS]


def crowd(served: Running, players: int, seconds: int, data: Path) -> Crowd:
    """Let all clients give to the same players, and count attempts and retries."""
    world = served.world
    names = world.written_names[:players]
    file = load.write_requests(data / "requests.txt", gives_to(names))
    if seconds > WARM_UP_SECONDS:
        load.run(served.base, file, served.token, WARM_UP_SECONDS, CLIENTS)
        settle(world)
    world.reset()
    before = count_retries(served)
    counted = load.run(served.base, file, served.token, seconds, CLIENTS)
    settle(world)
    if counted.broken:
        raise WrongAnswer(f"{counted.broken} gives to {players} players broke.")
    world.wait_for_movers()
    check_effects(GIVE, world, counted, CLIENTS)
    check_entries(GIVE, served)
    retries = count_retries(served) - before
    world.reset()
    return Crowd(len(names), counted, retries)


def settle(world: World) -> None:
    """Wait until requests that were in flight at the end, with their retries, are finished."""
    deadline = time.monotonic() + SETTLE_SECONDS
    before = -1
    while (now := attempts_so_far(world)) != before and time.monotonic() < deadline:
        before = now
        time.sleep(0.3)


def attempts_so_far(world: World) -> int:
    commands = world.db.command("serverStatus")["metrics"]["commands"]
    return sum(int(commands[name]["total"]) for name in ATTEMPTS)


def count_retries(served: Running) -> float:
    """Return the number of retries in the service's metrics."""
    with urllib.request.urlopen(f"{served.base}/metrics", timeout=10) as answer:  # noqa: S310 (our own server)
        return sum(map(float, RETRIES.findall(answer.read().decode())))
