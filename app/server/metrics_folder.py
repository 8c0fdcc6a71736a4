"""What gunicorn's master does for all workers: it opens the way for many files, and for counting.

Each worker counts in a place of its own in the folder of the run, and a new worker takes the place
of one that ended. The folder is locked by every process of the run, so that whoever starts later
can tell the folder of a run that was killed, and remove it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

import config
from app.server import open_files

PREFIX = "quartermaster-metrics-"


def on_starting(server: Any) -> None:
    open_files.raise_limit()
    shortage = open_files.shortage(server.cfg.worker_connections, config.load().MONGODB_POOL_SIZE)
    if shortage:
        server.log.warning(shortage)
    _make_folder(server)


def _make_folder(server: Any) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # A folder that is locked, or somebody else's, is none of ours.
        with contextlib.suppress(OSError):
            os.close(_locked(folder))
            shutil.rmtree(folder)
    # It gets its name when it is locked, or another that starts at this moment might remove it.
    unnamed = Path(tempfile.mkdtemp())
    server.metrics_lock = _locked(unnamed)
    server.metrics_folder = unnamed.rename(unnamed.with_name(PREFIX + unnamed.name))


def pre_fork(server: Any, worker: Any) -> None:
    taken = {living.place for living in server.WORKERS.values()}
    worker.place = next(place for place in count() if place not in taken)
    worker.metrics_folder = str(server.metrics_folder)
    # Workers share what the master has made; the collector, looking at it, would make copies.
    gc.freeze()


def child_exit(server: Any, worker: Any) -> None:
    mark_process_dead(worker.place, worker.metrics_folder)


def on_exit(server: Any) -> None:
    shutil.rmtree(server.metrics_folder, ignore_errors=True)


def _locked(folder: Path) -> int:
    """Return a handle that locks a folder while this process or one that it forks has it open."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
