"""Runs the embedded MongoDB while at least one program has a lease on it.

lease.py starts this as a program. It imports nothing from this project, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
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
OPTIONS = (
    *("--bind_ip=127.0.0.1", "--nounixsocket", "--oplogSize=256", "--quiet"),
    "--setParameter=transactionLifetimeLimitSeconds=3",
)
START_SECONDS = STOP_SECONDS = 45
# The name from before 0.2.0: with another name, two releases would run two supervisors.
SUPERVISOR_LOCK = "guardian.lock"


def main(folder: Path, mongod: str, cache_gb: str) -> None:
    """Run mongod until the last lease ends, or mongod does; the next program starts us again."""
    names = (SUPERVISOR_LOCK, "server.lock", "users.lock")
    supervisor_lock, server_lock, users_lock = ((folder / name).open("a") for name in names)
    if not try_lock(supervisor_lock, seconds=0.5):
        return  # another supervisor was faster, and also serves this program
    former = read_state(folder)
    (folder / "server.json").unlink(missing_ok=True)
    if os.fork():
        return  # the lock is held; the parent need not wait for the start
    # mongod inherits the file, and so holds the lock until it ends, even if we are killed.
    if not try_lock(server_lock, seconds=STOP_SECONDS) and former:
        os.kill(former["pid"], signal.SIGKILL)  # it outlived its supervisor (not on Linux)
        try_lock(server_lock, seconds=STOP_SECONDS)
    process = run(folder, [mongod, "--wiredTigerCacheSizeGB", cache_gb], server_lock)
    try:
        publish(folder, process)
        while process.poll() is None:
            # Granted when the last lease ends, and held until the shutdown: new leases wait for it.
            if try_lock(users_lock, seconds=0.1):
                return
    finally:
        (folder / "server.json").unlink(missing_ok=True)
        process.terminate()
        process.wait()


def run(folder: Path, command: list[str], server_lock: IO[str]) -> subprocess.Popen[bytes]:
    """Start mongod on its last port, which clients still use, or on another one."""
    (folder / "data").mkdir(exist_ok=True)
    port = f"--port={usable_port(folder / 'port')}"
    options = [port, f"--dbpath={folder / 'data'}", f"--replSet={REPLICA_SET}", *OPTIONS]
    with (folder / "mongod.log").open("ab") as log:
        return subprocess.Popen(  # nosec B603 # noqa: S603 (the program that find_mongod chose)
            [*command, *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=prepare_child,
            pass_fds=[server_lock.fileno()],
        )


def prepare_child() -> None:
    """Raise the limit of open files for mongod, and let it end with the supervisor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses an unlimited value
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def publish(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Write the state file once the server is usable; kill a server that takes too long."""
    host, deadline = f"127.0.0.1:{(folder / 'port').read_text()}", time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(PyMongoError):
            if is_primary(host):
                uri = f"mongodb://{host}/?directConnection=true"
                state = {"uri": uri, "pid": process.pid, "supervisor": os.getpid()}
                (folder / "server.new").write_text(json.dumps(state))
                (folder / "server.new").replace(folder / "server.json")
                return
        time.sleep(0.02)
    process.kill()
    process.wait()


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return the published state of the running server; None if there is no usable one."""
    try:
        state = json.loads((folder / "server.json").read_text())
        return {**state, "uri": str(state["uri"]), "pid": int(state["pid"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None


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


def is_supervised(folder: Path) -> bool:
    """Return whether a supervisor runs for this folder."""
    with (folder / SUPERVISOR_LOCK).open("a") as file:
        return not try_lock(file, fcntl.LOCK_SH)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
