"""make bench: the service compared with its peers, on the same data, in the same run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from benchmarks import load, worlds
from benchmarks.cells import FEED_SECONDS, Cell
from benchmarks.checks import WrongAnswer, check_answers, check_load
from benchmarks.meters import Meter, memory_of
from benchmarks.peers.tokens import jwt_for
from benchmarks.report import BENCH_CELLS, markdown, table
from benchmarks.samples import Run, Sample, machine_of
from benchmarks.servers import SERVERS, Running, Server, running
from benchmarks.tables import write_report
from benchmarks.worlds import World

WORKERS = 2
WARM_UP_SECONDS = 2
# How long to wait for requests that were in flight when wrk stopped.
SETTLE_SECONDS = 0.3
LEAST_SECONDS = 5
FULL = {"seconds": 6, "rounds": 2, "players": 200_000}


@click.command()
@click.option("--seconds", default=FULL["seconds"], type=click.IntRange(1), show_default=True)
@click.option("--rounds", default=FULL["rounds"], type=click.IntRange(1), show_default=True)
@click.option("--players", default=FULL["players"], type=click.IntRange(1000), show_default=True)
@click.option("--servers", default="", help="Some of them, separated by commas.")
@click.option("--cells", default="", help="Some of them, by letter, separated by commas.")
@click.option("--data", default=worlds.DATA, type=click.Path(path_type=Path), help="Kept data.")
@click.option("--output", type=click.Path(path_type=Path), help="Where the results go.")
def main(
    seconds: int,
    rounds: int,
    players: int,
    servers: str,
    cells: str,
    data: Path,
    output: Path | None,
) -> None:
    """Measure Quartermaster and its peers, and write results.md."""
    load.require_wrk()
    chosen = [server for server in SERVERS if not servers or server.name in servers.split(",")]
    asked = [cell for cell in BENCH_CELLS if not cells or cell.key in cells.split(",")]
    if not chosen or not asked:
        raise click.ClickException(f"The servers are {', '.join(s.name for s in SERVERS)}.")
    is_full = len(chosen) == len(SERVERS) and len(asked) == len(BENCH_CELLS)
    is_full &= seconds >= LEAST_SECONDS and rounds >= 2 and players == FULL["players"]
    data.mkdir(parents=True, exist_ok=True)
    run = Run(seconds, rounds, players, is_full)
    try:
        with worlds.opened(data, players) as (world,):
            run.machine, run.seed_seconds = machine_of(world), world.seed_seconds
            run.samples += measured(run, world, chosen, asked, data)
    except WrongAnswer as wrong:
        raise click.ClickException(f"{wrong} Nothing was written.") from wrong
    # A partial run must not overwrite the committed results.
    write(run, output or (Path(__file__).parent if is_full else data))


def write(run: Run, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_report(folder / "results.md", markdown(run))
    click.echo(table(run))
    click.echo(f"Written: {folder / 'results.md'}")


def measured(
    run: Run, world: World, servers: list[Server], cells: list[Cell], data: Path
) -> Iterator[Sample]:
    """Yield a sample of each cell of each server in each round.

    All servers run all the time, so that compared servers are measured within the same minute.
    """
    credentials = {
        "token": world.token(),
        "jwt": jwt_for(worlds.CALLER, worlds.SECRET),
    }
    with ExitStack() as stack:
        started = [
            stack.enter_context(running(s, world, credentials[s.credential], WORKERS, data))
            for s in servers
        ]
        plan = list(turns(run.rounds, started, cells))
        begun = time.monotonic()
        for done, (round_, cell, served) in enumerate(plan):
            left = (time.monotonic() - begun) / done * (len(plan) - done) if done else 0
            minutes = f", {left / 60:.1f} min left" if done else ""
            label = f"[{done + 1}/{len(plan)}{minutes}] {cell.name}, {served.server.name}"
            click.echo(f"{label:<60}", nl=False, err=True)
            sample = measure(run, round_, cell, served, data)
            click.echo(f"{sample.per_second:>7.0f}/s {sample.worker_ms:.2f} ms CPU", err=True)
            yield sample


def turns(
    rounds: int, started: list[Running], cells: list[Cell]
) -> Iterator[tuple[int, Cell, Running]]:
    """Yield what to measure next; every other round visits the servers in reverse order."""
    for round_ in range(rounds):
        for cell in cells:
            order = started if round_ % 2 == 0 else started[::-1]
            for served in order:
                if cell.key in served.server.cells:
                    yield round_, cell, served


def measure(run: Run, round_: int, cell: Cell, served: Running, data: Path) -> Sample:
    world = served.world
    if cell.measure:
        sample: Sample = cell.measure(run, round_, cell, served, data)
        return sample
    requests = cell.requests(world)
    check_answers(cell, served, requests)
    file = load.write_requests(data / "requests.txt", requests)
    # A shorter run is only a quick check, without a warm-up.
    if run.seconds >= WARM_UP_SECONDS:
        load.run(served.base, file, served.token, WARM_UP_SECONDS)
        time.sleep(SETTLE_SECONDS)
    if cell.effects:
        world.reset()
    workers = served.workers(WORKERS)
    workers_cpu, mongod_cpu = Meter(workers), Meter([world.mongod])
    counted = load.run(served.base, file, served.token, run.seconds)
    if cell.effects:
        # The cost includes the feed of events; servers without one wait just as long.
        time.sleep(FEED_SECONDS)
    costs = (workers_cpu.seconds(), mongod_cpu.seconds())
    time.sleep(SETTLE_SECONDS)
    check_load(cell, served, counted)
    if cell.effects:
        world.reset()
    worker_ms, mongod_ms = (1000 * cost / counted.requests for cost in costs)
    memory = memory_of(workers)
    return Sample(
        *(served.server.name, cell.key, round_, counted.per_second, counted.p50_ms),
        *(counted.p99_ms, worker_ms, mongod_ms, memory.resident, memory.own),
    )


if __name__ == "__main__":
    main()
