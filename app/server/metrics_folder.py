"""gunicorn's hooks in the master: memory, the limit of open files, and the folder of metrics files.

Each worker counts in files of its own in the folder of the run, under a slot number. A new worker
takes the slot of one that ended. Every process of the run holds a lock on the folder, so that a
later run recognises the folder of a run that was killed, and removes it.
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
from app.server import memory, open_files

PREFIX = "quartermaster-metrics-"


def on_starting(server: Any) -> None:
    memory.return_large_blocks()
    open_files.raise_limit()
    shortage = open_files.shortage(server.cfg.worker_connections, config.load().MONGODB_POOL_SIZE)
    if shortage:
        server.log.warning(shortage)
    _make_folder(server)


def _make_folder(server: Any) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # A locked folder belongs to a living run; another user's cannot be opened.
        with contextlib.suppress(OSError):
            os.close(_locked(folder))
            shutil.rmtree(folder)
    # Renamed only when it is locked: a run that starts at the same time would remove it.
    unnamed = Path(tempfile.mkdtemp())
    server.metrics_lock = _locked(unnamed)
    server.metrics_folder = unnamed.rename(unnamed.with_name(PREFIX + unnamed.name))


def pre_fork(server: Any, worker: Any) -> None:
    taken = {living.metrics_slot for living in server.WORKERS.values()}
    worker.metrics_slot = next(slot for slot in count() if slot not in taken)
    worker.metrics_folder = str(server.metrics_folder)
    # The garbage collector writes to each object that it visits: copy-on-write would copy the
    # memory that workers share with the master.
    gc.freeze()


def child_exit(server: Any, worker: Any) -> None:
    mark_process_dead(worker.metrics_slot, worker.metrics_folder)


def on_exit(server: Any) -> None:
    shutil.rmtree(server.metrics_folder, ignore_errors=True)


def _locked(folder: Path) -> int:
    """Return a descriptor that locks a folder while this process or a fork of it has it open."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
