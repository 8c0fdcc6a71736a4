"""The targets of the service, as ratios within one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.samples import Run

OURS, FLOOR, RIVAL = "quartermaster", "limit", "fastapi"
UNDER_GRANIAN = "quartermaster-granian"
WHOLE_GIVE = "limit-whole-give"
SHARED_CELLS = "abcd"
MEMORY_MB = 60
NOISE, P99_NOISE = 0.10, 0.30


class Target(NamedTuple):
    """A bound on a figure; a miss that is within the noise is reported as such."""

    text: str
    measured: float
    bound: float
    is_most: bool = True
    noise: float = NOISE
    unit: str = ""

    @property
    def verdict(self) -> str:
        over = self.measured / self.bound if self.is_most else self.bound / self.measured
        if over <= 1:
            return "met"
        return "within noise" if over < 1 + self.noise else "not met"

    @property
    def wanted(self) -> str:
        return f"{'at most' if self.is_most else 'at least'} {self.bound:g}{self.unit}"


def targets(run: Run) -> list[Target]:
    """Return all targets that this run has measured."""
    return [*_cpu(run), *_batches(run), *_rates(run), *_memory(run), *_latency(run)]


def _cpu(run: Run) -> Iterator[Target]:
    for cell, bound in zip("abc", (1.25, 0.9, 1.25), strict=True):
        if ratio := run.ratio(OURS, FLOOR, cell, "worker_ms"):
            yield Target(f"({cell}) worker CPU to LIMIT", ratio, bound)
    if ratio := run.ratio(OURS, WHOLE_GIVE, "d", "all_ms"):
        yield Target("(d) CPU of workers and MongoDB together to LIMIT's whole", ratio, 1.35)
    for cell in "abc":
        if ratio := run.ratio(UNDER_GRANIAN, FLOOR, cell, "worker_ms"):
            yield Target(f"({cell}) worker CPU under Granian to LIMIT", ratio, 0.95)


def _batches(run: Run) -> Iterator[Target]:
    for figure, text, bound in (("worker_ms", "worker CPU", 5.0), ("all_ms", "all CPU", 1.0)):
        one, row = run.mean(OURS, "d", figure), run.mean(OURS, "l", figure)
        if one and row:
            yield Target(f"(l) rows to single gives per {text}", one / row, bound, is_most=False)
    alone, beside = run.mean(OURS, "a", "p99_ms"), run.mean(OURS, "m", "p99_ms")
    if alone and beside:
        text = "(m) p99 of a look-up beside a batch to that without"
        yield Target(text, beside / alone, 2.0, noise=P99_NOISE)


def _rates(run: Run) -> Iterator[Target]:
    for ours, rival, cells, bound in (
        (UNDER_GRANIAN, RIVAL, "abc", 1.25),
        (OURS, RIVAL, SHARED_CELLS, 1.0),
    ):
        for cell in cells:
            if ratio := run.ratio(ours, rival, cell, "per_second"):
                text = f"({cell}) requests per second of {ours} to {rival}"
                yield Target(text, ratio, bound, is_most=False)


def _memory(run: Run) -> Iterator[Target]:
    if OURS in run.servers:
        resident, _ = run.memory(OURS)
        yield Target("memory per worker (resident)", resident, MEMORY_MB, unit=" MB")


def _latency(run: Run) -> Iterator[Target]:
    for cell in SHARED_CELLS:
        if ratio := run.ratio(OURS, FLOOR, cell, "p99_ms"):
            yield Target(f"({cell}) p99 to LIMIT", ratio, 1.3, noise=P99_NOISE)
