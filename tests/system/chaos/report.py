"""What the storms have shown, for a terminal and for docs/reliability.rst."""

from __future__ import annotations

import textwrap
from collections import Counter

from benchmarks.tables import aligned
from tests import hostile
from tests.system.chaos.clients import BROKEN

HEAD = (
    *("storm", "faults", "requests", "200", "401", "503", "500", "other", "broken"),
    *("slowest s", "outage s", "acknowledged", "lost", "doubled"),
)
STATUSES = (200, 401, 503, 500)
FAULTS_HEAD = ("fault", "times")
SIZES_HEAD = ("worker", "MB before", "MB after", "files", "files after", "links", "links after")


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
    """Return docs/reliability.rst."""
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
        *(f"{n:,}" for n in (verdict.acknowledged, verdict.lost, verdict.doubled)),
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


TEXT = """Reliability
===========

What the service promises when something under it breaks, and the last run of ``make chaos``, which
breaks it and looks. This file is written by that run.

What is promised
----------------

- **An answer of 200 to a change is kept.** It is given when a majority of the MongoDB servers has
  the change. One that is sent again with its Idempotency-Key is made once, whatever was lost on the
  way, for as long as the player had no more than 64 other changes meanwhile.
- **503 means: try again**, after as many seconds as ``Retry-After`` says. The client that sends the
  same key again need not know whether the first try came through. 500 is a bug.
- **A request is answered in time.** At the database it may take five seconds
  (``QM_MONGODB_OPERATION_SECONDS``), and may wait two before that; then it is a 503.
- **Nothing has to be restarted by hand.** When there is a primary again, or room on the disk, the
  service goes on by itself.

======================================  ============================================================
when                                    then
======================================  ============================================================
the primary dies, hangs or steps down   requests wait for the election, or end in 503 if it takes
                                        longer than ``QM_MONGODB_SELECTION_SECONDS``
two of three servers are away           503 for all that needs the database
a worker or the whole service is        connections break; nothing that was acknowledged is lost
killed
reload, restart                         a reload breaks nothing; a restart refuses connections until
                                        the new program listens (`Deploying <deploy.rst>`_ tells how
                                        not even that)
MongoDB is away at the start            the service starts; ``/readyz`` says 503 until it comes
MongoDB is slow or hangs                so many requests as a worker has threads wait for it, the
                                        others are refused at once; probes and the documentation
                                        are served; connections stay within the pool
the disk of the embedded server is      503 while MongoDB is down; it is started again every two
full                                    seconds, and ``guardian.log`` says why it fails
the clock jumps                         tokens may run out early (401), and callers sign in again
======================================  ============================================================

How it is seen
--------------

Clients give, take, move and read items through gunicorn with several workers, over three real
MongoDB servers on loopback. Each change has its Idempotency-Key, and is repeated with it on 503,
429, time-outs and broken connections until it is answered. Every client has an item of its own and
keeps a ledger. When the storm is over, each player must hold exactly what the ledgers say, and have
been written to exactly as often as was acknowledged. No answer may be a 500, come later than ten
seconds after its request, or be a 503 without ``Retry-After``; all clients must be served again
after each fault.

::

    make chaos                                      # everything, and a million requests
    make chaos REQUESTS=20000 STORMS=1 EXAMPLES=9   # a look, which writes nothing
    make test T=tests/system/test_chaos.py          # everything once, as make test does it

It needs wrk and a C compiler (``apt-get install wrk gcc libc6-dev``), and the superuser's rights to
fill a disk.

What was seen
-------------

{machine}

{storms}

*Slowest* is the longest that a client waited for any answer, *outage* the longest from the first
try of a request to its success, *broken* are connections that ended without an answer, as they do
when a process is killed. The soak is made by wrk, beside clients that keep ledgers.

{faults}

{notes}

Workers before and after the soak: memory of their own, open files, and connections among them.

{sizes}

Enemies
-------

{enemies}
"""
