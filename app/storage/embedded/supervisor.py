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
from pathlib import Path
from typing import IO, Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

REPLICA_SET = "quartermaster"
NOT_YET_INITIALIZED = 94
START_SECONDS = STOP_SECONDS = 45
RESTART_SECONDS = 2.0
# MongoDB makes its journal in files of 100 MB.
LITTLE_SPACE = 300 * 1024 * 1024


def main(folder: Path, mongod: str, cache_gb: str) -> None:
    # lease.py says why it is called so.
    supervisor_lock = (folder / "guardian.lock").open("a")
    if not lock(supervisor_lock, 0.5):
        return  # another supervisor was faster, and serves this program as well
    former = retract(folder)
    if os.fork():
        return  # the lock is held; the parent need not wait for the start
    # mongod inherits the file, and so holds the lock until it ends, even if we are killed.
    server_lock, users_lock = ((folder / f"{name}.lock").open("a") for name in ("server", "users"))
    if not lock(server_lock, STOP_SECONDS) and former:
        os.kill(former, signal.SIGKILL)  # only Linux has told it to end with its supervisor
        lock(server_lock, STOP_SECONDS)
    supervise(folder, [mongod, "--wiredTigerCacheSizeGB", cache_gb], server_lock, users_lock)


def supervise(folder: Path, command: list[str], server_lock: IO[str], users_lock: IO[str]) -> None:
    """Keep mongod running until the last lease has ended."""
    process = run(folder, command, server_lock)
    try:
        if not publishes(folder, process):
            raise SystemExit(fault(folder))
        # Granted when the last lease ended, and held to the end: new leases wait for the shutdown.
        while not lock(users_lock, 0.1):
            if process.poll() is not None:
                # The cause may pass, as a full disk does, so a failure is not the end.
                retract(folder)
                print(time.strftime("%F %T"), "mongod is started again:", fault(folder), flush=True)
                time.sleep(RESTART_SECONDS)
                process = run(folder, command, server_lock)
                publishes(folder, process)
    finally:
        retract(folder)
        process.terminate()
        process.wait()


def retract(folder: Path) -> int:
    """Remove the state file: there is no usable server. Return the process id that it held."""
    pid = 0
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        pid = int(json.loads((folder / "server.json").read_text())["pid"])
    (folder / "server.json").unlink(missing_ok=True)
    return pid


def run(folder: Path, command: list[str], server_lock: IO[str]) -> subprocess.Popen[bytes]:
    """Start mongod on the former port, which clients still use, or on another."""
    (folder / "data").mkdir(exist_ok=True)
    options = ["--bind_ip=127.0.0.1", "--nounixsocket", "--oplogSize=256", "--quiet"]
    options += [f"--dbpath={folder / 'data'}", f"--replSet={REPLICA_SET}"]
    with (folder / "mongod.log").open("ab") as log:
        return subprocess.Popen(  # nosec B603 # noqa: S603 (the program that find_mongod chose)
            [*command, *options, f"--port={usable_port(folder / 'port')}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=prepare_child,
            pass_fds=[server_lock.fileno()],
        )


def prepare_child() -> None:
    """Let mongod open as many files as possible, and end with the supervisor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses an unlimited value
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def publishes(folder: Path, process: subprocess.Popen[bytes]) -> bool:
    """Write the state file as soon as the server works; tell whether it does."""
    host, deadline = f"127.0.0.1:{(folder / 'port').read_text()}", time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(PyMongoError):
            if is_primary(host):
                uri = f"mongodb://{host}/?directConnection=true"
                state = {"uri": uri, "pid": process.pid, "supervisor": os.getpid()}
                (folder / "server.new").write_text(json.dumps(state))
                (folder / "server.new").replace(folder / "server.json")
                return True
        time.sleep(0.02)
    process.kill()
    return False


def is_primary(host: str) -> bool:
    """Make a server the only member of its replica set; tell whether it is the primary."""
    client: MongoClient[Any]
    with MongoClient(host, directConnection=True, serverSelectionTimeoutMS=200) as client:
        try:
            config = client.admin.command("replSetGetConfig")["config"]
        except OperationFailure as error:
            if error.code != NOT_YET_INITIALIZED:
                raise
            config = {"_id": REPLICA_SET, "members": [{"_id": 0, "host": host}]}
            client.admin.command("replSetInitiate", config)
        if config["members"][0]["host"] != host:
            config["members"][0]["host"] = host
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)
        return bool(client.admin.command("hello")["isWritablePrimary"])


def usable_port(note: Path) -> int:
    """Return the port that was used last if it is noted and free, else any free port."""
    with socket.socket() as probe:
        # Like mongod: connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(note.read_text())))
        except (OSError, ValueError, OverflowError):
            probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    note.write_text(str(port))
    return port


def fault(folder: Path) -> str:
    """Return why mongod does not run, as far as the disk tells."""
    if shutil.disk_usage(folder).free < LITTLE_SPACE:
        return f"the disk that holds {folder} is full, or nearly so."
    return "mongod ends or does not become usable; its words are in mongod.log."


def lock(file: IO[str], seconds: float) -> bool:
    """Take a lock that another program may probe, and so hold, for an instant."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
