"""The targets of the service. Those that compare servers are ratios within one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.samples import Run

OURS, FLOOR, RIVAL = "quartermaster", "limit", "fastapi"
WHOLE_GIVE = "limit-whole-give"
NOISE, P99_NOISE = 0.10, 0.30
SEEDED_PLAYERS = 200_000


class Target(NamedTuple):
    """A bound on a figure; a miss that is within the noise is reported as such."""

    text: str
    measured: float
    # None if the figure is only for comparison.
    bound: float | None
    is_most: bool = True
    noise: float = NOISE
    unit: str = ""

    @property
    def verdict(self) -> str:
        if self.bound is None:
            return ""
        over = self.measured / self.bound if self.is_most else self.bound / self.measured
        if over <= 1:
            return "met"
        return "within noise" if over < 1 + self.noise else "not met"

    @property
    def wanted(self) -> str:
        if self.bound is None:
            return "-"
        return f"{'at most' if self.is_most else 'at least'} {self.bound:g}{self.unit}"


def targets(run: Run) -> list[Target]:
    """Return all targets that this run has measured."""
    return [*_ratios(run), *_hot_documents(run), *_pages(run), *_resources(run)]


def _ratios(run: Run) -> Iterator[Target]:
    granian = {name: f"{name}-granian" for name in (OURS, FLOOR, RIVAL)}
    for cells, figure, one, other, bounds in (
        ("abc", "worker_ms", OURS, FLOOR, (1.25, 0.9, 1.25)),
        ("abc", "worker_ms", granian[OURS], FLOOR, (0.95, 0.95, 0.95)),
        ("abc", "worker_ms", granian[OURS], granian[FLOOR], (None, None, None)),
        ("d", "all_ms", OURS, WHOLE_GIVE, (1.35,)),
        ("abcd", "per_second", granian[OURS], RIVAL, (1.25, 1.25, 1.25, None)),
        ("abcd", "per_second", granian[OURS], granian[RIVAL], (None, None, None, None)),
        ("abcd", "per_second", OURS, RIVAL, (None, None, None, None)),
    ):
        for cell, bound in zip(cells, bounds, strict=True):
            if ratio := run.ratio(one, other, cell, figure):
                text = f"({cell}) {FIGURES[figure]} of {one} to {other}"
                yield Target(text, ratio, bound, is_most=figure != "per_second")


FIGURES = {
    "worker_ms": "worker CPU",
    "all_ms": "CPU of workers and MongoDB",
    "per_second": "requests per second",
}


def _hot_documents(run: Run) -> Iterator[Target]:
    for cell, what in (("o", "gives to one player"), ("p", "changes of one global variable")):
        text = f"({cell}) {what} by 32 clients"
        if rate := run.mean(OURS, cell, "per_second"):
            yield Target(f"{text}: a second", rate, 250, is_most=False)
            yield Target(f"{text}: retries each", run.mean(OURS, cell, "retries") or 0, 1)
            p99 = run.mean(OURS, cell, "p99_ms") or 0
            yield Target(f"{text}: p99", p99, 500, noise=P99_NOISE, unit=" ms")


def _pages(run: Run) -> Iterator[Target]:
    for cell, text, bound in (("i", "page of history", 2.5), ("n", "page of the console", 6)):
        if cost := run.mean(OURS, cell, "worker_ms"):
            yield Target(f"({cell}) worker CPU of a {text}", cost, bound, unit=" ms")
    if size := run.mean(OURS, "n", "first_visit"):
        yield Target("(n) first visit", size / 1000, 30, unit=" kB")


def _resources(run: Run) -> Iterator[Target]:
    if run.of(OURS, "l"):
        text = "memory of a worker after batches of 100,000 rows"
        yield Target(text, run.memory(OURS)[0], 60, unit=" MB")
    if run.players == SEEDED_PLAYERS:
        yield Target("seeding 200,000 players", run.seed_seconds, 60, unit=" s")
