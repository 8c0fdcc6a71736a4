"""What the storms have shown, for a terminal and for docs/measurements.rst."""

import os
import platform
import textwrap
from collections import Counter
from datetime import date

from benchmarks.tables import aligned
from tests import hostile
from tests.system.chaos.clients import BROKEN

HEAD = (
    *("storm", "faults", "requests", "200", "401", "409", "503", "500", "other", "broken"),
    *("slowest s", "outage s", "acknowledged", "lost", "doubled", "items lost", "invented"),
    *("versions wrong", "unrecorded", "unexplained"),
)
STATUSES = (200, 401, 409, 503, 500)
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
        f"{statuses}.\n\nA table of {hostile.count():,} hostile requests is part of ``make test``."
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


def _row(outcome):
    verdict, answers = outcome.verdict, outcome.answers
    other = answers.total() - sum(answers[status] for status in (*STATUSES, BROKEN))
    counts = [answers.total(), *(answers[s] for s in STATUSES), other, answers[BROKEN]]
    return (
        *(outcome.name, f"{outcome.faults.total():,}", *(f"{count:,}" for count in counts)),
        *(f"{outcome.slowest:.1f}", f"{outcome.outage:.1f}"),
        # All numbers of the verdict, in the order of the head.
        *(f"{n:,}" for n in verdict[:-1]),
    )


def _total(outcomes):
    """Sum all rows up, but for the two columns of which the greatest counts."""
    rows = [_row(outcome) for outcome in outcomes]
    number = [[float(text.replace(",", "")) for text in row[1:]] for row in rows]
    columns = list(zip(*number, strict=True))
    sums = [f"{sum(column):,.0f}" for column in columns]
    for place in (HEAD.index("slowest s") - 1, HEAD.index("outage s") - 1):
        sums[place] = f"{max(columns[place]):.1f}"
    return ("all", *sums)


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
when a process is killed. *Lost* and *doubled* are writes, by the versions of the players that they
changed; *items lost* and *invented* are items, by what the players hold in the end; *versions
wrong* are players whose Version is not the number of acknowledged writes. *Unrecorded* are
acknowledged writes without an entry in history, *unexplained* are entries of no such write, or
further ones of the same. Some clients give without Idempotency-Keys and may never be told whether a
gift was made; then versions and items must agree with what history says of it. 409 is a take of
more than is there. The soak is single writes by wrk and batches, beside clients that keep ledgers.

{faults}

{notes}

Workers before and after the soak: memory of their own, open files, and connections among them.

{sizes}

Enemies
-------

{enemies}
"""
