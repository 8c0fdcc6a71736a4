"""The embedded MongoDB, which all programs with the same data folder share.

Every program holds a shared flock on ``users.lock``, which the kernel releases if it is killed. The
first one starts MongoDB, and the last one to end stops it. MongoDB inherits the locked file
``server.lock``, which therefore says whether it runs. If the last program is killed, MongoDB runs
on until another program ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from app.core.errors import QuartermasterError

REPLICA_SET = "quartermaster"
OPTIONS = (
    *("--fork", "--bind_ip=127.0.0.1", "--nounixsocket", "--oplogSize=256", "--quiet"),
    *(f"--replSet={REPLICA_SET}", "--setParameter=transactionLifetimeLimitSeconds=3"),
)
START_SECONDS = STOP_SECONDS = 60


class EmbeddedError(QuartermasterError):
    """The embedded server cannot run."""


class Lease:
    """The use of the embedded server by this program, from start to close."""

    def __init__(self, data_dir: str, mongod: str | None = None, cache_gb: float = 1.0) -> None:
        self.folder = Path(data_dir).resolve() / "mongodb"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._users = (self.folder / "users.lock").open("w")
        try:
            with self._turn():
                fcntl.flock(self._users, fcntl.LOCK_SH)
                self.uri = running_uri(self.folder) or self._start(mongod, cache_gb)
        except BaseException:
            self._users.close()
            raise

    def close(self) -> None:
        """Release the server, and stop it if no other program uses it."""
        with self._turn():
            # Workers have inherited the file: to close it here would not release it.
            fcntl.flock(self._users, fcntl.LOCK_UN)
            if try_lock(self._users):
                self._stop()
        self._users.close()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let programs start and stop the server one after another."""
        with (self.folder / "turn.lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def _start(self, mongod: str | None, cache_gb: float) -> str:
        """Start mongod on its last port, which clients still use, or on another one."""
        program = find_mongod(mongod, self.folder)
        # One may run that was killed with its program before it was usable.
        self._stop()
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        host = f"127.0.0.1:{usable_port(self.folder / 'port')}"
        options = {
            "port": host.partition(":")[2],
            "dbpath": data,
            "logpath": self.folder / "mongod.log",
            "wiredTigerCacheSizeGB": cache_gb,
        }
        with (self.folder / "server.lock").open("a") as lock:
            try_lock(lock)
            # It returns when the server accepts connections, which goes on in the background.
            subprocess.run(  # nosec B603 # noqa: S603 (the program that find_mongod chose)
                [program, *OPTIONS, "--logappend", *(f"--{k}={v}" for k, v in options.items())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=raise_open_files,
                pass_fds=[lock.fileno()],
                check=False,
            )
        deadline = time.monotonic() + START_SECONDS
        while is_running(self.folder) and time.monotonic() < deadline:
            with contextlib.suppress(PyMongoError):
                if is_primary(host):
                    uri = f"mongodb://{host}/?directConnection=true"
                    (self.folder / "server.json").write_text(json.dumps({"uri": uri}))
                    return uri
            time.sleep(0.02)
        self._stop()
        reason = f"mongod.log in {self.folder} says more"
        # MongoDB allocates its journal in files of 100 MB.
        if shutil.disk_usage(self.folder).free < 300 * 1024 * 1024:
            reason = "the disk is full"
        raise EmbeddedError(f"The embedded MongoDB did not start: {reason}.")

    def _stop(self) -> None:
        """Stop the server if it runs, and wait for its end."""
        (self.folder / "server.json").unlink(missing_ok=True)
        if is_running(self.folder):
            os.kill(int((self.folder / "data" / "mongod.lock").read_text()), signal.SIGTERM)
            with (self.folder / "server.lock").open("a") as lock:
                try_lock(lock, seconds=STOP_SECONDS)


def running_uri(folder: Path) -> str | None:
    """Return the URI of the server; None if none is usable."""
    with contextlib.suppress(OSError):
        state = (folder / "server.json").read_text()
        if is_running(folder):
            return str(json.loads(state)["uri"])
    return None


def is_running(folder: Path) -> bool:
    with (folder / "server.lock").open("a") as lock:
        return not try_lock(lock, fcntl.LOCK_SH)


def raise_open_files() -> None:
    """Raise the soft limit of open files, also for forked processes, to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses an unlimited value
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def is_primary(host: str) -> bool:
    """Make a server the only member of its replica set; return whether it is the primary."""
    with MongoClient[Any](host, directConnection=True, serverSelectionTimeoutMS=200) as client:
        alone = {"_id": REPLICA_SET, "members": [{"_id": 0, "host": host}]}
        with contextlib.suppress(OperationFailure):  # it was initialised before
            client.admin.command("replSetInitiate", alone)
        config = client.admin.command("replSetGetConfig")["config"]
        if config["members"][0]["host"] != host:
            config["members"][0]["host"] = host
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)
        return bool(client.admin.command("hello")["isWritablePrimary"])


def usable_port(note: Path) -> int:
    """Return the last port if it is recorded and free, else any free port."""
    # Like mongod, create_server accepts a port with connections in TIME_WAIT.
    with contextlib.suppress(OSError, ValueError):
        if 0 < (port := int(note.read_text())) < 65536:
            socket.create_server(("127.0.0.1", port)).close()
            return port
    with socket.create_server(("127.0.0.1", 0)) as probe:
        note.write_text(str(probe.getsockname()[1]))
    return int(note.read_text())


def try_lock(file: IO[str], kind: int = fcntl.LOCK_EX, seconds: float = 0) -> bool:
    """Try to take a lock within some seconds; return whether it was granted."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)


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
