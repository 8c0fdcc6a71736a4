"""Runs the embedded MongoDB for as long as somebody uses it.

Started as a program by app.storage.embedded. It imports nothing of this project, to start fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
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
NOT_YET_INITIALIZED = 94
START_SECONDS = 50
STOP_SECONDS = 50


def main(folder: Path, mongod: str, cache_gb: str) -> int:
    guardian_lock = (folder / "guardian.lock").open("a")
    try:
        fcntl.flock(guardian_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0  # somebody else's guardian was faster, and serves us as well
    if os.fork():
        return 0  # the lock is taken; whoever started us need not wait for the rest
    users = (folder / "users.lock").open("a")
    state = folder / "server.json"
    state.unlink(missing_ok=True)
    port = _free_port()
    server = _start(folder, mongod, cache_gb, port)
    try:
        _make_primary(server, port)
        _publish(state, port, server.pid)
        # Granted when the last user is gone, and kept to the end: newcomers wait for ours.
        fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        state.unlink(missing_ok=True)
        _stop(server)
    return 0


def _start(folder: Path, mongod: str, cache_gb: str, port: int) -> subprocess.Popen[bytes]:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    return subprocess.Popen(  # noqa: S603 (the program that find_mongod chose)
        [
            *(mongod, "--dbpath", str(data), "--replSet", REPLICA_SET),
            *("--bind_ip", "127.0.0.1", "--port", str(port), "--nounixsocket"),
            *("--wiredTigerCacheSizeGB", cache_gb, "--oplogSize", "256", "--quiet"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=_fresh_log(folder),
        stderr=subprocess.STDOUT,
        preexec_fn=_die_with_parent,
    )


def _fresh_log(folder: Path) -> IO[bytes]:
    """Start a new log and keep the one before it, which may tell of a crash."""
    log = folder / "mongod.log"
    with contextlib.suppress(FileNotFoundError):
        log.replace(folder / "mongod.log.1")
    return log.open("wb")


def _die_with_parent() -> None:
    """Ask Linux to stop MongoDB should even the guardian be killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _make_primary(server: subprocess.Popen[bytes], port: int) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(
        "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=200
    )
    with client:
        _until(server, lambda: bool(client.admin.command("ping")))
        _configure(client, f"127.0.0.1:{port}")
        _until(server, lambda: bool(client.admin.command("hello")["isWritablePrimary"]))


def _configure(client: MongoClient[dict[str, Any]], host: str) -> None:
    """Make this server the only member; its port is another at each start."""
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != NOT_YET_INITIALIZED:
            raise
        members = [{"_id": 0, "host": host}]
        client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
    else:
        config["members"][0]["host"] = host
        config["version"] += 1
        client.admin.command("replSetReconfig", config, force=True)


def _until(server: subprocess.Popen[bytes], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"mongod ended with {server.returncode}; its words are in mongod.log.")
        with contextlib.suppress(PyMongoError):
            if holds():
                return
        time.sleep(0.02)
    raise SystemExit("mongod runs, but did not become usable.")


def _publish(state: Path, port: int, pid: int) -> None:
    """Tell other programs where the server is, in one step."""
    uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
    draft = state.with_suffix(".new")
    draft.write_text(json.dumps({"uri": uri, "pid": pid, "guardian": os.getpid()}))
    draft.replace(state)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
