"""make bench-growth: the cost of a request as the world grows."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from benchmarks import load, worlds
from benchmarks.checks import WrongAnswer
from benchmarks.growth_report import PER_PLAYER, Growth, markdown, table
from benchmarks.samples import machine_of
from benchmarks.servers import QUARTERMASTER, Running, running
from benchmarks.tables import write_report
from benchmarks.timing import timings
from benchmarks.walk import walk
from benchmarks.worlds import World

SIZES = "10000,100000,1000000"
REQUESTS = 500
# A walk that takes longer than this is not linear, and is aborted.
WALK_SECONDS = 900


@click.command()
@click.option("--sizes", default=SIZES, show_default=True, help="Players, smallest first.")
@click.option("--requests", default=REQUESTS, type=click.IntRange(5), show_default=True)
@click.option("--walk-seconds", default=WALK_SECONDS, show_default=True, help="The longest walk.")
@click.option("--data", default=worlds.DATA, type=click.Path(path_type=Path), help="Kept data.")
@click.option("--output", type=click.Path(path_type=Path), help="Where the results go.")
def main(sizes: str, requests: int, walk_seconds: int, data: Path, output: Path | None) -> None:
    """Measure Quartermaster on growing worlds, and write growth.md."""
    load.require_wrk()
    data.mkdir(parents=True, exist_ok=True)
    growth = Growth(is_full=sizes == SIZES and requests >= REQUESTS)
    try:
        with worlds.opened(data, *map(int, sizes.split(",")), per_player=PER_PLAYER) as seeded:
            growth.machine = machine_of(seeded[0])
            measure_sizes(growth, seeded, requests, walk_seconds, data)
    except WrongAnswer as wrong:
        raise click.ClickException(f"{wrong} Nothing was written.") from wrong
    write(growth, output or (Path(__file__).parent if growth.is_full else data))


def write(growth: Growth, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_report(folder / "growth.md", markdown(growth))
    click.echo(table(growth))
    click.echo(f"Written: {folder / 'growth.md'}")


def measure_sizes(
    growth: Growth, seeded: list[World], requests: int, walk_seconds: int, data: Path
) -> None:
    """Measure one server with one worker for each size; all run, so that they can take turns."""
    with ExitStack() as stack:
        started: list[Running] = [
            stack.enter_context(running(QUARTERMASTER, world, world.token(), 1, data))
            for world in seeded
        ]
        for figures in timings(started, requests):
            growth.timings += figures
            told = ", ".join(f"{timing.median_ms:.2f} ms" for timing in figures)
            click.echo(f"{figures[0].cell:<24}{told}", err=True)
        growth.walk = walk(started[-1], walk_seconds)


if __name__ == "__main__":
    main()
