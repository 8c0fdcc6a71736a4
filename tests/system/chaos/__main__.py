"""make chaos: break everything under load; ends with 1 where a law was broken."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from tests.system.chaos import machines, rounds
from tests.system.chaos.storm import Storm, World

# Of a batch: in a short run, and in a long one.
ROWS, MOST_ROWS = 60, 2000
KILLS, EXAMPLES = 20, 5
ROUNDS = [rounds.stopped_before_its_first_command, rounds.behind_a_split]
ROUNDS += [rounds.restored_under_a_follower, rounds.damaged_players]
ROUNDS += [rounds.timed_out_in_mid_transaction, rounds.killed_amid_gives, rounds.long_lifetime]


@click.command()
@click.option("--writes", default=1_000_000, help="How many changes are made before the storms.")
@click.option("--storms", default=8, help="How often everything breaks; 0: no soak either.")
@click.option("--only", default="", help="A part of the names of the rounds to run.")
def main(writes, storms, only):
    """Break everything under load, and see that nothing is lost or made twice."""
    if machines.MISSING:
        sys.exit(f"Nothing can be tried here: {machines.MISSING}.")
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        sys.exit(1 if judged(Path(folder), writes, storms, only) else 0)


def judged(folder, writes, storms, only="", faults=()):
    """Run rounds, the soak and storms; print the report, and return the broken laws."""
    is_short, rows = storms == 1, max(ROWS, min(MOST_ROWS, writes // 200))
    with ExitStack() as ending:
        world = World(folder, ending, rows, 1 if is_short else KILLS)
        storm = Storm(world)
        for follower in storm.followers:
            follower.start()
        # The last round takes as long as it measures.
        for trial in ROUNDS[:-1] if is_short else ROUNDS:
            if only in (name := trial.__name__.replace("_", " ")):
                world.say(name)
                trial(world)
                world.faults[name] += 1
        if storms:
            storm.write(writes)
        for number in range(storms):
            storm.break_everything(number, faults)
        found = storm.judge()
    broken = {law: cases for law, cases in found.broken.items() if cases}
    callers, made = [*storm.clients, *storm.followers], world.ledger.acknowledged()
    for title, counts in {
        f"{made.total():,} acknowledged changes, {found.entries:,} entries in history": made,
        f"{world.faults.total():,} faults": world.faults,
    }.items():
        print(f"\n{title}", *(f"{n:>11,}  {name}" for name, n in counts.items()), sep="\n")
    seen = ", ".join(f"{len(follower.seen):,}" for follower in storm.followers)
    seen = f"{seen} events; the careless game saved {storm.game.saves:,} players"
    slowest = max(caller.slowest for caller in callers)
    print(f"\nFollowers saw {seen}. The slowest answer took {slowest:.1f} s.")
    for law, cases in broken.items():
        print(f"\nBROKEN: {law}: {len(cases)} times, such as")
        print(*(f"  {str(case)[:5000]}" for case in cases[:EXAMPLES]), sep="\n")
    print(f"\n{len(broken)} broken laws.")
    return broken


if __name__ == "__main__":
    main()
