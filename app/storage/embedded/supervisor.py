"""Runs the embedded MongoDB while at least one program has a lease on it.

Started as a program by lease.py beside it. It imports nothing of this project, to start fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

REPLICA_SET = "quartermaster"
# As lease.py has it.
SUPERVISOR_LOCK = "guardian.lock"
NOT_YET_INITIALIZED = 94
LOCK_SECONDS = 0.5
START_SECONDS = 45
STOP_SECONDS = 45
ATTEMPTS = 3
POLL_SECONDS = 0.1
# The pause before a restart; doubled each time if the server soon ends again.
REVIVE_SECONDS = 2.0
LONGEST_REVIVE_SECONDS = 30.0
STEADY_SECONDS = 60.0
NO_SPACE = b"No space left on device"
TOO_MANY_FILES = b"Too many open files"
# For MongoDB every connection, collection and index is an open file.
FEW_FILES = 4096
LOG_END_BYTES = 64 * 1024
# MongoDB makes its journal in files of 100 MB, and its log may have no room to say so.
LITTLE_SPACE = 300 * 1024 * 1024


def main(folder: Path, mongod: str, cache_gb: str) -> int:
    supervisor_lock = (folder / SUPERVISOR_LOCK).open("a")
    users_lock = (folder / "users.lock").open("a")
    if not _lock_within(supervisor_lock, LOCK_SECONDS):
        return 0  # another supervisor was faster, and serves this program as well
    server = Server(folder, mongod, cache_gb, files=_raise_file_limit())
    former = _state_of(folder).get("pid")
    # Before the lock shows that there is a supervisor: a killed one left a stale server.json.
    server.retract()
    if os.fork():
        return 0  # the lock is held; the parent need not wait for the start
    _log(f"The supervisor, process {os.getpid()}, begins.")
    try:
        server.outlast(former)
        server.start()
        # Granted when the last lease ended, and held to the end: new leases wait for the shutdown.
        while not _try_lock(users_lock):
            time.sleep(POLL_SECONDS)
            server.revive()
    finally:
        server.stop()
    return 0


class Restarts:
    """When a server that ended may be started again: later each time if it soon ends again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at = self._not_before = 0.0
        self._pause = REVIVE_SECONDS / 2

    def are_due(self) -> bool:
        return self._clock() >= self._not_before

    def lived(self) -> float:
        """Return how many seconds ago the server was started."""
        return self._clock() - self._started_at

    def begin(self) -> None:
        self._started_at = self._clock()

    def succeeded(self, lived: float) -> None:
        """Note that the server works again, after one that lived for so many seconds."""
        self._pause = 2 * self._pause if lived < STEADY_SECONDS else REVIVE_SECONDS
        self._not_before = self._clock() + min(self._pause, LONGEST_REVIVE_SECONDS)

    def failed(self) -> None:
        self._not_before = self._clock() + REVIVE_SECONDS


class Server:
    """One mongod process, and the state file that tells other programs of it."""

    def __init__(self, folder: Path, mongod: str, cache_gb: str, files: int) -> None:
        self._folder = folder
        self._command = [mongod, "--wiredTigerCacheSizeGB", cache_gb]
        self._state = folder / "server.json"
        # mongod inherits the file, and so holds the lock until it ends, even if we are killed.
        self._lock = (folder / "server.lock").open("a")
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._files = files
        self._restarts = Restarts()

    def outlast(self, former: int | None) -> None:
        """Wait for the mongod of a killed supervisor: it still has the port and the data."""
        for signal_ in (signal.SIGTERM, signal.SIGKILL):
            if _lock_within(self._lock, 0):
                return
            # On Linux, the parent death signal has told it to end; elsewhere nothing has.
            if former:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(former, signal_)
            if _lock_within(self._lock, STOP_SECONDS):
                return
        raise SystemExit("the mongod of a killed supervisor does not end, and has the data.")

    def start(self) -> None:
        """Start on the former port, which the clients of a crashed server still use, or another."""
        self.retract()
        deadline = time.monotonic() + START_SECONDS
        for attempt in range(ATTEMPTS):
            self._port = _usable_port(self._folder / "port", other=attempt > 0)
            if self._starts(deadline):
                return
        raise SystemExit(self._fault())

    def revive(self) -> None:
        """Restart a server that has died, on the same port."""
        if not self._process or self._process.poll() is None or not self._restarts.are_due():
            return
        self.retract()
        lived, code = self._restarts.lived(), self._process.returncode
        _log(f"mongod ended with {code} after {lived:.0f} s, and is started again: {self._fault()}")
        # The cause may pass, as a full disk does, so an error is not the end.
        with contextlib.suppress(OSError):
            if self._starts(time.monotonic() + START_SECONDS):
                self._restarts.succeeded(lived)
                return
        self._restarts.failed()

    def stop(self) -> None:
        self.retract()
        self._end()

    def retract(self) -> None:
        """Remove the state file: there is no usable server."""
        self._state.unlink(missing_ok=True)

    def _starts(self, deadline: float) -> bool:
        self._restarts.begin()
        self._process = self._run(self._port)
        if self._becomes_primary(self._port, deadline):
            self._publish(self._port)
            return True
        self._end()
        return False

    def _fault(self) -> str:
        """Return why mongod does not run, as far as its log and the disk tell."""
        said = _end_of(self._folder / "mongod.log")
        if shutil.disk_usage(self._folder).free < LITTLE_SPACE or NO_SPACE in said:
            return f"the disk that holds {self._folder} is full, or nearly so."
        if TOO_MANY_FILES in said:
            return _few_files_warning(self._files)
        return "mongod ends or does not become usable; its words are in mongod.log."

    def _run(self, port: int) -> subprocess.Popen[bytes]:
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        with _fresh_log(self._folder / "mongod.log") as log:
            return subprocess.Popen(  # nosec B603 # noqa: S603 (the program that find_mongod chose)
                [
                    *self._command,
                    f"--dbpath={data}",
                    f"--replSet={REPLICA_SET}",
                    "--bind_ip=127.0.0.1",
                    f"--port={port}",
                    "--nounixsocket",
                    "--oplogSize=256",
                    "--quiet",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
                pass_fds=[self._lock.fileno()],
            )

    def _becomes_primary(self, port: int, deadline: float) -> bool:
        client: MongoClient[dict[str, Any]] = MongoClient(
            "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=200
        )
        with client:
            return self._until(lambda: _configured(client, port), deadline) and self._until(
                lambda: bool(client.admin.command("hello")["isWritablePrimary"]), deadline
            )

    def _until(self, holds: Callable[[], bool], deadline: float) -> bool:
        while self._process and self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(PyMongoError):
                if holds():
                    return True
            time.sleep(0.02)
        return False

    def _publish(self, port: int) -> None:
        """Write the state file atomically."""
        uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        pid = self._process.pid if self._process else 0
        draft = self._state.with_suffix(".new")
        warning = _few_files_warning(self._files) if self._files < FEW_FILES else None
        state = {"uri": uri, "pid": pid, "supervisor": os.getpid(), "warning": warning}
        draft.write_text(json.dumps(state))
        draft.replace(self._state)
        if warning:
            _log(warning)

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _configured(client: MongoClient[dict[str, Any]], port: int) -> bool:
    """Make this server the only member of its replica set, under its current port."""
    host = f"127.0.0.1:{port}"
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != NOT_YET_INITIALIZED:
            raise
        members = [{"_id": 0, "host": host}]
        client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
    else:
        if config["members"][0]["host"] != host:
            config["members"][0]["host"] = host
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)
    return True


def _usable_port(note: Path, other: bool) -> int:
    """Return the port that was used last if it is free and wanted, else any free port."""
    former = 0 if other else _noted_port(note)
    with socket.socket() as probe:
        # Like mongod: connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", former))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    # If it cannot be noted, the next start uses another port, which is harmless.
    with contextlib.suppress(OSError):
        note.write_text(str(port))
    return port


def _noted_port(note: Path) -> int:
    """Return the noted port, or 0 if there is none."""
    try:
        port = int(note.read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 65536 else 0


def _state_of(folder: Path) -> dict[str, Any]:
    """Return the state file that a killed supervisor left."""
    try:
        state = json.loads((folder / "server.json").read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _raise_file_limit() -> int:
    """Raise the soft limit of open files, which mongod inherits; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS refuses an unlimited value, and allows OPEN_MAX.
    for wanted in (hard, 10240):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else sys.maxsize


def _few_files_warning(files: int) -> str:
    return (
        f"mongod may open only {files} files, connections included, and may end for want of more: "
        f"raise the hard limit (ulimit -Hn) to {FEW_FILES} or more."
    )


def _log(sentence: str) -> None:
    """Write a line to supervisor.log, which is standard output."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sentence}", flush=True)


def _end_of(log: Path) -> bytes:
    """Return the end of a log, which may be long."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_END_BYTES))
            return file.read()
    except OSError:
        return b""


def _fresh_log(log: Path) -> IO[bytes]:
    """Start a new log and keep the previous one, which may tell of a crash."""
    with contextlib.suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    return log.open("wb")


def _die_with_parent() -> None:
    """Ask Linux to terminate mongod if the supervisor is killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _lock_within(file: IO[str], seconds: float) -> bool:
    """Take a lock that another program may probe, and so hold, for an instant."""
    deadline = time.monotonic() + seconds
    while not _try_lock(file):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
