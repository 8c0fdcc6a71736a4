"""make chaos: the long form of tests/system/test_chaos.py. Ends with 1 where a law was broken."""

import os
import platform
import sys
import tempfile
import time
from datetime import date
from functools import partial
from pathlib import Path

import click

from app.progress import progress
from app.storage.embedded.lease import Lease
from tests.system import fuzz
from tests.system.chaos import clock, disk, faults, games, network, people, report, skew, splits
from tests.system.chaos.batches import Batcher
from tests.system.chaos.replicas import replica_set
from tests.system.chaos.service import Service
from tests.system.chaos.soak import soak
from tests.system.chaos.spanning import SpanningTrial
from tests.system.chaos.storm import Storm
from tests.system.chaos.trial import Trial

FULL_WRITES, FULL_ROUNDS, FULL_EXAMPLES, STORMS = 1_000_000, 8, 300, 11
GAME_SECONDS, PACE_SECONDS, CLIENTS, BATCH_ROWS = 10, 0.05, 12, 40
OUTPUT = Path(__file__).parents[3] / "docs" / "measurements.rst"


@click.command()
@click.option("--writes", default=FULL_WRITES, help="How many writes the soak makes.")
@click.option("--rounds", default=FULL_ROUNDS, help="How often everything breaks.")
@click.option("--output", type=Path, help="Where to write the document, however short the run.")
@click.option("--examples", default=FULL_EXAMPLES, help="Tries of each operation.")
def main(writes, rounds, output, examples):
    """Break everything under load, and see that nothing is lost or done twice."""
    Storm.say = staticmethod(partial(click.echo, err=True))
    Storm.pace, Storm.crowd, Batcher.rows = PACE_SECONDS, CLIENTS, BATCH_ROWS
    began = time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        for outcome in storms(Path(folder), writes, rounds):
            outcomes.append(outcome)
            click.echo(told(outcome, time.monotonic() - began))
            for law in outcome.broken_laws():
                click.echo(f"          {law}", err=True)
    click.echo(f"{time.monotonic() - began:6.0f} s  schemathesis tries every operation.", err=True)
    tried = fuzz.main(examples)
    click.echo(f"\n{report.terminal(outcomes)}\n\n{report.enemies(tried)}")
    laws = [law for outcome in outcomes for law in outcome.broken_laws()] + tried.findings
    if laws:
        sys.exit("Broken laws:\n" + "\n".join(f"- {law}" for law in laws))
    is_full = writes >= FULL_WRITES and rounds >= FULL_ROUNDS and examples >= FULL_EXAMPLES
    is_full &= len(outcomes) == STORMS
    if output or is_full:
        where = machine(time.monotonic() - began, is_full)
        (output or OUTPUT).write_text(report.document(outcomes, where, tried))
        click.echo(f"Written to {output or OUTPUT}.")


def storms(folder, writes, rounds):
    """Yield the outcome of each storm as soon as it is over."""
    yield from on_a_replica_set(folder, rounds)
    if network.IS_ALLOWED:
        yield on_a_split_network(folder / "network", rounds)
    else:
        click.echo(f"The network is not split: {network.MISSING}.")
    yield faults.embedded(made(folder / "embedded"), rounds)
    if disk.IS_ALLOWED:
        yield faults.full_disk(made(folder / "full"), max(1, rounds // 2))
    else:
        click.echo(f"No full disk is tried: {disk.MISSING}.")
    lease = Lease(str(folder / "single"), cache_gb=0.5)
    try:
        yield faults.slow_database(lease.uri, made(folder / "slow"), max(1, rounds // 2))
        yield from beside_others(lease, folder, rounds)
        lately = lease.uri.replace("/?", "/soak?")
        with progress("soak", writes) as move:
            yield soak(lately, made(folder / "soak"), writes, move)
    finally:
        lease.close()


def on_a_replica_set(folder, rounds):
    with replica_set(folder / "replicas") as replicas:
        served = Service(made(folder / "service"), MONGODB_URI=replicas.uri)
        try:
            faults.database_away_at_start(served, come=replicas.start)
            served.add_account()
            seen = faults.primary(replicas, served, rounds)
            seen.faults["MongoDB away at the start"] += 1
            yield seen
            yield faults.workers(replicas, served, rounds)
            yield people.storm(replicas, served, rounds)
            if clock.COMPILER:
                yield faults.clock(replicas, made(folder / "clock"), rounds)
            else:
                click.echo(f"The clock does not jump: {clock.MISSING}.")
        finally:
            served.stop()


def on_a_split_network(folder, rounds):
    """Split it in each way, and go through one split step by step."""
    with splits.world(folder) as world:
        seen = splits.storm(world, rounds)
        for _ in range(rounds):
            seen.complaints += Trial(world).run().broken_laws()
            seen.complaints += SpanningTrial(world).broken_laws()
            seen.faults["two-way split, step by step"] += 2
        return seen


def beside_others(lease, folder, rounds):
    """Two stacks whose clocks disagree, and games that write to the players themselves."""
    if clock.COMPILER:
        uri = lease.uri.replace("/?", "/skew?")
        yield skew.storm(uri, made(folder / "skew"), max(1, rounds // 2))
    else:
        click.echo(f"Clocks do not disagree: {clock.MISSING}.")
    uri = lease.uri.replace("/?", "/games?")
    yield games.storm(uri, made(folder / "games"), rounds, GAME_SECONDS)


def made(folder):
    folder.mkdir()
    return folder


def told(outcome, seconds):
    verdict = outcome.verdict
    return (
        f"{seconds:6.0f} s  {outcome.name}: {outcome.faults.total()} faults, "
        f"{outcome.requests:,} requests, {verdict.acknowledged:,} writes acknowledged, "
        f"{verdict.lost} lost, {verdict.doubled} doubled, {verdict.missing} items lost, "
        f"{verdict.invented} invented, {verdict.unrecorded} without an entry in history, "
        f"{verdict.unexplained} entries without a write, {len(outcome.broken_laws())} broken laws"
    )


def machine(seconds, is_full):
    return (
        f"{'' if is_full else '**A short look, not a full run.** '}"
        f"{date.today():%d %B %Y}, in {seconds / 60:.0f} minutes, on {os.cpu_count()} cores "
        f"({platform.machine()}), Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
