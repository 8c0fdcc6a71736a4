"""Cells in which many clients change one document at once: a player, or a global variable."""

from __future__ import annotations

import re
import time
import urllib.request
from pathlib import Path

from app.maintenance.demo import world as names
from benchmarks import load
from benchmarks.cells import Cell, given_in_all, gives_to, lookup
from benchmarks.checks import WrongAnswer
from benchmarks.load import MARK, Request
from benchmarks.meters import Meter, memory_of
from benchmarks.samples import Run, Sample
from benchmarks.servers import Running
from benchmarks.worlds import GLOBAL, World

CLIENTS = 32
WORKERS = 2
SETTLE_SECONDS = 6.0
# Every attempt to change a document is one of these commands, whether it succeeds or not.
ATTEMPTS = ("update", "findAndModify")
RETRIES = re.compile(r"^\w*retries\w*(?:\{[^}]*\})? (\S+)", re.MULTILINE)


def gives(world: World) -> list[Request]:
    return gives_to(world.written_names[:1])


def settings(_: World) -> list[Request]:
    path = f"/api/v1/variables/global/{names.guid(*GLOBAL)}"
    return [Request("POST", path, f'{{"value":{MARK}}}')]


def measure_crowd(run: Run, round_: int, cell: Cell, served: Running, data: Path) -> Sample:
    """Let all clients change the same document, and count retries."""
    world = served.world
    file = load.write_requests(data / "requests.txt", cell.requests(world))
    world.reset()
    before, workers = count_retries(served), served.workers(WORKERS)
    workers_cpu, mongod_cpu = Meter(workers), Meter([world.mongod])
    counted = load.run(served.base, file, served.token, run.seconds, CLIENTS)
    settle(world)
    costs = (workers_cpu.seconds(), mongod_cpu.seconds())
    entries, effects = world.entries(), cell.effects(world) if cell.effects else 0
    is_right = counted.requests <= effects == entries <= counted.requests + CLIENTS
    if counted.refused or counted.broken or not is_right:
        raise WrongAnswer(
            f"{cell.name}: {counted} took effect {effects} times in {entries} entries."
        )
    retries = (count_retries(served) - before) / counted.requests
    world.reset()
    memory = memory_of(workers)
    return Sample(
        *(served.server.name, cell.key, round_, counted.per_second, counted.p50_ms),
        *(counted.p99_ms, *(1000 * cost / counted.requests for cost in costs)),
        *(memory.resident, memory.own),
        retries=retries,
    )


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


CROWD_CELLS = (
    Cell("o", f"give to one player, {CLIENTS} clients", gives, lookup, given_in_all, measure_crowd),
    Cell(
        *("p", f"set one global variable, {CLIENTS} clients"),
        *(settings, lookup, World.entries, measure_crowd),
    ),
)
