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
    """Return a text on what schemathesis did, and on the hostile requests of the tests."""
    statuses = ", ".join(f"{n:,} with {status}" for status, n in tried.statuses.most_common())
    return (
        f"schemathesis made {tried.cases.total():,} requests to {len(tried.cases)} operations of "
        f"the OpenAPI document, and made {tried.checks.total():,} checks of {len(tried.checks)} "
        f"kinds on the responses: {len(tried.findings)} findings. Responses by status: "
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

The results of the last run of ``make chaos``, which writes this file. `Reliability
<reliability.rst>`_ lists the promises, and explains how they are tested.

{machine}

{storms}

*Slowest* is the longest time that a client waited for a response. *Outage* is the longest time
from the first try of a request to its success. *Broken* counts connections that ended without a
response, for example because a process was killed. A 409 is a take of more items than the player
has. The soak consists of single writes by wrk and of batches, with clients that keep ledgers.

In no storm was an acknowledged write lost, made twice or without its history entry, and no item
was lost or created: ``make chaos`` writes this file only if all of this holds. Some clients give
without Idempotency-Keys, and may never learn whether a gift was made; then versions and items
must match the history.

{faults}

{notes}

Workers before and after the soak: private memory, open files, and how many of these are
connections.

{sizes}

Hostile requests
----------------

{enemies}
"""
