"""Measures CPU and memory of processes."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

import psutil

MEGABYTE = 1024 * 1024


class Memory(NamedTuple):
    """Memory of one worker in megabytes: resident (RSS), and unique (USS)."""

    resident: float
    own: float


class Meter:
    """Counts the CPU seconds of some processes since its creation."""

    def __init__(self, processes: list[psutil.Process]) -> None:
        self._processes = processes
        self._before = self._total()

    def seconds(self) -> float:
        return self._total() - self._before

    def _total(self) -> float:
        times = [process.cpu_times() for process in self._processes]
        return sum(time.user + time.system for time in times)


def workers_of(pid: int, count: int) -> list[psutil.Process]:
    """Return the workers among a program's children: the largest ones; others are helpers."""
    children = psutil.Process(pid).children(recursive=True)
    return sorted(children, key=lambda child: child.memory_info().rss, reverse=True)[:count]


def memory_of(processes: list[psutil.Process]) -> Memory:
    """Return the average memory of these processes."""
    found = [process.memory_full_info() for process in processes]
    return Memory(
        fmean(memory.rss for memory in found) / MEGABYTE,
        fmean(memory.uss for memory in found) / MEGABYTE,
    )
