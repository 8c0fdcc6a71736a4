"""What the storms have shown."""

from collections import Counter

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


def terminal(outcomes):
    """Return all tables and notes as plain text."""
    tables = (
        (HEAD, [*map(_row, outcomes), _total(outcomes)]),
        (FAULTS_HEAD, _faults(outcomes)),
        (SIZES_HEAD, _sizes(outcomes)),
    )
    notes = (f"- {outcome.name}: {note}." for outcome in outcomes for note in outcome.notes)
    return "\n\n".join([*(aligned(head, rows) for head, rows in tables), "\n".join(notes)])


def enemies(tried):
    """Return a text on what schemathesis did, and on the hostile requests of the tests."""
    statuses = ", ".join(f"{n:,} with {status}" for status, n in tried.statuses.most_common())
    return (
        f"schemathesis made {tried.cases.total():,} requests to {len(tried.cases)} operations of "
        f"the OpenAPI document, and made {tried.checks.total():,} checks of {len(tried.checks)} "
        f"kinds on the responses: {len(tried.findings)} findings. Responses by status: "
        f"{statuses}.\n\n``make test-all`` sends a table of {hostile.count():,} hostile requests."
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
