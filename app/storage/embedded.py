"""A real MongoDB of one's own for development, shared by all programs with the same data folder.

Every program holds a shared lock on ``users.lock`` while it lives. The guardian (its own process,
see app.storage.guardian) waits for the exclusive lock, which can be had when the last
program is gone, however it went, and then shuts MongoDB down. So nothing is left behind by a
``kill -9``, and no stale lock can stop the next start.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from app.errors import QuartermasterError
from app.storage.mongod import find_mongod

START_SECONDS = 60
STOP_SECONDS = 60


class EmbeddedError(QuartermasterError):
    """The embedded server cannot run."""


class Lease:
    """The use of the embedded server by this program, from start to close."""

    def __init__(self, data_dir: str, mongod: str | None = None, cache_gb: float = 1.0) -> None:
        self.folder = Path(data_dir).resolve() / "mongodb"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mongod = mongod
        self._cache_gb = cache_gb
        self._users = (self.folder / "users.lock").open("w")
        # This waits while a former server is still shutting down.
        fcntl.flock(self._users, fcntl.LOCK_SH)
        try:
            self.uri: str = self._find_or_start()["uri"]
        except BaseException:
            self._users.close()
            raise

    def close(self) -> None:
        """Give the server up, and wait for its end where nobody else uses it."""
        self._users.close()
        deadline = time.monotonic() + STOP_SECONDS
        while is_locked(self.folder / "guardian.lock") and time.monotonic() < deadline:
            if is_shared(self.folder / "users.lock"):
                return
            time.sleep(0.02)

    def _find_or_start(self) -> dict[str, Any]:
        if not is_locked(self.folder / "guardian.lock"):
            self._start_guardian()
        deadline = time.monotonic() + START_SECONDS
        while is_locked(self.folder / "guardian.lock") and time.monotonic() < deadline:
            if state := read_state(self.folder):
                return state
            time.sleep(0.02)
        raise EmbeddedError(self._failure())

    def _start_guardian(self) -> None:
        """Start the guardian, which takes its lock and goes on in the background."""
        mongod = find_mongod(self._mongod, self.folder)
        arguments = [str(self.folder), str(mongod), str(self._cache_gb)]
        with (self.folder / "guardian.log").open("wb") as log:
            subprocess.run(  # nosec B603 # noqa: S603 (our own module with our own arguments)
                # Isolated mode keeps this folder's module names out of the program's way.
                [sys.executable, "-I", str(Path(__file__).with_name("guardian.py")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of the terminal's process group: Ctrl-C must not stop MongoDB first.
                start_new_session=True,
                check=False,
            )

    def _failure(self) -> str:
        lines = (self.folder / "guardian.log").read_text(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "it gave no reason."
        return f"The embedded MongoDB did not start: {reason}"


class ServeLock:
    """Held by the one program that serves a data folder, and freed by its death at the latest."""

    def __init__(self, data_dir: str) -> None:
        folder = Path(data_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "serve.lock").open("a+")
        self._file.seek(0)
        owner = self._file.read().strip()
        if not _try_lock(self._file, fcntl.LOCK_EX):
            raise EmbeddedError(
                f"Another quartermaster (process {owner}) already serves {folder}; "
                "stop it, or choose another folder with QM_DATA_DIR."
            )
        # A program that ends in peace takes its number back.
        self.owner_was_killed = bool(owner)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        # The lock is this program's alone, not also that of the workers who outlive it briefly.
        os.register_at_fork(after_in_child=self._file.close)

    def close(self) -> None:
        self._file.truncate(0)
        self._file.close()


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return what the guardian of a folder says of its running server."""
    try:
        state: dict[str, Any] = json.loads((folder / "server.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return state


def is_locked(path: Path) -> bool:
    """Tell whether somebody has a file for himself."""
    with path.open("a") as file:
        return not _try_lock(file, fcntl.LOCK_SH)


def is_shared(path: Path) -> bool:
    """Tell whether somebody holds a file together with others."""
    with path.open("a") as file:
        return not _try_lock(file, fcntl.LOCK_EX) and _try_lock(file, fcntl.LOCK_SH)


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
