"""The lease of the embedded MongoDB, which all programs with the same data folder share.

Every program holds a shared flock on ``users.lock``, which the kernel releases if it is killed. The
supervisor (see supervisor.py) shuts MongoDB down when it gets the exclusive lock, that is when the
last program has ended. If it ends earlier, the next program starts it again.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from app.core.errors import QuartermasterError
from app.storage.embedded import supervisor
from app.storage.embedded.supervisor import is_supervised, read_state, try_lock

START_SECONDS = STOP_SECONDS = 60


class EmbeddedError(QuartermasterError):
    """The embedded server cannot run."""


class Lease:
    """The use of the embedded server by this program, from start to close."""

    def __init__(self, data_dir: str, mongod: str | None = None, cache_gb: float = 1.0) -> None:
        self.folder = Path(data_dir).resolve() / "mongodb"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mongod, self._cache_gb = mongod, str(cache_gb)
        self._users = (self.folder / "users.lock").open("w")
        # Blocks while a previous supervisor shuts its server down.
        fcntl.flock(self._users, fcntl.LOCK_SH)
        try:
            self.uri = self._find_or_start()
        except BaseException:
            self._users.close()
            raise

    def close(self) -> None:
        """Release the server, and wait for its shutdown if no other program uses it."""
        self._users.close()
        deadline = time.monotonic() + STOP_SECONDS
        while is_supervised(self.folder) and time.monotonic() < deadline:
            with (self.folder / "users.lock").open("a") as users:
                if not try_lock(users) and try_lock(users, fcntl.LOCK_SH):
                    return
            time.sleep(0.02)

    def _find_or_start(self) -> str:
        if not is_supervised(self.folder):
            self._start_supervisor()
        deadline = time.monotonic() + START_SECONDS
        while is_supervised(self.folder) and time.monotonic() < deadline:
            if state := read_state(self.folder):
                return str(state["uri"])
            time.sleep(0.02)
        reason = f"mongod.log and supervisor.log in {self.folder} say more"
        # Found out here, because the supervisor cannot write to its log on a full disk. MongoDB
        # allocates its journal in files of 100 MB.
        if shutil.disk_usage(self.folder).free < 300 * 1024 * 1024:
            reason = "the disk is full"
        raise EmbeddedError(f"The embedded MongoDB did not start: {reason}.")

    def _start_supervisor(self) -> None:
        """Start the supervisor, which takes its lock and continues in the background."""
        mongod = find_mongod(self._mongod, self.folder)
        with (self.folder / "supervisor.log").open("ab") as output:
            subprocess.run(  # nosec B603 # noqa: S603 (our own module with our own arguments)
                # Isolated mode (-I): this folder's modules must not shadow others.
                [sys.executable, "-I", supervisor.__file__, self.folder, mongod, self._cache_gb],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A session of its own: Ctrl-C in the terminal must not stop MongoDB first.
                start_new_session=True,
                check=False,
            )


def find_mongod(chosen: str | None, folder: Path) -> Path:
    """Return the chosen program, or the first from the wheel and the PATH that runs here."""
    faults = []
    for candidate in [Path(chosen)] if chosen else installed_programs():
        program = executable(candidate, folder)
        try:
            subprocess.run(  # nosec B603 # noqa: S603 (the operator chose or installed it)
                [program, "--version"], capture_output=True, text=True, timeout=30, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = str(getattr(error, "stderr", None) or getattr(error, "strerror", None) or error)
            faults.append(f"{candidate}: {said.strip().splitlines()[-1]}")
        else:
            return program
    tried = "; ".join(faults) or "no wheel with a server for this platform is installed"
    raise EmbeddedError(
        f"No MongoDB server can be started here ({tried}). Set QM_MONGODB_URI to a MongoDB of "
        "yours, or QM_MONGOD to a mongod program."
    )


def installed_programs() -> list[Path]:
    # Found without importing it: the package runs code at import.
    spec = importlib.util.find_spec("fiftyone")
    folders = (spec and spec.submodule_search_locations) or ()
    wheel = [Path(folder) / "db" / "bin" / "mongod" for folder in folders]
    return [path for path in (*wheel, Path(shutil.which("mongod") or "/none")) if path.exists()]


def executable(program: Path, folder: Path) -> Path:
    """Set the executable bit, on a copy if the file belongs to another user."""
    if program.exists() and not os.access(program, os.X_OK):
        try:
            program.chmod(0o755)
        except PermissionError:
            program = Path(shutil.copyfile(program, folder / "mongod"))
            program.chmod(0o755)
    return program
