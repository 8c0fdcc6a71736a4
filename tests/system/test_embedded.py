"""The embedded MongoDB, through starts, deaths and obstacles."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from pymongo import MongoClient

from app.storage.embedded import EmbeddedError, Lease, find_mongod, running_uri, usable_port
from tests.system.programs import processes_with, wait_until

HOLD = """
import sys, time
from app.storage.embedded import Lease
lease = Lease(sys.argv[1])
print(lease.uri, flush=True)
time.sleep(600)
"""


@contextmanager
def holding(folder, limits=""):
    """Run another program that uses the embedded server of this folder, and kill both."""
    process = subprocess.Popen(
        [sys.executable, "-c", limits + HOLD, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    process.uri = process.stdout.readline().strip()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    stop(folder)


def stop(folder):
    """Stop the server of killed programs, as the next one does at its end."""
    if running_uri(folder / "mongodb"):
        Lease(str(folder)).close()
    wait_until(lambda: not processes_with(str(folder)))


def pid_of(folder):
    return int((folder / "mongodb" / "data" / "mongod.lock").read_text())


@pytest.fixture
def holder(tmp_path):
    """A program of the test's own, which may be killed, and its server too."""
    with holding(tmp_path) as process:
        yield process


def is_running(folder):
    return bool(processes_with(f"{folder}/mongodb/data"))


def test_it_is_a_replica_set_of_one_on_loopback_which_a_second_program_shares(holder, tmp_path):
    with MongoClient(holder.uri) as client:
        hello = client.admin.command("hello")
        assert hello["isWritablePrimary"]
        assert hello["hosts"] == [hello["me"]]
        options = client.admin.command("getCmdLineOpts")["parsed"]["net"]
        assert options["bindIp"] == "127.0.0.1"
    lease = Lease(str(tmp_path))
    assert lease.uri == holder.uri
    lease.close()
    assert is_running(tmp_path)


def test_a_server_outlives_killed_programs_until_the_last_leaves(holder, tmp_path):
    with MongoClient(holder.uri) as client:
        client.test.things.insert_one({"_id": 1})
    holder.kill()
    holder.wait()
    last = Lease(str(tmp_path))
    assert last.uri == holder.uri
    with holding(tmp_path) as other:
        other.kill()
        other.wait()
        with MongoClient(last.uri) as client:
            assert client.test.things.find_one() == {"_id": 1}
        last.close()
        assert not is_running(tmp_path)


def test_after_a_killed_server_the_next_program_starts_it_where_it_was(holder, tmp_path):
    os.kill(pid_of(tmp_path), signal.SIGKILL)
    wait_until(lambda: not running_uri(tmp_path / "mongodb"))
    lease = Lease(str(tmp_path))
    assert lease.uri == holder.uri
    lease.close()
    # The other program holds it still.
    assert is_running(tmp_path)


def test_programs_that_begin_and_end_at_once_share_one_server(tmp_path):
    def use(_):
        lease = Lease(str(tmp_path))
        with MongoClient(lease.uri) as client:
            client.test.things.insert_one({})
        lease.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(8)))
    assert not is_running(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "\n", "x", "-1", "0", "99999", "1e4", "27017 27018", b"\xff\0"]
)
def test_an_absurd_port_file_costs_nothing_but_the_port(tmp_path, content):
    note = tmp_path / "mongodb" / "port"
    note.parent.mkdir()
    note.write_bytes(content if isinstance(content, bytes) else content.encode())
    port = usable_port(note)
    assert 1023 < port < 65536
    assert usable_port(note) == port


@pytest.mark.everything
def test_it_may_open_as_many_files_as_the_hard_limit_allows(tmp_path):
    """With the usual soft limit, MongoDB would die of some hundred connections or collections."""
    limits = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (256, 5000))\n"
    with holding(tmp_path, limits) as holder, ExitStack() as stack:
        pid = pid_of(tmp_path)
        found = Path(f"/proc/{pid}/limits").read_text()
        assert re.search(r"Max open files +5000 +5000 ", found)
        client = stack.enter_context(MongoClient(holder.uri))
        address = ("127.0.0.1", client.address[1])
        for _ in range(300):
            stack.enter_context(socket.create_connection(address))
        wait_until(lambda: client.admin.command("serverStatus")["connections"]["current"] > 300)
        assert pid_of(tmp_path) == pid


def test_a_server_that_cannot_start_says_why(tmp_path):
    data = tmp_path / "mongodb" / "data"
    data.mkdir(parents=True)
    (data / "WiredTiger").write_text("nonsense")
    (data / "storage.bson").write_text("nonsense")
    with pytest.raises(Exception, match=r"did not start: mongod\.log in .* says more\."):
        Lease(str(tmp_path))


@contextmanager
def small_disk(folder):
    """Mount a disk of a megabyte in memory until the block ends."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="the superuser alone can mount a small disk")
def test_a_full_disk_is_named(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        folder = disk / "mongodb"
        folder.mkdir()
        usable_port(folder / "port")
        with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while ballast.write(b"x" * 65536):
                pass
        with pytest.raises(EmbeddedError, match=r"did not start: the disk is full\."):
            Lease(str(disk), shutil.which("true"))


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ("/no/such", r"/no/such: No such file.*QM_MONGODB_URI"),
        ("broken", r"libcurl\.so\.4: cannot open.*QM_MONGODB_URI"),
        (None, r"no wheel .* this platform.*QM_MONGODB_URI"),
    ],
)
def test_a_program_that_cannot_be_used_is_named_with_the_way_out(
    tmp_path, monkeypatch, chosen, sentence
):
    monkeypatch.setattr("app.storage.embedded.installed_programs", list)
    lacks = "echo 'libcurl.so.4: cannot open shared object file' >&2\nexit 127"
    (tmp_path / "broken").write_text(f"#!/bin/sh\n{lacks}\n")
    (tmp_path / "broken").chmod(0o755)
    with pytest.raises(EmbeddedError, match=sentence):
        find_mongod(chosen and str(tmp_path / chosen), tmp_path)


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_file_without_its_run_bit_gets_one_or_is_copied(tmp_path, monkeypatch, is_ours):
    program, folder = tmp_path / "program", tmp_path / "folder"
    folder.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    real_chmod = Path.chmod

    def chmod(path, mode):
        if path == program and not is_ours:
            raise PermissionError(path)
        real_chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", chmod)
    found = find_mongod(str(program), folder)
    assert found == (program if is_ours else folder / "mongod")
    assert os.access(found, os.X_OK)
