"""System resources of the server processes: memory and a metrics folder."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from pathlib import Path

import config

# Parameters of mallopt, and their values.
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 1024 * 1024
M_ARENA_MAX, MOST_HEAPS = -8, 2


def save_memory() -> None:
    """Let glibc keep less freed memory, in this process and those that it forks.

    Each large block comes from mmap. By default, glibc raises its mmap threshold to the size of the
    largest block that was freed: after the first password hash, which takes 19 MB, later ones would
    come from the heap of their thread and stay there. Threads share two heaps instead of eight per
    core. Other C libraries have no mallopt, or ignore it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(M_ARENA_MAX, MOST_HEAPS)


def make_metrics_folder() -> Path | None:
    """Create the metrics folder that the workers share, unless the settings name one.

    Workers find it through QM_METRICS_DIR, and can expose the sum.
    """
    if config.load().METRICS_DIR:
        return None
    folder = Path(tempfile.mkdtemp(prefix="qm-metrics-"))
    os.environ["QM_METRICS_DIR"] = str(folder)
    return folder


def remove_metrics_folder(folder: Path | None) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
