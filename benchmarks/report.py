"""The report of make bench: tables for a terminal, and benchmarks/results.md."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.batch_cells import ROWS
from benchmarks.cells import CELLS
from benchmarks.console import PAGES
from benchmarks.crowd import CROWD_CELLS
from benchmarks.history_cells import HISTORY_CELLS
from benchmarks.load import CONNECTIONS
from benchmarks.samples import Run
from benchmarks.tables import Row, aligned, markdown_table
from benchmarks.targets import FLOOR, targets

BENCH_CELLS = (*CELLS[:4], HISTORY_CELLS[0], ROWS, PAGES, *CROWD_CELLS)
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
        f"## Targets\n\n{_targets(run, markdown_table)}\n",
        *cells,
        f"## Memory\n\n{_memory(run, markdown_table)}\n",
        NOTES,
    ]
    return "\n".join(parts)


def _preface(run: Run) -> str:
    quick = "" if run.is_full else "**A partial run: some servers or cells are left out.** "
    return (
        f"{quick}{run.players:,} players, seeded in {run.seed_seconds:.0f} s, with an entry of "
        f"history each. {run.rounds} rounds of {run.seconds} s per cell with the servers in "
        f"alternating order, 2 workers each, wrk with {CONNECTIONS} connections. "
        f"{run.machine}. Absolute figures depend on the machine: compare ratios within one run. "
        "Differences below 10 % (p99: 30 %) are noise. Made by `make bench`.\n"
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


NOTES = """[profile.md](profile.md) shows where the time of a request goes.

## What is compared

- **quartermaster**: as deployed, with `QM_ENV=production` and a log line for every request.
- **quartermaster-granian**: the same under Granian (`quartermaster serve --server granian`).
- **limit**: the minimum for this stack, a bare WSGI callable under the same gunicorn with the
  same settings. It checks the token in the same way, projects documents and encodes them with
  orjson, gives by one `find_one_and_update`, and writes no log. It queries the total of a list at
  every request. Its give assumes that the first slot holds the stack that grows, which is true of
  all players here.
- **limit-granian**: limit under Granian, with 32 threads for each worker.
- **limit-whole-give**: the same as limit, but its one `find_one_and_update` contains the whole
  rule of a give, without that assumption.
- **fastapi**: pymongo's asynchronous client, uvicorn with uvloop and httptools, PyJWT, the same
  projections, encoder and give as limit, and no validation of responses.
- **fastapi-granian**: the same application under Granian.

All write with majority write concern. Before each cell, the benchmark compares responses with the
expected ones, field by field. After it, no request may have failed, and the database must contain
every give or set exactly once. CPU is user and system time per request. Noise is the largest
figure of the rounds minus the smallest, divided by their mean.
"""
