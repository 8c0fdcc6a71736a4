"""The measurements, and their averages over the rounds."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

import psutil

from benchmarks.worlds import World


class Sample(NamedTuple):
    """One cell of one server in one round; CPU milliseconds are per request."""

    server: str
    cell: str
    round: int
    per_second: float
    p50_ms: float
    p99_ms: float
    worker_ms: float
    mongod_ms: float
    resident_mb: float
    own_mb: float
    # Of cells in which many change one document, and of pages of the console.
    retries: float = 0.0
    first_visit: float = 0.0

    @property
    def all_ms(self) -> float:
        return self.worker_ms + self.mongod_ms


def machine_of(world: World) -> str:
    """Return a description of the machine and the versions, which the figures depend on."""
    mongodb = world.db.client.server_info()["version"]
    return (
        f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GB, "
        f"Python {platform.python_version()}, MongoDB {mongodb}"
    )


@dataclass
class Run:
    """A whole run of the bench."""

    seconds: int
    rounds: int
    players: int
    is_full: bool
    samples: list[Sample] = field(default_factory=list)
    machine: str = ""
    seed_seconds: float = 0.0

    @property
    def servers(self) -> list[str]:
        return list(dict.fromkeys(sample.server for sample in self.samples))

    def of(self, server: str, cell: str) -> list[Sample]:
        return [s for s in self.samples if (s.server, s.cell) == (server, cell)]

    def mean(self, server: str, cell: str, figure: str) -> float | None:
        """Return the mean of a figure over all rounds; None if the server lacks the cell."""
        found = self.of(server, cell)
        return fmean(getattr(sample, figure) for sample in found) if found else None

    def ratio(self, server: str, other: str, cell: str, figure: str) -> float | None:
        """Return the ratio of a figure of one server to that of another."""
        one, two = self.mean(server, cell, figure), self.mean(other, cell, figure)
        return one / two if one is not None and two else None

    def noise(self, server: str, cell: str, figure: str) -> float:
        """Return the spread of a figure between the rounds, relative to its mean."""
        values = [getattr(sample, figure) for sample in self.of(server, cell)]
        return float((max(values) - min(values)) / fmean(values))

    def memory(self, server: str) -> tuple[float, float]:
        """Return the largest memory of a worker of a server after any cell."""
        own = [sample for sample in self.samples if sample.server == server]
        return max(s.resident_mb for s in own), max(s.own_mb for s in own)
