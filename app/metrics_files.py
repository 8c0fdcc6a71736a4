"""Metrics in files: each worker counts in its own files, and exposes the sum of all.

A worker takes the first number that no living process holds. It holds the number by a file lock,
which the kernel releases when the process ends. With the number, it takes over the files of a
worker that has ended. So counters never decrease, and there are no more files than concurrent
workers. No server has to report which workers have ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
KINDS = ("counter", "histogram", "gauge_livesum", "gauge_livemostrecent")
# Several times the size of all label sets: growing a memory-mapped file on a full disk is a SIGBUS.
FILE_SIZE = 1 << 20


def lock(path: Path) -> int:
    """Return a descriptor that locks a path while this process or a fork of it has it open."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | (0 if path.is_dir() else os.O_CREAT)
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process checks the locks of a folder."""
    with (folder / "mutex").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def take_number(folder: Path) -> int:
    """Return a number that this process holds until it ends, and create the metric files for it."""
    with _alone(folder):
        for number in count():
            with contextlib.suppress(BlockingIOError):
                lock(folder / f"{number}.lock")
                break
        mark_process_dead(number, str(folder))
    _make_files(folder, number)
    return number


def _make_files(folder: Path, number: int) -> None:
    """Create the files at full size and rename them into place.

    prometheus_client opens a file before it sets its size: another worker that reads it in between
    fails on an empty file.
    """
    for kind in KINDS:
        file = folder / f"{kind}_{number}.db"
        if not file.exists():
            temporary = file.with_suffix(".new")
            temporary.write_bytes(bytes(FILE_SIZE))
            temporary.rename(file)


class LivingWorkers(MultiProcessCollector):
    """Adds up the files of all workers; gauges only include living workers."""

    def __init__(self, registry: Any, folder: Path) -> None:
        self._folder = folder
        super().__init__(registry, str(folder))

    def collect(self) -> Iterable[Any]:
        with _alone(self._folder):
            for file in self._folder.glob("*.lock"):
                with contextlib.suppress(BlockingIOError):
                    descriptor = lock(file)
                    mark_process_dead(int(file.stem), str(self._folder))
                    os.close(descriptor)
        return super().collect()
