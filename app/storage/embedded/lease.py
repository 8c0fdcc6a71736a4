"""The lease of the embedded MongoDB, which all programs with the same data folder share.

Every program holds a shared flock on ``users.lock`` while it lives. The supervisor, a process of
its own (see supervisor.py), waits for the exclusive lock, which it gets when the last program has
ended, by ``kill -9`` or otherwise, and then shuts MongoDB down. The kernel releases the locks, so
none can be stale. Every program watches the supervisor: if it was killed, and MongoDB with it, the
first program that notices starts another.
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
# Releases before 0.2.0 call it so; with another name, two of them would run two supervisors.
SUPERVISOR_LOCK = "guardian.lock"
# Held by the watching thread while it may hold another lock, such as that of a log handler, and
# before a fork: the child would inherit that lock as locked for ever. (Starting the supervisor by
# subprocess does not run these hooks.)
_no_fork = threading.Lock()
os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_no_fork.release
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
        # Blocks while a former supervisor shuts its server down.
        fcntl.flock(self._users, fcntl.LOCK_SH)
        self._is_over = threading.Event()
        # Threads do not survive a fork: only this process watches.
        self._watch = threading.Thread(
            target=self._watch_supervisor, name=f"lease of {self.folder}", daemon=True
        )
        try:
            self.uri: str = self._find_or_start()["uri"]
        except BaseException:
            self._users.close()
            raise
        self._watch.start()

    def close(self) -> None:
        """Release the server, and wait for its shutdown if no other program uses it."""
        self._is_over.set()
        self._watch.join()
        self._users.close()
        deadline = time.monotonic() + STOP_SECONDS
        while is_locked(self.folder / SUPERVISOR_LOCK) and time.monotonic() < deadline:
            if is_shared(self.folder / "users.lock"):
                return
            time.sleep(0.02)

    def _find_or_start(self) -> dict[str, Any]:
        is_ours = not is_locked(self.folder / SUPERVISOR_LOCK)
        if is_ours:
            self._start_supervisor()
        deadline = time.monotonic() + START_SECONDS
        while is_locked(self.folder / SUPERVISOR_LOCK) and time.monotonic() < deadline:
            if state := read_state(self.folder):
                if is_ours and state.get("warning"):
                    log.warning("The embedded MongoDB: %s", state["warning"])
                return state
            time.sleep(0.02)
        raise EmbeddedError(f"The embedded MongoDB did not start: {self._last_log_line()}")

    def _watch_supervisor(self) -> None:
        """Restart a supervisor that was killed, with an exponential backoff."""
        pause, was_up = WATCH_SECONDS, True
        while not self._is_over.wait(pause):
            try:
                with _no_fork:
                    was_up = self._check_supervisor(was_up)
            except (QuartermasterError, OSError) as error:
                log.warning("The embedded MongoDB could not be looked after: %s", error)
                was_up = False
            pause = WATCH_SECONDS if was_up else min(2 * pause, LONGEST_WATCH_SECONDS)

    def _check_supervisor(self, was_up: bool) -> bool:
        """Tell whether the server is up, and start a supervisor if there is none."""
        if not is_locked(self.folder / SUPERVISOR_LOCK):
            log.warning("The embedded MongoDB has lost its supervisor; another is started.")
            self._start_supervisor()
            return False
        state = read_state(self.folder)
        if state is None and was_up:
            log.warning("The embedded MongoDB is away: %s", self._last_log_line())
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
                # Isolated mode (-I): this folder's modules must not shadow others.
                [sys.executable, "-I", str(Path(__file__).with_name("supervisor.py")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                # A session of its own: Ctrl-C in the terminal must not stop MongoDB first.
                start_new_session=True,
                check=False,
            )

    def _last_log_line(self) -> str:
        """Return the last line of the supervisor's log."""
        lines = (self.folder / "supervisor.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason."


class ServeLock:
    """A lock of the one program that serves a data folder; its death releases it."""

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
        # A program that ends normally removes its process id.
        self.owner_was_killed = bool(owner)
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        # Forked workers, which may outlive this program briefly, must not hold the lock.
        os.register_at_fork(after_in_child=self._file.close)

    def close(self) -> None:
        self._file.truncate(0)
        self._file.close()


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the state that the supervisor has published of its running server."""
    try:
        state = json.loads((folder / "server.json").read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and "uri" in state else None


def running_uri(data_dir: str) -> str:
    """Return the URI of the embedded server, which somebody else has started."""
    folder = Path(data_dir).resolve() / "mongodb"
    state = read_state(folder)
    # A supervisor that was killed has left its state behind.
    if state is None or not is_locked(folder / SUPERVISOR_LOCK):
        raise EmbeddedError(
            f"No embedded MongoDB runs in {folder}: start one with make run or quartermaster serve."
        )
    uri: str = state["uri"]
    return uri


def is_locked(path: Path) -> bool:
    """Tell whether a file is locked exclusively."""
    with path.open("a") as file:
        return not _try_lock(file, fcntl.LOCK_SH)


def is_shared(path: Path) -> bool:
    """Tell whether a file has a shared lock."""
    with path.open("a") as file:
        return not _try_lock(file, fcntl.LOCK_EX) and _try_lock(file, fcntl.LOCK_SH)


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
