"""A backup is worth what its restore is: here they are tried, on databases with everything in them.

Export and import: test_round_trip.py.
"""

import io
import json
import os
import re
import stat
import subprocess
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from app.core.permissions import Role
from app.maintenance import backup, restore, store
from app.privacy.store import Erasures
from app.storage import bulk
from app.storage.client import Storage
from app.storage.events import Feed
from app.storage.schema.migrations import CURRENT, FIRST, version_of
from tests import older_databases, people
from tests.applications import service
from tests.callers import Caller
from tests.collection_plans import NAMES
from tests.console_visitor import PASSWORD, Visitor
from tests.exposition import Exposition
from tests.factories import make_player, make_role, sha256
from tests.scene import set_scene
from tests.system.programs import PROGRAM, environment, serving, wait_until
from tests.tiers import some

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME, OTHER = "quartermaster", "quartermaster_restored"
RAW = CodecOptions(document_class=RawBSONDocument)
WINDOW = "minSnapshotHistoryWindowInSeconds"


@pytest.fixture
def backend_uri(real_db, mongodb_uri):
    return mongodb_uri


@pytest.fixture
def other(real_db):
    """Another database of the same server, which is empty."""
    real_db.client.drop_database(OTHER)
    yield real_db.client[OTHER]
    real_db.client.drop_database(OTHER)


@pytest.fixture
def into_other(quartermaster, other, monkeypatch):
    """Run a command on the other database."""

    def run(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setenv("QM_MONGODB_DATABASE", OTHER)
            return quartermaster(*arguments, **options)

    return run


@pytest.fixture
def file(tmp_path):
    return tmp_path / "backup.zip"


@pytest.fixture
def own_collections(real_db):
    """What a game may keep in the same database, in every form that MongoDB has."""
    db = real_db
    db.create_collection("ring", capped=True, size=4096, max=3)
    db.create_collection("weather", timeseries={"timeField": "At", "metaField": "Map"})
    db.create_collection("towns", clusteredIndex={"key": {"_id": 1}, "unique": True})
    is_text = {"Name": {"$type": "string"}}
    strict = {"validator": is_text, "validationAction": "warn"}
    db.create_collection("strict", collation={"locale": "de", "strength": 2}, **strict)
    db.create_collection("rich", viewOn="players", pipeline=[{"$match": {"Level": {"$gt": 9}}}])
    db.ring.insert_many({"_id": number} for number in range(5))
    db.weather.insert_one({"At": datetime(2026, 1, 1), "Map": "m", "Rain": 5})
    db.towns.insert_one({"_id": "town"})
    db.strict.insert_one({"_id": "Ä"})
    odd = [
        {"_id": 1, "a": bson.Int64(1), "b": 1.0, "c": bson.Regex("x"), "d": bson.MinKey()},
        {"_id": {"x": 1, "y": None}, "code": bson.Code("x"), "big": bson.Decimal128("1.50")},
        {"_id": 3, "at": datetime(1, 1, 1, tzinfo=timezone.utc), "binary": bson.Binary(b"\0", 128)},
        # As a careless game writes it: text that is not UTF-8, a field twice, a date after 9999.
        RawBSONDocument(b"\x18\0\0\0\x02_id\0\x02\0\0\0\xff\0\x08b\0\0\x08b\0\1\0"),
        RawBSONDocument(b"\x19\0\0\0\x10_id\0\4\0\0\0\x09t\0\xff\xff\xff\xff\xff\xff\xff\x6f\0"),
    ]
    db.worlds.insert_many(odd)
    db.worlds.create_index([("place", "2dsphere"), ("a", -1)], sparse=True, name="near")
    db.worlds.create_index([("text", "text")], weights={"text": 5}, default_language="german")
    db.worlds.create_index("at", expireAfterSeconds=2**31 - 1, partialFilterExpression={"b": 1.0})
    yield
    for name in ("ring", "weather", "towns", "strict", "rich", "worlds", "system.views"):
        db.drop_collection(name)


@pytest.fixture
def used_world(app, client, world, db, own_collections):
    """A world with documents in every collection, as staff, tools and a game leave them."""
    set_scene(db, None)
    people.build(world, client)
    staff = Caller(client, world.headers(*Role), "/api/")
    db.roles.insert_one(make_role("helper", "players.read"))
    world.add_user("secret", Name="Disabled", IsDisabled=True, Roles=["helper"])
    leaver = world.add_user("secret", Name="Leaver")
    world.add_player(Name="Leaver", UserId=leaver["_id"])
    staff(f"POST v1/users/{leaver['_id']}/erase", {"Confirm": "Leaver"})
    # It fails, and is counted.
    wrong = {"grant_type": "password", "username": "Colleague", "password": sha256("secret")}
    staff("POST oauth/token", wrong, 400)
    world.add_user(PASSWORD, Name="Viewer", Roles=["viewer"])
    assert Visitor(app).sign_in("Viewer").status_code == 303
    Feed(service(app, Storage)).catch_up()
    # Whatever the service stores only after minutes, or while it is at work.
    for name in NAMES - {name for name in NAMES if db[name].find_one()}:
        db[name].insert_one({"_id": "one"}, bypass_document_validation=True)
    return db


def contents(db):
    """Return all that a restore has to bring back, as bytes: documents, indexes and options.

    Where the log of events goes on is a moment of a server, and new after a restore.
    """
    raw, found = db.with_options(RAW), {}
    for one in db.list_collections(filter={"name": {"$not": {"$regex": "^system"}}}):
        name, kind = one["name"], one["type"]
        indexes = [] if kind == "view" else db[name].list_indexes()
        documents = raw[name].find({"Start": {"$exists": False}})
        # Of a time series, MongoDB keeps each field apart, and no order of fields.
        is_split = kind == "timeseries"
        stored = [dict(sorted(d.items())) if is_split else d.raw for d in documents]
        found[name] = (
            *(kind, bson.encode(one["options"]), sorted(bson.encode(index) for index in indexes)),
            sorted(bson.encode(d) if is_split else bytes(d) for d in stored),
        )
    return found


def succeed(result):
    assert result.exit_code == 0, result.output
    return result.output


def refused(result):
    """Return the sentence of a command that failed."""
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")


# A used world


def test_a_used_world_is_the_same_in_an_empty_database(
    quartermaster, into_other, used_world, other, file
):
    before = contents(used_world)
    assert {"ring", "weather", "towns", "strict", "rich", "worlds", *NAMES} == before.keys()
    succeed(quartermaster("backup", file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    succeed(into_other("restore", file))
    assert contents(other) == before == contents(used_world)
    # And as often as wanted, if somebody says so.
    succeed(into_other("restore", file, "--replace", OTHER))
    assert contents(other) == before


def test_a_reader_of_events_goes_on(quartermaster, app, client, world, file):
    staff = Caller(client, world.headers(), "/api/v1/")
    player = world.add_player()

    def give():
        staff(f"POST players/{player['_id']}/items/give", {"itemid": people.ITEM, "quantity": 1})
        Feed(service(app, Storage)).catch_up()

    give()
    cursor = staff("GET events?after=").json["Next"]
    succeed(quartermaster("backup", file))
    give()
    succeed(quartermaster("restore", file, "--replace", NAME))
    assert staff(f"GET events?after={cursor}").json["Values"] == []
    give()
    (entry,) = staff(f"GET events?after={cursor}").json["Values"]
    assert entry["Subject"]["Id"] == player["_id"]


def test_everything_is_of_one_moment(quartermaster, into_other, real_db, other, file, monkeypatch):
    real_db.players.insert_one(make_player())
    before = contents(real_db)
    add = backup._add

    def add_while_others_write(*arguments):
        for name in ("players", "users", "history", "schema"):
            new = {"_id": (id_ := str(bson.ObjectId())), "NameKey": id_, "EmailKey": id_}
            real_db[name].insert_one(new, bypass_document_validation=True)
        real_db.players.update_many({}, {"$inc": {"Level": 1}}, bypass_document_validation=True)
        return add(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(backup, "_add", add_while_others_write)
        succeed(quartermaster("backup", file))
    real_db.schema.delete_many({"_id": {"$ne": "schema"}})
    succeed(into_other("restore", file))
    assert contents(other) == before


# Erasures


@pytest.mark.parametrize(
    ("is_killed", "is_finished"), [(False, True), (True, True), (False, False)]
)
def test_who_was_erased_since_the_backup_stays_erased(
    quartermaster, client, world, db, file, monkeypatch, is_killed, is_finished
):
    people.build(world, client)
    succeed(quartermaster("backup", file))
    monkeypatch.setattr(Erasures, "_seconds_to_settle", lambda *_: 0)
    succeed(quartermaster("user", "erase", people.NAME, "--confirm", people.NAME))
    assert people.found_in(db) == []
    if not is_finished:
        db.erasures.update_one({}, {"$set": {"FinishedAt": None}})
    record = db.erasures.find_one()
    if is_killed:
        with monkeypatch.context() as patch:
            patch.setattr(restore, "init_database", killed)
            assert quartermaster("restore", file, "--replace", NAME).exit_code == 137
        assert people.found_in(db) != []
        said = succeed(quartermaster("restore", file))
    else:
        said = succeed(quartermaster("restore", file, "--replace", NAME))
    assert "Erased 1 people again" in said
    assert people.found_in(db) == []
    assert db.erasures.find_one()["BegunAt"] == record["BegunAt"]
    assert "restoring" not in db.list_collection_names()
    assert db.players.count_documents({"Name": "Stranger"}) == 1


# Other releases


def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    quartermaster, into_other, other, real_db, file
):
    older_databases.make(other, "release_0_3_0")
    before = contents(other)
    succeed(into_other("backup", file))
    assert contents(other) == before
    succeed(quartermaster("restore", file))
    assert version_of(real_db) == CURRENT
    assert real_db.players.count_documents({}) == other.players.count_documents({})
    succeed(quartermaster("db", "check", "--repair"))
    assert real_db.history.count_documents({}) > 0


def test_a_database_of_a_newer_release_is_replaced_for_a_rollback(quartermaster, real_db, file):
    succeed(quartermaster("backup", file))
    real_db.schema.update_one({}, {"$inc": {"SchemaVersion": 1}})
    real_db.players.insert_one(make_player())
    assert "knows none above" in refused(quartermaster("backup", file))
    succeed(quartermaster("restore", file, "--replace", NAME))
    assert version_of(real_db) == CURRENT


def rewrite(file, change, **more):
    """Change the manifest of a backup, and members; the checksums of the zip file are right."""
    with zipfile.ZipFile(file) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members |= {f"{name}.bson": content for name, content in more.items()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


# What is refused


class Written(Exception):
    """The check has passed, and the next step would write."""


@pytest.fixture
def check(real_storage, monkeypatch):
    """Check a file as a restore does, which raises Written if it would write now."""

    def written(*_):
        raise Written

    monkeypatch.setattr(store, "make_room", written)

    def check(content):
        restore.restore_backup(real_storage, None, io.BytesIO(content), None, None)

    return check


@pytest.fixture
def good(quartermaster, real_db, file):
    """Return the content of a backup with a score of players."""
    real_db.players.insert_many([make_player() for _ in range(20)])
    succeed(quartermaster("backup", file))
    return file.read_bytes()


UNUSABLE = (restore.NoBackup, restore.OtherRelease)


def test_a_wrong_file_is_refused(into_other, good, other, tmp_path):
    zipped, half = tmp_path / "x.zip", tmp_path / "half.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("notes.txt", "These are not players.")
    half.write_bytes(good[:-100])
    for wrong in (Path(__file__), Path("/dev/null"), zipped, half):
        assert "Nothing was written." in refused(into_other("restore", wrong))
    assert other.list_collection_names() == []


def test_a_file_that_is_cut_off_or_damaged_anywhere_is_refused(check, good, file):
    cuts = {*range(0, len(good), 97), *range(len(good) - 200, len(good))}
    with zipfile.ZipFile(file) as archive:
        begin = archive.getinfo("players.bson").header_offset + 70
    flips = [(good[:n], bytes([good[n] ^ 1]), good[n + 1 :]) for n in range(begin, begin + 400, 23)]
    for content in (*(good[:length] for length in cuts), *map(b"".join, flips)):
        with pytest.raises(UNUSABLE):
            check(content)
    with pytest.raises(Written):
        check(good)


@pytest.mark.parametrize(
    "manifest",
    [
        *({"SchemaVersion": CURRENT + 1}, {"Format": backup.FORMAT + 1}),
        *({"SchemaVersion": version} for version in ("x", None, FIRST - 1)),
        *({"Format": "1"}, {"Collections": {"players": {"Count": 1}}}, {"Collections": None}),
        *({"Collections": [{"Count": 0}]}, {"Collections": [{"Name": "players", "Count": "1"}]}),
    ],
    ids=str,
)
def test_a_crafted_manifest_is_refused(check, good, file, manifest):
    rewrite(file, lambda found: found.update(manifest))
    with pytest.raises(UNUSABLE):
        check(file.read_bytes())


@pytest.mark.parametrize(
    ("players", "content"),
    [
        *(({"Count": 2}, None), ({"Name": "lost"}, None), ({"Options": None}, None)),
        *(({"Count": 1}, content) for content in (b"\4\0\0\0", b"\x0a\0\0\0\0", b"\x05\0")),
    ],
)
def test_counts_and_sizes_of_documents_are_checked(check, good, file, players, content):
    def change(manifest):
        next(one for one in manifest["Collections"] if one["Name"] == "players").update(players)

    rewrite(file, change, **({"players": content} if content else {}))
    with pytest.raises(restore.NoBackup):
        check(file.read_bytes())


# Snapshots


def test_a_snapshot_that_ends_too_soon_leaves_no_file(
    quartermaster, real_db, tmp_path, file, monkeypatch
):
    file.write_text("former")
    real_db.players.insert_many([make_player() for _ in range(50)])
    add, admin = backup._add, real_db.client.admin

    def slow_add(*arguments):
        written = add(*arguments)
        # The server moves on only if somebody writes.
        for _ in range(12):
            real_db.players.update_many({}, {"$inc": {"Level": 1}})
            time.sleep(0.05)
        return written

    monkeypatch.setattr(backup, "_add", slow_add)
    former = admin.command({"getParameter": 1, WINDOW: 1})[WINDOW]
    admin.command({"setParameter": 1, WINDOW: 1})
    sentence = refused(quartermaster("backup", file))
    admin.command({"setParameter": 1, WINDOW: former})
    assert WINDOW in sentence
    assert "There is no backup" in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["backup.zip"]
    assert file.read_text() == "former"


# Kills


def killed(*_, **__):
    raise SystemExit(137)


STEPS = [
    *((store, name) for name in ("build_indexes", "restore_erasures", "end_restore")),
    (bulk, "insert"),
    (restore, "init_database"),
    (Feed, "catch_up"),
    *((Erasures, name) for name in ("find_returned", "erase_again")),
]


@pytest.mark.parametrize(("where", "step"), some(STEPS, 4), ids=str)
def test_a_restore_that_is_killed_anywhere_is_run_again(
    quartermaster, into_other, real_db, other, file, monkeypatch, where, step
):
    real_db.players.insert_many([make_player() for _ in range(3)])
    before = contents(real_db)
    succeed(quartermaster("backup", file))
    calls = 0
    former = getattr(where, step)

    def killed_at_second(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == 2 or step not in ("insert", "build_indexes"):
            killed()
        return former(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(where, step, killed_at_second)
        assert into_other("restore", file).exit_code == 137
    for command in (("db", "init"), ("backup", file), ("export", "players")):
        assert "has not finished: run quartermaster restore again" in refused(into_other(*command))
    succeed(into_other("restore", file))
    assert contents(other) == before


def test_a_database_that_a_worker_uses_is_not_restored_to(
    quartermaster, into_other, other, file, monkeypatch
):
    succeed(quartermaster("backup", file))
    monkeypatch.setattr(store, "LEASE_TIME", timedelta(0))
    in_a_minute = datetime.now(timezone.utc) + timedelta(minutes=1)
    other.locks.insert_one({"_id": "events", "By": "a worker", "Until": in_a_minute})
    for options in ((), ("--replace", OTHER)):
        assert "stop it on all machines first" in refused(into_other("restore", file, *options))
    assert other.list_collection_names() == ["locks"]
    # The lease of a killed worker ends by itself.
    other.locks.update_one({}, {"$set": {"Until": in_a_minute - timedelta(hours=1)}})
    succeed(into_other("restore", file))


def test_a_service_waits_for_a_restore(other, mongodb_uri, tmp_path):
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": OTHER, "WORKERS": "1"}
    with serving(tmp_path, **settings) as service:
        wait_until(lambda: other.locks.find_one({"_id": "events", "By": {"$ne": ""}}))
        # Somebody's restore, which has dropped some collections.
        other.create_collection("restoring")
        wait_until(lambda: not service.is_ready())
        time.sleep(1.5)  # until its threads have seen it
        for name in ("history", "locks", "samples", "events"):
            other.drop_collection(name)
        time.sleep(3)
        left = {*other.list_collection_names()}
        assert not {"history", "locks", "samples", "events"} & left
        assert service.ask("GET", "/api/v1/players", token="x")[0] == 503
        assert b"has not finished" in service.ask("GET", "/readyz")[2]
        other.drop_collection("restoring")
        wait_until(service.is_ready)
        wait_until(lambda: other.locks.find_one({"_id": "events", "By": {"$ne": ""}}))


@pytest.mark.everything
def test_a_restore_that_is_killed_by_kill_9_is_run_again(
    quartermaster, into_other, real_db, other, mongodb_uri, tmp_path, file
):
    real_db.players.insert_many([make_player() for _ in range(4000)])
    before = contents(real_db)
    succeed(quartermaster("backup", file))
    env = environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri, MONGODB_DATABASE=OTHER)
    # Slow enough to be killed in the middle.
    process = subprocess.Popen(["nice", "-n", "19", PROGRAM, "restore", file], env=env)
    wait_until(lambda: other.players.find_one({}, ["_id"]))
    process.kill()
    assert process.wait() == -9
    assert "restoring" in other.list_collection_names()
    succeed(into_other("restore", file))
    assert contents(other) == before


# Files


def test_a_backup_goes_through_pipes(
    quartermaster, into_other, real_db, other, tmp_path, monkeypatch
):
    real_db.players.insert_many([make_player() for _ in range(50)])
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        copied = pool.submit(lambda: file.write_bytes(pipe.read_bytes()))
        assert "Backed up 5" in quartermaster("backup", pipe).stderr
        copied.result()
        with (tmp_path / "spool").open("w+b") as spool:
            # A program would close it when it ends.
            monkeypatch.setattr(restore.tempfile, "TemporaryFile", lambda: spool)
            pool.submit(lambda: pipe.write_bytes(file.read_bytes()))
            succeed(into_other("restore", pipe))
    assert contents(other) == contents(real_db)


@pytest.mark.everything
def test_memory_does_not_grow_with_the_database(mongodb_uri, real_db, other, tmp_path, file):
    """Even if 400 MB of documents are a file of some kB."""

    def run(*arguments, **settings):
        env = environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri, **settings)
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], env=env)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_maxrss / 1024

    before = run("backup", file), run("restore", file, MONGODB_DATABASE=OTHER)
    real_db.worlds.insert_many({"_id": number, "Map": bytes(8_000_000)} for number in range(50))
    after = (
        run("backup", file),
        run("restore", file, "--replace", OTHER, MONGODB_DATABASE=OTHER),
    )
    real_db.drop_collection("worlds")
    assert other.worlds.count_documents({}) == 50
    assert after[0] - before[0] < 120
    assert after[1] - before[1] < 120


# The scripts of deploy/


def script(name, *arguments, **env):
    command = [DEPLOY / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})


def test_old_backups_go_only_when_a_new_one_is_whole(tmp_path):
    names = ("quartermaster-20200101T000000Z.zip", "quartermaster-20200102T000000Z.zip.a1.part")
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    tool = tmp_path / "bin" / "quartermaster"
    tool.parent.mkdir()

    def backup(text):
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
        return script("backup", tmp_path, PATH=f"{tool.parent}:{os.environ['PATH']}")

    assert backup("exit 1").returncode == 1
    assert len(list(tmp_path.glob("*.zip*"))) == 2
    done = backup('test "$1" = backup && touch "$2"')
    (left,) = tmp_path.glob("*.zip*")
    assert (done.returncode, done.stdout) == (0, f"{left}\n")
    assert left.name not in names


def test_a_whole_backup_leaves_a_note_for_prometheus(tmp_path):
    backups, notes = tmp_path / "backups", tmp_path / "notes"
    backups.mkdir()
    notes.mkdir()
    done = script("backup-note", backups, notes)
    assert (done.returncode, "no backup is noted" in done.stderr) == (1, True)
    assert list(notes.iterdir()) == []
    (backups / "quartermaster-20200101T000000Z.zip").write_bytes(b"older")
    (backups / "quartermaster-20260101T000000Z.zip").write_bytes(b"the newest")
    # Where no exporter is installed, there is nobody to tell.
    assert script("backup-note", backups, tmp_path / "none").returncode == 0
    before = int(time.time())
    assert script("backup-note", backups, notes).returncode == 0
    (note,) = notes.iterdir()
    shown = Exposition(note.read_text())
    assert before <= shown.sum("backup_last_success_timestamp_seconds") <= time.time()
    assert shown.sum("backup_last_size_bytes") == len(b"the newest")
    # The exporter is another user, and reads no file with another ending.
    assert stat.S_IMODE(note.stat().st_mode) == 0o644
    assert note.name == "quartermaster_backup.prom"


@pytest.mark.parametrize("name", ["backup", "backup-note"])
def test_a_script_without_its_arguments_says_which(name):
    done = script(name)
    assert (done.returncode, "is missing" in done.stderr) == (2, True)


def test_the_unit_leaves_the_note_where_the_guide_has_it_read():
    unit = (DEPLOY / "quartermaster-backup.service").read_text()
    note = r"^ExecStartPost=\+\S*/backup-note \S+ /var/lib/prometheus/node-exporter$"
    assert re.search(note, unit, re.MULTILINE)
