"""The report on the cost of growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.history_cells import EVENING
from benchmarks.tables import Row, aligned, markdown_table
from benchmarks.targets import Target
from benchmarks.timing import COMMON_TEXT, Timing
from benchmarks.walk import PAGE_SIZE, Walk

Table = Callable[[Row, list[Row]], str]

PER_PLAYER = 5
FLAT, COMMON, WALK = 1.5, 3.0, 2.0
# The longest acceptable time to list what one person did in an evening.
EVENING_MS = 50.0


@dataclass
class Growth:
    """The measurements on growing worlds."""

    is_full: bool
    machine: str = ""
    timings: list[Timing] = field(default_factory=list)
    walk: Walk | None = None

    @property
    def sizes(self) -> list[int]:
        return sorted({timing.players for timing in self.timings})

    @property
    def cells(self) -> list[str]:
        return list(dict.fromkeys(timing.cell for timing in self.timings))

    def of(self, cell: str) -> list[Timing]:
        """Return the timings of a cell, the smallest world first."""
        found = [timing for timing in self.timings if timing.cell == cell]
        return sorted(found, key=lambda timing: timing.players)

    def ratio(self, cell: str) -> float:
        smallest, *_, largest = self.of(cell)
        return largest.median_ms / smallest.median_ms


def targets(growth: Growth) -> list[Target]:
    return [*_flat(growth), *_found(growth), *_walked(growth)]


def _flat(growth: Growth) -> Iterator[Target]:
    for cell in growth.cells:
        most = COMMON if COMMON_TEXT in cell else FLAT
        yield Target(f"{cell}: largest to smallest world", growth.ratio(cell), most)


def _found(growth: Growth) -> Iterator[Target]:
    *_, largest = growth.of(EVENING.name)
    text = f"{EVENING.name}, in the largest world"
    yield Target(text, largest.median_ms, EVENING_MS, unit=" ms")


def _walked(growth: Growth) -> Iterator[Target]:
    if growth.walk and growth.walk.is_whole:
        part = f"{growth.walk.part:,} pages"
        yield Target(f"walk: last {part} to first", growth.walk.last_to_first, WALK)
        yield Target(
            f"walk: a page on average to one of the first {part}", growth.walk.all_to_first, WALK
        )


def table(growth: Growth) -> str:
    """Return all tables, for a terminal."""
    parts = [_timings(growth, aligned), _walk(growth, aligned)]
    return "\n\n".join(["", *parts, _targets(growth, aligned), ""])


def markdown(growth: Growth) -> str:
    quick = "" if growth.is_full else "**A quick look, not a result: some of it is left out.** "
    return "\n".join(
        [
            "# As the world grows\n",
            f"{quick}{growth.machine}. Made by `make bench-growth`.\n",
            f"## Targets\n\n{_targets(growth, markdown_table)}\n",
            "## Time per request\n\nThe median of requests one after another to one worker, in "
            f"milliseconds, and MongoDB's CPU for one. There are {PER_PLAYER} entries of history "
            "for each player.\n",
            f"{_timings(growth, markdown_table)}\n",
            f"## Walking all players, {PAGE_SIZE} to a page\n\n{_walk(growth, markdown_table)}\n",
        ]
    )


def _timings(growth: Growth, layout: Table) -> str:
    head = ["ms per request (MongoDB CPU)", *(f"{size:,}" for size in growth.sizes), "ratio"]
    rows = [
        [cell, *(_timing(timing) for timing in growth.of(cell)), f"{growth.ratio(cell):.2f}"]
        for cell in growth.cells
    ]
    return layout(head, rows)


def _timing(timing: Timing) -> str:
    return f"{timing.median_ms:.2f} ({timing.mongod_ms:.2f})"


def _walk(growth: Growth, layout: Table) -> str:
    walked = growth.walk
    if walked is None:
        return ""
    rows = [[f"{place * walked.part:,}", f"{ms:.2f}"] for place, ms in enumerate(walked.parts_ms)]
    done = f"{len(walked.seconds):,} of {walked.pages:,} pages in {sum(walked.seconds):.0f} s"
    rows.append([done if walked.is_whole else f"{done}: given up", "-"])
    return layout(["from page", "ms per page"], rows)


def _targets(growth: Growth, layout: Table) -> str:
    rows = [[t.text, t.wanted, f"{t.measured:.2f}{t.unit}", t.verdict] for t in targets(growth)]
    if growth.walk and not growth.walk.is_whole:
        rows.append(["walk: all pages", "linear", "given up", "not met"])
    return layout(["target", "wanted", "measured", ""], rows)
