"""The cell for rows of batches."""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median, quantiles

from benchmarks.cells import Cell, given_in_all, lookup, lookups
from benchmarks.checks import WrongAnswer
from benchmarks.load import Request
from benchmarks.meters import Meter, memory_of
from benchmarks.samples import Run, Sample
from benchmarks.servers import Running
from benchmarks.worlds import GIVEN_ITEM, World

BATCHES = "/api/v1/batches"
# Which workers there are: one of them carries out the batch.
WORKERS = 2
# How many rows there are for each player. In a full run, a batch has 100,000 rows.
REPEATS = 25
POLL_SECONDS = 0.25


def measure_rows(run: Run, round_: int, _: Cell, served: Running, __: Path) -> Sample:
    """Measure rows per second of one batch; the latencies are those of looking at it meanwhile."""
    world = served.world
    world.reset()
    names = world.written_names * (REPEATS if run.seconds > 1 else 1)
    batch = plan(served, names)
    workers = served.workers(WORKERS)
    workers_cpu, mongod_cpu = Meter(workers), Meter([world.mongod])
    began = time.monotonic()
    latencies = carry_out(served, batch)
    elapsed = time.monotonic() - began
    costs = (workers_cpu.seconds(), mongod_cpu.seconds())
    given, entries = given_in_all(world), world.entries()
    if not given == entries == len(names):
        raise WrongAnswer(f"{len(names)} rows gave {given}, with {entries} entries in history.")
    forget(world)
    worker_ms, mongod_ms = (1000 * cost / len(names) for cost in costs)
    memory = memory_of(workers)
    return Sample(
        *(served.server.name, "l", round_, len(names) / elapsed),
        *(1000 * median(latencies), 1000 * quantiles([*latencies, *latencies], n=100)[98]),
        *(worker_ms, mongod_ms, memory.resident, memory.own),
    )


def plan(served: Running, names: list[str]) -> str:
    """Plan a batch that gives an item to each of these players; return its id."""
    give = {"Operation": "give", "ItemId": GIVEN_ITEM, "Quantity": 1}
    rows = [{"Player": name, **give} for name in names]
    status, answer = served.ask(Request("POST", BATCHES, json.dumps({"Rows": rows})))
    if status != 200 or answer["Ready"] != len(rows):
        raise WrongAnswer(f"A batch was not planned, with status {status}: {answer}.")
    return str(answer["Id"])


def carry_out(served: Running, batch: str) -> list[float]:
    """Run a batch, and look at it until it is done; return the duration of each look."""
    latencies: list[float] = []
    status, answer = served.ask(Request("POST", f"{BATCHES}/{batch}/run"))
    while status == 200 and answer["State"] == "running":
        time.sleep(POLL_SECONDS)
        began = time.monotonic()
        status, answer = served.ask(Request("GET", f"{BATCHES}/{batch}"))
        latencies.append(time.monotonic() - began)
    if status != 200 or answer["State"] != "done":
        raise WrongAnswer(f"A batch was not carried out: {answer}")
    return latencies


def forget(world: World) -> None:
    """Remove all batches, and reset what they changed."""
    world.reset()
    for name in ("batches", "batch_rows"):
        world.db[name].delete_many({})


ROWS = Cell("l", "row of a batch", lookups, lookup, measure=measure_rows)
