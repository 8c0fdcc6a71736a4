"""MongoDB servers that the tests start: mostly one for each worker, as cheap as MongoDB allows.

``QM_TEST_MONGOD=/path/to/mongod`` names another server than the one in the wheel.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from app.storage.embedded import find_mongod

# For tests that mongomock cannot run: threads, snapshots, some expressions.
on_mongodb = pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
CHOICE = "QM_TEST_MONGOD"
CHOSEN = os.environ.get(CHOICE)
REPLICA_SET = "quartermaster"
COMMON = (
    *("--bind_ip=127.0.0.1", "--nounixsocket", "--quiet"),
    "--setParameter=transactionLifetimeLimitSeconds=3",
)
SMALL = ("--wiredTigerCacheSizeGB=0.25",)
# No checkpoints, few writes of the journal, no diagnostic files: nothing has to outlive the server.
CHEAP = (
    *("--wiredTigerCacheSizeGB=0.5", "--oplogSize=256", "--syncdelay=0"),
    *("--journalCommitInterval=500", "--setParameter=diagnosticDataCollectionEnabled=false"),
    "--setParameter=disableLogicalSessionCacheRefresh=true",
)
MEMORY, ROOM = Path("/dev/shm"), 2 * 2**30
START_SECONDS = 120


def program(folder):
    """Return the mongod of the tests."""
    return str(find_mongod(CHOSEN, Path(folder)))


@contextmanager
def running(folder, port, *options):
    """Run a server until the block ends, and then kill it; yield a client of it."""
    command = [program(folder), f"--dbpath={folder}", f"--port={port}", *COMMON, *options]
    with (Path(folder) / "mongod.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with MongoClient("127.0.0.1", port, directConnection=True) as client:
            _wait_for(client, process, Path(folder) / "mongod.log")
            yield client
    finally:
        process.kill()
        process.wait()


def _wait_for(client, process, log):
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(PyMongoError):
            client.admin.command("ping")
            return
    raise AssertionError(f"mongod did not start: {log.read_text(errors='replace')[-2000:]}")


@contextmanager
def shared(port):
    """Run a replica set of one that keeps its files in memory; yield its URI."""
    options = (f"--replSet={REPLICA_SET}", *CHEAP)
    with folder_in_memory() as folder, running(folder, port, *options) as client:
        # A write that a majority has need not be in the journal as well.
        initiate(client, port, writeConcernMajorityJournalDefault=False)
        yield f"mongodb://127.0.0.1:{port}/?directConnection=true"


def initiate(client, *ports, **config):
    """Make a replica set of servers, and wait until the one that is asked is the primary."""
    members = [{"_id": n, "host": f"127.0.0.1:{port}"} for n, port in enumerate(ports)]
    config = {"_id": REPLICA_SET, "members": members, **config}
    client.admin.command("replSetInitiate", config)
    while not client.admin.command("hello")["isWritablePrimary"]:
        time.sleep(0.02)


@contextmanager
def folder_in_memory():
    """Make a folder on tmpfs where there is room, and remove it and what killed runs have left."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    place = MEMORY if has_room else Path(tempfile.gettempdir())
    for left in place.glob("quartermaster-tests-*"):
        pid = re.match(r"quartermaster-tests-(\d+)-", left.name)
        if pid and not Path(f"/proc/{pid[1]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=f"quartermaster-tests-{os.getpid()}-", dir=place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
