"""The results in words and figures."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.all_cells import BENCH_CELLS
from benchmarks.load import CONNECTIONS
from benchmarks.samples import Run
from benchmarks.tables import Row, aligned, markdown_table
from benchmarks.targets import FLOOR, targets
from benchmarks.themes import embedded

Table = Callable[[Row, list[Row]], str]

HEAD = (
    *("", "req/s", "p50 ms", "p99 ms", "worker CPU ms", "MongoDB CPU ms"),
    *("CPU to LIMIT", "noise of CPU", "of req/s"),
)
TARGET_HEAD = ("target", "wanted", "measured", "")
MEMORY_HEAD = ("memory per worker", "resident MB", "own MB")


def table(run: Run) -> str:
    """Return all tables, for a terminal."""
    parts = [f"\n{title}\n{text}" for title, text in _cells(run, aligned)]
    return "\n".join([*parts, "", _memory(run, aligned), "", _targets(run, aligned), ""])


def markdown(run: Run) -> str:
    cells = [f"## {title}\n\n{text}\n" for title, text in _cells(run, markdown_table)]
    parts = [
        "# Quartermaster beside its peers\n",
        _preface(run),
        embedded("results", "CPU and requests, as ratios to LIMIT"),
        f"## Targets\n\n{_targets(run, markdown_table)}\n",
        *cells,
        f"## Memory\n\n{_memory(run, markdown_table)}\n",
        NOTES,
    ]
    return "\n".join(parts)


def _preface(run: Run) -> str:
    quick = "" if run.is_full else "**A quick look, not a result: some of it is left out.** "
    return (
        f"{quick}{run.players:,} players, {run.rounds} rounds of {run.seconds} s per cell with the "
        f"servers in alternating order, 2 workers each, wrk with {CONNECTIONS} connections. "
        f"{run.machine}. Absolute figures are the machine's; ratios within one run are what "
        "counts, and of those less than 10 % (p99: 30 %) is noise. Made by `make bench`.\n"
    )


def _cells(run: Run, layout: Table) -> list[tuple[str, str]]:
    found = []
    for cell in BENCH_CELLS:
        rows = [_row(run, server, cell.key) for server in run.servers if run.of(server, cell.key)]
        if rows:
            found.append((f"({cell.key}) {cell.name}", layout(HEAD, rows)))
    return found


def _row(run: Run, server: str, cell: str) -> Row:
    def figure(name: str, digits: int) -> str:
        return f"{run.mean(server, cell, name) or 0:.{digits}f}"

    ratio = run.ratio(server, FLOOR, cell, "worker_ms")
    return (
        *(server, figure("per_second", 0), figure("p50_ms", 1), figure("p99_ms", 1)),
        *(figure("worker_ms", 2), figure("mongod_ms", 2)),
        f"{ratio:.2f}" if ratio else "-",
        *(f"{run.noise(server, cell, name):.0%}" for name in ("worker_ms", "per_second")),
    )


def _memory(run: Run, layout: Table) -> str:
    rows = [(server, *(f"{mb:.0f}" for mb in run.memory(server))) for server in run.servers]
    return layout(MEMORY_HEAD, rows)


def _targets(run: Run, layout: Table) -> str:
    rows = [
        (target.text, target.wanted, f"{target.measured:.2f}{target.unit}", target.verdict)
        for target in targets(run)
    ]
    return layout(TARGET_HEAD, rows)


NOTES = """[profile.md](profile.md) tells where the time of a request goes.

## What is compared

- **quartermaster**: as deployed, `QM_ENV=production`, its log line for every request included.
- **quartermaster-granian**: the same under Granian (`quartermaster serve --server granian`).
- **without-history**: the same, but a change leaves no entry, and nothing moves to history. The
  ratio to it is what history costs: the CPU of a write is counted until its entries have moved.
- **with-a-key**: quartermaster again, asked with a key instead of an access token.
- **console**: quartermaster again, asked for a page of its console with the cookie of a session.
- **limit**: the floor of this stack, a bare WSGI callable under the same gunicorn with the same
  settings: the same token check, a projection and orjson by
  hand, a give by one `find_one_and_update`, and no log. It asks MongoDB for the total of a list at
  every request. Its give guesses that the first slot holds the stack that grows, and the players of
  the bench are made so that the guess is right.
- **limit-granian**: limit under Granian, with 32 threads for each worker.
- **limit-whole-give**: the same as limit, but with the whole rule of a give in its one
  `find_one_and_update`, so that it needs no luck.
- **flask-smorest**: as its documentation shows it: method views, PyJWT, whole documents read,
  every answer dumped by marshmallow; a give reads, changes and writes the inventory.
- **eve**: its own look-up of items with a projection, links and entity tags switched off.
- **fastapi**: pymongo's asynchronous client, uvicorn with uvloop and httptools, PyJWT, the same
  projections, encoder and give as limit, and no validation of what it answers.
- **fastapi-granian**: the same application under Granian.

All write with majority concern. Before each cell answers are compared with the right ones, field
by field; after it no request may have failed, and what was given or set must be in the database,
once for each request. CPU is user and system time, per request; noise is the largest minus the
smallest of the rounds' figures, to their mean.
"""
