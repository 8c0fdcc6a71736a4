"""make chaos: the long form of tests/system/test_chaos.py. Ends with 1 where a law was broken."""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from app.storage.embedded.lease import Lease
from tests.system import fuzz
from tests.system.chaos import faults, report, splits
from tests.system.chaos.staff import Batcher
from tests.system.chaos.stage import STORMS, Scale, Stage
from tests.system.chaos.storm import Storm
from tests.system.chaos.trials import SingleTrial, SpanningTrial

GAME_SECONDS, PACE_SECONDS, CLIENTS, BATCH_ROWS = 10, 0.05, 12, 40


@click.command()
@click.option("--writes", default=1_000_000, help="How many writes the soak makes.")
@click.option("--rounds", default=8, help="How often everything breaks.")
@click.option("--examples", default=300, help="Tries of each operation.")
def main(writes, rounds, examples):
    """Break everything under load, and see that nothing is lost or done twice."""
    say = partial(click.echo, err=True)
    Storm.say = staticmethod(say)
    Storm.pace, Storm.crowd, Batcher.rows = PACE_SECONDS, CLIENTS, BATCH_ROWS
    began, outcomes = time.monotonic(), []
    for outcome in storms(Scale(rounds, tuple(splits.KINDS), faults.SKEWS, GAME_SECONDS, writes)):
        outcomes.append(outcome)
        say(f"{time.monotonic() - began:6.0f} s  {report.line(outcome)}")
        for law in outcome.broken_laws():
            say(f"          {law}")
    say(f"{time.monotonic() - began:6.0f} s  schemathesis tries every operation.")
    tried = fuzz.main(examples)
    click.echo(f"\n{report.terminal(outcomes)}\n\n{report.enemies(tried)}")
    laws = [law for outcome in outcomes for law in outcome.broken_laws()] + tried.findings
    if laws:
        sys.exit("Broken laws:\n" + "\n".join(f"- {law}" for law in laws))


def storms(scale):
    """Yield the outcome of each storm as soon as it is over."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        lease = Lease(str(Path(folder) / "single"), cache_gb=0.5)
        try:
            with Stage(Path(folder), lease.uri) as stage:
                for name, (storm, missing) in STORMS.items():
                    if missing:
                        click.echo(f"The storm {name} is left out: {missing}.")
                        continue
                    outcome = storm(stage, scale)
                    if name == "split":
                        go_step_by_step(stage.split_world, scale.rounds, outcome)
                    yield outcome
        finally:
            lease.close()


def go_step_by_step(world, rounds, outcome):
    """Add what one split shows, step by step, to the outcome of a storm of splits."""
    for _ in range(rounds):
        for trial in (SingleTrial, SpanningTrial):
            outcome.complaints += trial(world).broken_laws()
            outcome.faults["two-way split, step by step"] += 1


if __name__ == "__main__":
    main()
