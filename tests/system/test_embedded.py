"""The embedded MongoDB, through starts, deaths and obstacles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pymongo import MongoClient

from app.storage.embedded import Lease, read_state
from app.storage.mongod import NoMongod, find_mongod
from tests.system.programs import processes_with, wait_until

HOLD = """
import sys, time
from app.storage.embedded import Lease
lease = Lease(sys.argv[1])
print(lease.uri, flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another program that uses the embedded server of this folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    process.uri = process.stdout.readline().strip()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: not processes_with(str(tmp_path)))


def is_running(folder):
    return bool(processes_with(f"{folder}/mongodb/data"))


def test_it_is_a_replica_set_of_one_on_loopback(holder):
    with MongoClient(holder.uri) as client:
        hello = client.admin.command("hello")
        assert hello["isWritablePrimary"]
        assert hello["hosts"] == [hello["me"]]
        options = client.admin.command("getCmdLineOpts")["parsed"]["net"]
        assert options["bindIp"] == "127.0.0.1"


def test_a_second_program_finds_the_running_server(holder, tmp_path):
    lease = Lease(str(tmp_path))
    assert lease.uri == holder.uri
    lease.close()
    assert is_running(tmp_path)


def test_whoever_leaves_last_turns_it_off(holder, tmp_path):
    lease = Lease(str(tmp_path))
    holder.kill()
    holder.wait()
    with MongoClient(lease.uri) as client:
        assert client.admin.command("ping")
    lease.close()
    assert not is_running(tmp_path)
    wait_until(lambda: not processes_with(str(tmp_path / "mongodb")), seconds=2)


def test_a_killed_program_leaves_no_orphan_and_its_data(holder, tmp_path):
    with MongoClient(holder.uri) as client:
        client.test.things.insert_one({"_id": 1})
    holder.kill()
    wait_until(lambda: not processes_with(str(tmp_path / "mongodb")))
    lease = Lease(str(tmp_path))
    with MongoClient(lease.uri) as client:
        assert client.test.things.find_one() == {"_id": 1}
    lease.close()


def test_a_start_right_after_a_kill_waits_for_the_old_server(holder, tmp_path):
    with MongoClient(holder.uri) as client:
        client.test.things.insert_one({"_id": 1})
    holder.kill()
    holder.wait()
    lease = Lease(str(tmp_path))
    with MongoClient(lease.uri) as client:
        assert client.test.things.find_one() == {"_id": 1}
    lease.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stops a child with its parent")
def test_even_a_killed_guardian_takes_its_server_along(holder, tmp_path):
    os.kill(read_state(tmp_path / "mongodb")["guardian"], signal.SIGKILL)
    wait_until(lambda: not is_running(tmp_path))
    holder.kill()
    holder.wait()
    Lease(str(tmp_path)).close()


def test_a_killed_server_is_started_again_where_it_was(holder, tmp_path):
    with MongoClient(holder.uri, serverSelectionTimeoutMS=20_000) as client:
        client.test.things.insert_one({"_id": 1})
        killed = read_state(tmp_path / "mongodb")["pid"]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: (read_state(tmp_path / "mongodb") or {}).get("pid", killed) != killed)
        assert client.test.things.find_one() == {"_id": 1}
        client.test.things.insert_one({"_id": 2})
    assert read_state(tmp_path / "mongodb")["uri"] == holder.uri


def test_after_a_killed_guardian_the_next_program_revives_the_server_where_it_was(holder, tmp_path):
    os.kill(read_state(tmp_path / "mongodb")["guardian"], signal.SIGKILL)
    wait_until(lambda: not is_running(tmp_path))
    lease = Lease(str(tmp_path))
    assert lease.uri == holder.uri
    lease.close()


def test_a_server_that_cannot_start_says_why(tmp_path):
    data = tmp_path / "mongodb" / "data"
    data.mkdir(parents=True)
    (data / "WiredTiger").write_text("nonsense")
    (data / "storage.bson").write_text("nonsense")
    with pytest.raises(Exception, match="did not start: mongod ends or"):
        Lease(str(tmp_path))


def test_a_chosen_program_that_is_missing_is_named_with_the_way_out(tmp_path):
    with pytest.raises(NoMongod, match=r"/no/such: No such file.*QM_MONGODB_URI"):
        find_mongod("/no/such", tmp_path)


def test_a_program_that_does_not_run_here_says_what_it_lacks(tmp_path):
    broken = tmp_path / "mongod"
    broken.write_text(
        "#!/bin/sh\necho 'libcurl.so.4: cannot open shared object file' >&2\nexit 127\n"
    )
    broken.chmod(0o755)
    with pytest.raises(NoMongod, match=r"libcurl\.so\.4: cannot open.*QM_MONGODB_URI"):
        find_mongod(str(broken), tmp_path)


def test_without_any_program_the_way_out_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("app.storage.mongod._candidates", lambda _: [])
    with pytest.raises(NoMongod, match=r"no wheel .* this platform.*QM_MONGODB_URI"):
        find_mongod(None, tmp_path)


def test_a_file_without_its_run_bit_gets_one(tmp_path):
    program = tmp_path / "mongod"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    assert find_mongod(str(program), tmp_path) == program
    assert os.access(program, os.X_OK)


def test_a_file_of_somebody_else_is_copied_to_get_one(tmp_path, monkeypatch):
    program, folder = tmp_path / "program", tmp_path / "folder"
    folder.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    real_chmod = Path.chmod

    def chmod(path, mode):
        if path == program:
            raise PermissionError(path)
        real_chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", chmod)
    assert find_mongod(str(program), folder) == folder / "mongod"
