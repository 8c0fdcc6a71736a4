"""A backup is worth what its restore is: here one is tried, on a database with everything in it.

Debian has no package of MongoDB's own tools, so not every machine has them. Where mongodump is on
the PATH, the scripts of deploy/ are tried with it. Export and import: test_round_trip.py.
"""

import os
import re
import shutil
import stat
import subprocess
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.exposition import Exposition

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME, TRIAL = "quartermaster", "quartermaster_trial"


def contents(db):
    """Return all that a restore has to bring back: documents, indexes and validators."""
    return {
        name: (
            sorted(db[name].find(), key=lambda document: str(document["_id"])),
            db[name].index_information(),
            db[name].options(),
        )
        for name in sorted(db.list_collection_names())
    }


if shutil.which("mongodump"):

    @pytest.mark.parametrize("database", [NAME, TRIAL])
    def test_a_dump_restores_all_there_was(tmp_path, mongodb_uri, quartermaster, real_db, database):
        assert quartermaster("seed", "--players", 60, "--users", 20).exit_code == 0
        configs = {"dump": tmp_path / "dump.yaml", "restore": tmp_path / "restore.yaml"}
        configs["dump"].write_text(f"uri: {with_database(mongodb_uri, NAME)}\n")
        configs["restore"].write_text(f"uri: {mongodb_uri}\n")
        before = contents(real_db)
        file = script("backup", configs["dump"], tmp_path).splitlines()[-1]
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
        # What came after the backup goes, and what was lost comes back.
        real_db.players.delete_many({"Level": {"$gt": 10}})
        real_db.users.update_many({}, {"$set": {"IsMuted": True}})
        script("restore", configs["restore"], file, *([database] if database == TRIAL else []))
        assert contents(real_db.client[database]) == before
        real_db.client.drop_database(TRIAL)


def with_database(uri, name):
    address, _, options = uri.partition("/?")
    return f"{address.rstrip('/')}/{name}?{options}"


def script(name, *arguments):
    done = subprocess.run(
        [DEPLOY / name, *map(str, arguments)], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_old_dump_goes_only_when_a_new_one_is_whole(tmp_path):
    old = tmp_path / "quartermaster-20200101T000000Z.archive.gz"
    old.touch()
    os.utime(old, (0, 0))
    tool = tmp_path / "mongodump"
    for ending, expected in ((1, 1), (0, 1)):
        tool.write_text(f'#!/bin/sh\nfor word; do :; done; touch "${{word#*=}}"; exit {ending}\n')
        tool.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        arguments = [DEPLOY / "backup", "x.yaml", tmp_path]
        done = subprocess.run(arguments, env={"PATH": path}, capture_output=True)
        assert done.returncode == ending
        assert len(list(tmp_path.glob("*.archive.gz*"))) == expected
        assert old.exists() == (ending == 1)


def test_a_whole_backup_leaves_a_note_for_prometheus(tmp_path):
    dumps, notes = tmp_path / "dumps", tmp_path / "notes"
    dumps.mkdir()
    (dumps / "quartermaster-20200101T000000Z.archive.gz").write_bytes(b"older")
    (dumps / "quartermaster-20260101T000000Z.archive.gz").write_bytes(b"the newest")
    # Where no exporter is installed, there is nobody to tell.
    script("backup-note", dumps, notes)
    notes.mkdir()
    for _ in range(2):
        before = int(time.time())
        script("backup-note", dumps, notes)
        (note,) = notes.iterdir()
        shown = Exposition(note.read_text())
        at = shown.sum("backup_last_success_timestamp_seconds")
        assert before <= at <= time.time()
        assert shown.sum("backup_last_size_bytes") == len(b"the newest")
        # The exporter is another user, and reads no file with another ending.
        assert stat.S_IMODE(note.stat().st_mode) == 0o644
        assert note.name == "quartermaster_backup.prom"


def test_without_a_backup_there_is_no_note_of_one(tmp_path):
    dumps, notes = tmp_path / "dumps", tmp_path / "notes"
    dumps.mkdir()
    notes.mkdir()
    done = subprocess.run([DEPLOY / "backup-note", dumps, notes], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no backup is noted" in done.stderr
    assert list(notes.iterdir()) == []


@pytest.mark.parametrize("name", ["backup", "restore", "backup-note"])
def test_a_script_without_its_arguments_says_which(name):
    done = subprocess.run([DEPLOY / name], capture_output=True, text=True)
    assert done.returncode == 2
    assert "is missing" in done.stderr


def test_the_unit_leaves_the_note_where_the_guide_has_it_read():
    unit = (DEPLOY / "quartermaster-backup.service").read_text()
    assert re.search(
        r"^ExecStartPost=\+\S*/backup-note \S+ /var/lib/prometheus/node-exporter$", unit, re.M
    )


def test_a_dump_is_its_owners_alone_and_no_planted_link_is_followed(tmp_path):
    """Whatever mongodump does with the file that it is told to write, it is there and ours."""
    folder, precious = tmp_path / "dumps", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("mine")
    tool = tmp_path / "mongodump"
    # It plants what somebody who knows the time could plant, and writes as mongodump does.
    tool.write_text(
        "#!/bin/sh\numask 022\nfor word; do :; done\n"
        'ls -l "${word#*=}" > "$LISTED"\necho dump > "${word#*=}"\n'
    )
    tool.chmod(0o755)
    now = datetime.now(timezone.utc)
    for seconds in range(60):
        moment = now + timedelta(seconds=seconds)
        name = f"quartermaster-{moment:%Y%m%dT%H%M%SZ}.archive.gz.part"
        (folder / name).symlink_to(precious)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LISTED": str(tmp_path / "listed")}
    done = subprocess.run([DEPLOY / "backup", "x.yaml", folder], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "listed").read_text().startswith("-rw------- ")
    dump = Path(done.stdout.decode().strip())
    assert (dump.read_text(), stat.S_IMODE(dump.stat().st_mode)) == ("dump\n", 0o600)
    assert precious.read_text() == "mine"


def test_what_a_killed_backup_left_goes_with_the_old_dumps(tmp_path):
    left = tmp_path / "quartermaster-20200101T000000Z.archive.gz.Ab12Cd34"
    left.touch()
    os.utime(left, (0, 0))
    tool = tmp_path / "mongodump"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([DEPLOY / "backup", "x.yaml", tmp_path], env=env, check=True)
    assert not left.exists()
