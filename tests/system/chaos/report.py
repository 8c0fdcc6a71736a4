"""What the storms have shown, for a terminal and for docs/measurements.rst."""

import os
import platform
import textwrap
from collections import Counter
from datetime import date

from benchmarks.tables import aligned
from tests import hostile
from tests.system.chaos.clients import BROKEN

STATUSES = (200, 401, 409, 503)
HEAD = ("storm", "faults", "requests", *map(str, STATUSES), "other", "broken", "slowest s")
HEAD += ("outage s", "acknowledged")
FAULTS_HEAD = ("fault", "times")
SIZES_HEAD = ("worker", "MB before", "MB after", "files", "files after", "links", "links after")


def line(outcome):
    """Return what came of a storm in a line."""
    verdict = outcome.verdict
    return (
        f"{outcome.name}: {outcome.faults.total()} faults, {outcome.requests:,} requests, "
        f"{verdict.acknowledged:,} writes acknowledged, {len(outcome.broken_laws())} broken laws"
    )


def machine(seconds, is_full):
    """Return when and where all storms raged."""
    return (
        f"{'' if is_full else '**A short look, not a full run.** '}"
        f"{date.today():%d %B %Y}, in {seconds / 60:.0f} minutes, on {os.cpu_count()} cores "
        f"({platform.machine()}), Python {platform.python_version()}."
    )


def terminal(outcomes):
    """Return all tables as plain text."""
    return "\n\n".join(aligned(head, rows) for head, rows in _tables(outcomes))


def enemies(tried):
    """Tell what schemathesis did, and how many hostile requests the tests send."""
    statuses = ", ".join(f"{n:,} times {status}" for status, n in tried.statuses.most_common())
    return (
        f"schemathesis made {tried.cases.total():,} requests to {len(tried.cases)} operations of "
        f"the OpenAPI document, and looked at the answers {tried.checks.total():,} times by "
        f"{len(tried.checks)} kinds of checks: {len(tried.findings)} findings. It was answered "
        f"{statuses}.\n\n``make test-all`` sends a table of {hostile.count():,} hostile requests."
    )


def document(outcomes, machine, tried):
    """Return docs/measurements.rst."""
    storms, broken, sizes = (_rst(head, rows) for head, rows in _tables(outcomes))
    return TEXT.format(
        storms=storms,
        faults=broken,
        sizes=sizes,
        machine=machine,
        notes=_notes(outcomes),
        enemies="\n\n".join(textwrap.fill(part, 100) for part in enemies(tried).split("\n\n")),
    )


def _tables(outcomes):
    return (
        (HEAD, [*map(_row, outcomes), _total(outcomes)]),
        (FAULTS_HEAD, _faults(outcomes)),
        (SIZES_HEAD, _sizes(outcomes)),
    )


def _numbers(outcome):
    answers, counted = outcome.answers, [outcome.answers[s] for s in (*STATUSES, BROKEN)]
    other = answers.total() - sum(counted)
    return [outcome.faults.total(), answers.total(), *counted[:-1], other, counted[-1]]


def _row(outcome):
    slow = outcome.slowest, outcome.outage
    return _cells(outcome.name, _numbers(outcome), slow, outcome.verdict.acknowledged)


def _total(outcomes):
    """Sum all rows up; of the times, the longest counts."""
    sums = [sum(column) for column in zip(*map(_numbers, outcomes), strict=True)]
    slow = max(one.slowest for one in outcomes), max(one.outage for one in outcomes)
    return _cells("all", sums, slow, sum(one.verdict.acknowledged for one in outcomes))


def _cells(name, numbers, slow, acknowledged):
    seconds = (f"{value:.1f}" for value in slow)
    return (name, *(f"{number:,}" for number in numbers), *seconds, f"{acknowledged:,}")


def _faults(outcomes):
    faults = sum((outcome.faults for outcome in outcomes), Counter())
    return [(name, f"{times:,}") for name, times in faults.items()]


def _sizes(outcomes):
    pairs = [pair for outcome in outcomes for pair in outcome.sizes]
    return [
        (
            *(f"{number}", f"{before.memory:.1f}", f"{after.memory:.1f}"),
            *(f"{before.files}", f"{after.files}"),
            *(f"{before.connections}", f"{after.connections}"),
        )
        for number, (before, after) in enumerate(pairs, start=1)
    ]


def _notes(outcomes):
    return "\n".join(f"- {outcome.name}: {note}." for outcome in outcomes for note in outcome.notes)


def _rst(head, rows):
    """Return a simple table of reStructuredText."""
    lines = aligned(head, rows).splitlines()
    rule = lines[1].replace("-", "=")
    return "\n".join([rule, lines[0], rule, *lines[2:], rule])


TEXT = """Measurements
============

The last run of ``make chaos``, which writes this file. `Reliability <reliability.rst>`_ tells what
is promised, and how it is seen.

{machine}

{storms}

*Slowest* is the longest that a client waited for any answer, *outage* the longest from the first
try of a request to its success, *broken* are connections that ended without an answer, as they do
when a process is killed. 409 is a take of more than is there. The soak is single writes by wrk and
batches, beside clients that keep ledgers.

In no storm was an acknowledged write lost or made twice, an item lost or made, or a write without
its entry in history: a run in which that happens writes no document. Some clients give without
Idempotency-Keys and may never be told whether a gift was made; then versions and items must agree
with what history says of it.

{faults}

{notes}

Workers before and after the soak: memory of their own, open files, and connections among them.

{sizes}

Enemies
-------

{enemies}
"""
