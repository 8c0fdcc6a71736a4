"""A real MongoDB of one's own for development, shared by all programs with the same data folder.

Every program holds a shared lock on ``users.lock`` while it lives. The supervisor (its own process,
see app.storage.embedded.supervisor) waits for the exclusive lock, which can be had when the last
program is gone, however it went, and then shuts MongoDB down. So nothing is left behind by a
``kill -9``, and no stale lock can stop the next start. Every program looks after the supervisor in
turn: where it was killed, and MongoDB with it, whoever notices first starts another.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from app.errors import QuartermasterError
from app.storage.embedded.mongod import find_mongod

log = logging.getLogger("quartermaster")

START_SECONDS = 60
STOP_SECONDS = 60
WATCH_SECONDS = 1.0
LONGEST_WATCH_SECONDS = 30.0
LARGEST_LOG = 1024 * 1024
# A process must not fork while the watch holds what the child would find locked for ever, such as
# the lock of a log. (Starting the supervisor does not count as a fork here.)
_quiet = threading.Lock()
os.register_at_fork(
    before=_quiet.acquire, after_in_parent=_quiet.release, after_in_child=_quiet.release
)


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
        self._is_over = threading.Event()
        # It watches in this process alone: no thread outlives a fork.
        self._watch = threading.Thread(
            target=self._keep, name=f"lease of {self.folder}", daemon=True
        )
        try:
            self.uri: str = self._find_or_start()["uri"]
        except BaseException:
            self._users.close()
            raise
        self._watch.start()

    def close(self) -> None:
        """Give the server up, and wait for its end where nobody else uses it."""
        self._is_over.set()
        self._watch.join()
        self._users.close()
        deadline = time.monotonic() + STOP_SECONDS
        while is_locked(self.folder / "supervisor.lock") and time.monotonic() < deadline:
            if is_shared(self.folder / "users.lock"):
                return
            time.sleep(0.02)

    def _find_or_start(self) -> dict[str, Any]:
        is_ours = not is_locked(self.folder / "supervisor.lock")
        if is_ours:
            self._start_supervisor()
        deadline = time.monotonic() + START_SECONDS
        while is_locked(self.folder / "supervisor.lock") and time.monotonic() < deadline:
            if state := read_state(self.folder):
                if is_ours and state.get("warning"):
                    log.warning("The embedded MongoDB: %s", state["warning"])
                return state
            time.sleep(0.02)
        raise EmbeddedError(f"The embedded MongoDB did not start: {self._last_words()}")

    def _keep(self) -> None:
        """Bring a supervisor that was killed back, at longer and longer intervals if it fails."""
        pause, was_up = WATCH_SECONDS, True
        while not self._is_over.wait(pause):
            try:
                with _quiet:
                    was_up = self._look_after(was_up)
            except (QuartermasterError, OSError) as error:
                log.warning("The embedded MongoDB could not be looked after: %s", error)
                was_up = False
            pause = WATCH_SECONDS if was_up else min(2 * pause, LONGEST_WATCH_SECONDS)

    def _look_after(self, was_up: bool) -> bool:
        """Tell whether the server is there, and see to a supervisor where there is none."""
        if not is_locked(self.folder / "supervisor.lock"):
            log.warning("The embedded MongoDB has lost its supervisor; another is started.")
            self._start_supervisor()
            return False
        state = read_state(self.folder)
        if state is None and was_up:
            log.warning("The embedded MongoDB is away: %s", self._last_words())
        elif state and not was_up and state["uri"] != self.uri:
            log.error(
                "The embedded MongoDB is at another port now; this program must be restarted."
            )
        return state is not None

    def _start_supervisor(self) -> None:
        """Start the supervisor, which takes its lock and goes on in the background."""
        mongod = find_mongod(self._mongod, self.folder)
        arguments = [str(self.folder), str(mongod), str(self._cache_gb)]
        path = self.folder / "supervisor.log"
        is_long = path.exists() and path.stat().st_size > LARGEST_LOG
        with path.open("wb" if is_long else "ab") as words:
            subprocess.run(  # nosec B603 # noqa: S603 (our own module with our own arguments)
                # Isolated mode keeps this folder's module names out of the program's way.
                [sys.executable, "-I", str(Path(__file__).with_name("supervisor.py")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                # Out of the terminal's process group: Ctrl-C must not stop MongoDB first.
                start_new_session=True,
                check=False,
            )

    def _last_words(self) -> str:
        """Return what the supervisor said last."""
        lines = (self.folder / "supervisor.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason."


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
    """Return what the supervisor of a folder says of its running server."""
    try:
        state = json.loads((folder / "server.json").read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and "uri" in state else None


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
