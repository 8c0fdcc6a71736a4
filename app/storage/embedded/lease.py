"""The lease of the embedded MongoDB, which all programs with the same data folder share.

Every program holds a shared flock on ``users.lock``, which the kernel releases if it is killed.
The supervisor (see supervisor.py) shuts MongoDB down when it gets the exclusive lock, so when the
last program has ended. A program that notices that the supervisor was killed starts another.
"""

from __future__ import annotations

import fcntl
import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from app.errors import QuartermasterError
from app.storage.embedded.mongod import find_mongod

log = logging.getLogger("quartermaster")

START_SECONDS = STOP_SECONDS = 60
WATCH_SECONDS = 1.0
# Releases before 0.2.0 call it so; with another name, two of them would run two supervisors.
SUPERVISOR_LOCK = "guardian.lock"


class EmbeddedError(QuartermasterError):
    """The embedded server cannot run."""


class Lease:
    """The use of the embedded server by this program, from start to close."""

    def __init__(self, data_dir: str, mongod: str | None = None, cache_gb: float = 1.0) -> None:
        self.folder = Path(data_dir).resolve() / "mongodb"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mongod, self._cache_gb = mongod, cache_gb
        self._users = (self.folder / "users.lock").open("w")
        # Blocks while a former supervisor shuts its server down.
        fcntl.flock(self._users, fcntl.LOCK_SH)
        self._is_over = threading.Event()
        # Threads do not survive a fork: only this process watches.
        name = f"lease of {self.folder}"
        self._watch = threading.Thread(target=self._watch_supervisor, name=name, daemon=True)
        try:
            self.uri = self._find_or_start()
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
        while self._is_supervised() and time.monotonic() < deadline:
            with (self.folder / "users.lock").open("a") as users:
                if not try_lock(users, fcntl.LOCK_EX) and try_lock(users, fcntl.LOCK_SH):
                    return
            time.sleep(0.02)

    def _is_supervised(self) -> bool:
        return is_locked(self.folder / SUPERVISOR_LOCK)

    def _find_or_start(self) -> str:
        if not self._is_supervised():
            self._start_supervisor()
        deadline = time.monotonic() + START_SECONDS
        while self._is_supervised() and time.monotonic() < deadline:
            if state := read_state(self.folder):
                return str(state["uri"])
            time.sleep(0.02)
        said = (self.folder / "supervisor.log").read_text(errors="replace").strip().splitlines()
        raise EmbeddedError(f"The embedded MongoDB did not start: {(said or ['no reason'])[-1]}")

    def _watch_supervisor(self) -> None:
        """Start another supervisor if it was killed."""
        while not self._is_over.wait(WATCH_SECONDS):
            try:
                if not self._is_supervised():
                    log.warning("The embedded MongoDB has lost its supervisor; another is started.")
                    self._start_supervisor()
            except (QuartermasterError, OSError) as error:
                log.warning("The embedded MongoDB could not be looked after: %s", error)

    def _start_supervisor(self) -> None:
        """Start the supervisor, which takes its lock and goes on in the background."""
        mongod = find_mongod(self._mongod, self.folder)
        program = str(Path(__file__).with_name("supervisor.py"))
        with (self.folder / "supervisor.log").open("ab") as words:
            subprocess.run(  # nosec B603 # noqa: S603 (our own module with our own arguments)
                # Isolated mode (-I): this folder's modules must not shadow others.
                [sys.executable, "-I", program, self.folder, mongod, str(self._cache_gb)],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                # A session of its own: Ctrl-C in the terminal must not stop MongoDB first.
                start_new_session=True,
                check=False,
            )


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the state that the supervisor has published of its running server."""
    try:
        state = json.loads((folder / "server.json").read_text())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and "uri" in state else None


def is_locked(path: Path) -> bool:
    """Tell whether a file is locked exclusively."""
    with path.open("a") as file:
        return not try_lock(file, fcntl.LOCK_SH)


def try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
