"""The folder in which the workers of a run count, so that each of them can show the sum.

The process that starts the workers makes it and names it in QM_METRICS_DIR. It holds a lock on the
folder, so that a later run recognises the folder of a run that was killed, and removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import config
from app.metrics_files import lock

PREFIX = "quartermaster-metrics-"
VARIABLE = "QM_METRICS_DIR"


def make() -> Path | None:
    """Make a folder for this run, unless the settings name one."""
    if config.load().METRICS_DIR:
        return None
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # A locked folder belongs to a living run; another user's cannot be opened.
        with contextlib.suppress(OSError):
            os.close(lock(folder))
            shutil.rmtree(folder)
    # Renamed only when it is locked: a run that starts at the same time would remove it.
    unnamed = Path(tempfile.mkdtemp())
    lock(unnamed)
    folder = unnamed.rename(unnamed.with_name(PREFIX + unnamed.name))
    os.environ[VARIABLE] = str(folder)
    return folder


def remove(folder: Path | None) -> None:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
