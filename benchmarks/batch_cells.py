"""The cell for rows of batches."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from statistics import median, quantiles

from benchmarks.cells import MOVE_SECONDS, Cell, given_in_all, lookup, lookups
from benchmarks.checks import WrongAnswer
from benchmarks.load import Request
from benchmarks.meters import Meter, memory_of
from benchmarks.samples import Run, Sample
from benchmarks.servers import Running, exchange
from benchmarks.worlds import GIVEN_ITEM, World

BATCHES = "/api/v1/batches"
# How many clients carry out a batch at the same time: one for each worker.
CALLERS = 2
# How many batches are carried out one after another, each with one row for each player: in the two
# rounds of a full run, they have some 100,000 rows.
REPEATS = 13


def measure_rows(run: Run, round_: int, _: Cell, served: Running, __: Path) -> Sample:
    """Measure rows per second; the latencies are those of the calls that carry them out."""
    world = served.world
    world.reset()
    repeats = REPEATS if run.seconds > 1 else 1
    planned = [plan(served) for _ in range(repeats)]
    rows = repeats * len(world.written_names)
    workers = served.workers(CALLERS)
    workers_cpu, mongod_cpu = Meter(workers), Meter([world.mongod])
    began = time.monotonic()
    latencies = [seconds for batch in planned for seconds in carry_out(served, batch)]
    elapsed = time.monotonic() - began
    # The cost includes moving the entries to history.
    time.sleep(MOVE_SECONDS)
    world.wait_for_movers()
    costs = (workers_cpu.seconds(), mongod_cpu.seconds())
    given, entries = given_in_all(world), world.entries()
    if not given == entries == rows:
        raise WrongAnswer(f"{rows} rows gave {given}, with {entries} entries in history.")
    forget(world)
    worker_ms, mongod_ms = (1000 * cost / rows for cost in costs)
    memory = memory_of(workers)
    return Sample(
        *(served.server.name, "l", round_, rows / elapsed),
        *(1000 * median(latencies), 1000 * quantiles([*latencies, *latencies], n=100)[98]),
        *(worker_ms, mongod_ms, memory.resident, memory.own),
    )


def plan(served: Running) -> str:
    """Plan a batch that gives an item to every player reserved for writes; return its id."""
    rows = [
        {"Player": name, "Operation": "give", "ItemId": GIVEN_ITEM, "Quantity": 1}
        for name in served.world.written_names
    ]
    status, answer = served.ask(Request("POST", BATCHES, json.dumps({"Rows": rows})))
    if status != 200 or answer["Ready"] != len(rows):
        raise WrongAnswer(f"A batch was not planned, with status {status}: {answer}.")
    return str(answer["Id"])


def carry_out(served: Running, batch: str) -> list[float]:
    """Carry out a batch with several clients; return the duration of each call."""
    latencies: list[float] = []
    faults: list[str] = []

    def call() -> None:
        connection = served.connect()
        state = "planned"
        while state != "done" and not faults:
            began = time.monotonic()
            request = Request("POST", f"{BATCHES}/{batch}/advance")
            status, body = exchange(connection, request, served.token)
            latencies.append(time.monotonic() - began)
            if status == 200:
                state = json.loads(body)["State"]
            elif status != 503:
                faults.append(body.decode())
        connection.close()

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if faults:
        raise WrongAnswer(f"A batch was not carried out: {faults[0]}")
    return latencies


def forget(world: World) -> None:
    """Remove all batches, and reset what they changed."""
    world.reset()
    for name in ("batches", "batch_rows", "batch_parts"):
        world.db[name].delete_many({})


ROWS = Cell("l", "row of a batch", lookups, lookup, measure=measure_rows)
