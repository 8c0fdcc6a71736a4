"""A backup is worth what its restore is: here they are tried, on databases with everything in them.

Export and import: test_round_trip.py.
"""

import json
import os
import re
import resource
import signal
import stat
import subprocess
import time
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from app.core.errors import Unavailable
from app.core.permissions import Role
from app.database import COLLECTIONS
from app.maintenance import backup, restore, store
from app.privacy.store import Erasures
from app.server.startup import prepare_database
from app.storage import bulk
from app.storage.client import Storage
from app.storage.events import Feed
from app.storage.schema.collections import init_database
from app.storage.schema.migrations import CURRENT, FIRST, version_of
from app.storage.schema.preparation import Preparation
from tests import mongod, older_databases, people
from tests.applications import service
from tests.collection_plans import NAMES
from tests.console_visitor import PASSWORD, Visitor
from tests.exposition import Exposition
from tests.factories import make_player, make_role, sha256
from tests.ports import free_port
from tests.scene import set_scene
from tests.system.programs import PROGRAM, environment, serving, wait_until

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
    db.create_collection("strict", collation={"locale": "de", "strength": 2})
    db.create_collection("rich", viewOn="players", pipeline=[{"$match": {"Level": {"$gt": 9}}}])
    odd = [
        {
            "_id": bson.ObjectId(),
            "a": bson.Int64(1),
            "b": 1.0,
            "c": bson.Regex("x"),
            "d": bson.MinKey(),
        },
        {"_id": {"x": 1, "y": None}, "code": bson.Code("x"), "big": bson.Decimal128("1.50")},
        {"_id": 3, "at": datetime(1, 1, 1, tzinfo=timezone.utc), "binary": bson.Binary(b"\0", 128)},
        # As a careless game writes it: text that is not UTF-8, a field twice, a date after 9999.
        RawBSONDocument(b"\x18\0\0\0\x02_id\0\x02\0\0\0\xff\0\x08b\0\0\x08b\0\1\0"),
        RawBSONDocument(b"\x19\0\0\0\x10_id\0\4\0\0\0\x09t\0\xff\xff\xff\xff\xff\xff\xff\x6f\0"),
    ]
    db.worlds.insert_many(odd)
    for number in range(5):
        db.ring.insert_one({"_id": number})
        db.weather.insert_one({"At": datetime(2026, 1, number + 1), "Map": "m", "Rain": number})
        db.towns.insert_one({"_id": f"town {number}"})
    db.strict.insert_one({"_id": "Ä"})
    db.command(
        "collMod", "strict", validator={"Name": {"$type": "string"}}, validationAction="warn"
    )
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
    manager = world.headers(Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
    db.roles.insert_one(make_role("helper", "players.read"))
    world.add_user("secret", Name="Disabled", IsDisabled=True, Roles=["helper"])
    leaver = world.add_user("secret", Name="Leaver")
    world.add_player(Name="Leaver", UserId=leaver["_id"])
    erase = client.post(
        f"/api/v1/users/{leaver['_id']}/erase", json={"Confirm": "Leaver"}, headers=manager
    )
    assert erase.status_code == 200, erase.data
    sign_in = {"grant_type": "password", "username": "Colleague", "password": sha256("secret")}
    # It fails, and is counted.
    assert client.post("/api/oauth/token", json=sign_in).status_code == 400
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
    found = {c["name"]: c for c in db.list_collections() if not c["name"].startswith("system.")}

    raw = db.with_options(RAW)

    def as_stored(name, document):
        # Of a time series, MongoDB keeps each field apart, and no order of fields.
        is_split = found[name]["type"] == "timeseries"
        return bson.encode(dict(sorted(document.items()))) if is_split else bytes(document.raw)

    return {
        name: (
            found[name]["type"],
            bson.encode(found[name]["options"]),
            sorted(bson.encode(index) for index in db[name].list_indexes())
            if found[name]["type"] != "view"
            else [],
            sorted(as_stored(name, d) for d in raw[name].find({"Start": {"$exists": False}})),
        )
        for name in sorted(found)
    }


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
    said = succeed(into_other("restore", file))
    assert contents(other) == before == contents(used_world)
    assert "quartermaster db check --repair" in said
    # And as often as wanted, if somebody says so.
    assert "'" in refused(into_other("restore", file))
    succeed(into_other("restore", file, "--replace", OTHER))
    assert contents(other) == before


def test_a_backup_says_what_it_is_of(quartermaster, used_world, file):
    succeed(quartermaster("backup", file))
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert archive.infolist()[-1].filename == "manifest.json"
        raw = archive.read("users.bson")
    assert (manifest["SchemaVersion"], manifest["Database"]) == (CURRENT, NAME)
    assert re.match(r"\d+\.\d+", manifest["Release"])
    entries = {entry["Name"]: entry for entry in manifest["Collections"]}
    assert entries["users"]["Count"] == used_world.users.count_documents({})
    assert raw == b"".join(d.raw for d in used_world.get_collection("users", RAW).find())


def test_a_disabled_account_stays_disabled_and_a_reader_of_events_goes_on(
    quartermaster, app, client, world, db, file
):
    headers = world.headers()
    player = world.add_player()
    world.add_user("secret", (Role.API,), Name="Disabled", IsDisabled=True)

    def give():
        path = f"/api/v1/players/{player['_id']}/items/give"
        body = {"itemid": people.ITEM, "quantity": 1}
        assert client.post(path, json=body, headers=headers).status_code == 200
        Feed(service(app, Storage)).catch_up()

    def events(after=""):
        answer = client.get("/api/v1/events", headers=headers, query_string={"after": after})
        assert answer.status_code == 200, answer.data
        return answer.json

    give()
    cursor = events()["Next"]
    succeed(quartermaster("backup", file))
    db.users.update_many({}, {"$set": {"IsDisabled": False}})
    give()
    succeed(quartermaster("restore", file, "--replace", NAME))
    form = {"grant_type": "password", "username": "Disabled", "password": sha256("secret")}
    answer = client.post("/api/oauth/token", json=form)
    assert (answer.status_code, "disabled" in answer.text) == (403, True), answer.text
    assert events(cursor)["Values"] == []
    give()
    (entry,) = events(cursor)["Values"]
    assert entry["Subject"]["Id"] == player["_id"]
    assert "/history" not in client.get("/api/v1/history", headers=headers).text


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


@pytest.mark.parametrize("newer", [{"SchemaVersion": CURRENT + 1}, {"Format": backup.FORMAT + 1}])
def test_a_backup_of_a_newer_release_is_refused(into_other, quartermaster, other, file, newer):
    succeed(quartermaster("backup", file))
    rewrite(file, lambda manifest: manifest.update(newer, Release="9.9.0"))
    assert "was made by Quartermaster 9.9.0" in refused(into_other("restore", file))
    assert other.list_collection_names() == []


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

    def check(path):
        with path.open("rb") as opened:
            restore.restore_backup(real_storage, None, opened, None, None)

    return check


UNUSABLE = (restore.NoBackup, restore.OtherRelease)


def test_a_wrong_file_is_refused(into_other, quartermaster, other, tmp_path):
    zipped, half = tmp_path / "x.zip", tmp_path / "half.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("notes.txt", "These are not players.")
    succeed(quartermaster("backup", half))
    half.write_bytes(half.read_bytes()[:-100])
    for wrong in (Path(__file__), Path("/dev/null"), zipped, half):
        assert "Nothing was written." in refused(into_other("restore", wrong))
    assert into_other("restore", tmp_path / "none.zip").exit_code == 2
    assert other.list_collection_names() == []


def test_a_file_that_is_cut_off_anywhere_is_refused(quartermaster, check, file, real_db, tmp_path):
    real_db.players.insert_many([make_player() for _ in range(20)])
    succeed(quartermaster("backup", file))
    whole = file.read_bytes()
    cut = tmp_path / "cut.zip"
    for length in {*range(0, len(whole), 97), *range(len(whole) - 200, len(whole))}:
        cut.write_bytes(whole[:length])
        with pytest.raises(UNUSABLE):
            check(cut)
    with pytest.raises(Written):
        check(file)


def test_counts_and_sizes_of_documents_are_checked(quartermaster, check, file, real_db):
    real_db.players.insert_one(make_player())
    succeed(quartermaster("backup", file))
    good = file.read_bytes()

    def players_of(manifest):
        return next(each for each in manifest["Collections"] if each["Name"] == "players")

    def with_documents(content):
        rewrite(file, lambda manifest: players_of(manifest).update(Count=1), players=content)

    wrong = [
        lambda: rewrite(file, lambda manifest: players_of(manifest).update(Count=2)),
        lambda: rewrite(file, lambda manifest: players_of(manifest).update(Name="lost")),
        lambda: rewrite(file, lambda manifest: players_of(manifest).pop("Options")),
        lambda: with_documents(b"\4\0\0\0"),
        lambda: with_documents(b"\x0a\0\0\0\0"),
        lambda: with_documents(b"\x05\0"),
    ]
    for damage in wrong:
        file.write_bytes(good)
        damage()
        with pytest.raises(restore.NoBackup):
            check(file)


CRAFTED = {
    "text for the version": {"SchemaVersion": "x"},
    "no version": {"SchemaVersion": None},
    "a version from before 0.3.0": {"SchemaVersion": FIRST - 1},
    "text for the format": {"Format": "1"},
    "object of collections": {"Collections": {"players": {"Count": 1}}},
    "no collections": {"Collections": None},
    "nameless collection": {"Collections": [{"Count": 0}]},
    "text for a count": {"Collections": [{"Name": "players", "Count": "1"}]},
}


@pytest.mark.parametrize("change", CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_file_is_refused_by_a_sentence(quartermaster, into_other, other, file, change):
    succeed(quartermaster("backup", file))
    rewrite(file, lambda manifest: manifest.update(change))
    assert "Nothing was written." in refused(into_other("restore", file))
    assert other.list_collection_names() == []


def test_a_damaged_byte_anywhere_in_the_documents_is_noticed(quartermaster, check, file, real_db):
    real_db.players.insert_many([make_player() for _ in range(20)])
    succeed(quartermaster("backup", file))
    with zipfile.ZipFile(file) as archive:
        begin = archive.getinfo("players.bson").header_offset + 70
    good = file.read_bytes()
    for place in range(begin, begin + 400, 23):
        file.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(restore.NoBackup):
            check(file)


def test_only_an_empty_database_is_written_to(into_other, quartermaster, other, file):
    succeed(quartermaster("backup", file))
    init_database(other, COLLECTIONS)
    other["of_the_game"].insert_one({})
    before = contents(other)
    for option in ((), ("--replace", NAME)):
        sentence = refused(into_other("restore", file, *option))
        assert f"The database '{OTHER}' is not empty: 'of_the_game'" in sentence
        assert f"--replace {OTHER}" in sentence
    assert contents(other) == before
    other["of_the_game"].delete_many({})
    succeed(into_other("restore", file))
    assert "of_the_game" not in other.list_collection_names()


def test_without_snapshots_there_is_a_sentence(quartermaster, tmp_path, file, monkeypatch):
    succeed(quartermaster("backup", file))
    with mongod.running(tmp_path, port := free_port(), *mongod.SMALL):
        monkeypatch.setenv("QM_MONGODB_URI", f"mongodb://127.0.0.1:{port}/?directConnection=true")
        for command in (("backup", tmp_path / "none.zip"), ("restore", file)):
            assert "is a single server" in refused(quartermaster(*command))
    assert not (tmp_path / "none.zip").exists()


# Snapshots


@pytest.fixture
def short_snapshots(real_db):
    """Let MongoDB keep a snapshot for a second."""
    former = real_db.client.admin.command({"getParameter": 1, WINDOW: 1})[WINDOW]
    real_db.client.admin.command({"setParameter": 1, WINDOW: 1})
    yield
    real_db.client.admin.command({"setParameter": 1, WINDOW: former})


def test_a_snapshot_that_ends_too_soon_leaves_no_file(
    quartermaster, short_snapshots, real_db, tmp_path, file, monkeypatch
):
    file.write_text("former")
    real_db.players.insert_many([make_player() for _ in range(50)])
    add = backup._add

    def slow_add(*arguments):
        written = add(*arguments)
        # The server moves on only if somebody writes.
        for _ in range(12):
            real_db.players.update_many({}, {"$inc": {"Level": 1}})
            time.sleep(0.05)
        return written

    monkeypatch.setattr(backup, "_add", slow_add)
    sentence = refused(quartermaster("backup", file))
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


@pytest.mark.parametrize(("where", "step"), STEPS, ids=[name for _, name in STEPS])
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


def test_the_service_does_not_start_on_what_is_half_restored(settings, other, caplog):
    settings.MONGODB_DATABASE = OTHER
    other.create_collection("restoring")
    storage = Storage(settings)
    prepare_database(storage, settings, demo=False)
    preparation = Preparation(storage, COLLECTIONS)
    preparation.begin()
    with pytest.raises(Unavailable, match="has not finished: run quartermaster restore again"):
        preparation.check()
    assert "The workers answer 503 until this is fixed: A restore of" in caplog.text
    assert other.list_collection_names() == ["restoring"]
    other.drop_collection("restoring")
    wait_until(preparation.is_ready)
    storage.close()


def test_a_service_is_not_restored_under_and_waits_for_a_restore(
    quartermaster, into_other, real_db, other, mongodb_uri, tmp_path, file
):
    real_db.players.insert_one(make_player(Name="Aladric"))
    succeed(quartermaster("backup", file))
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": OTHER, "WORKERS": "2"}
    with serving(tmp_path, **settings) as service:
        wait_until(lambda: other.locks.find_one({"_id": "events", "By": {"$ne": ""}}))
        for options in ((), ("--replace", OTHER)):
            assert "stop it on all machines first" in refused(into_other("restore", file, *options))
        assert "restoring" not in other.list_collection_names()
        # Somebody else's restore, which has dropped some collections.
        other.create_collection("restoring")
        wait_until(lambda: not service.is_ready())
        time.sleep(1.5)  # until both workers have seen it
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
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()
        # The lease of a killed worker ends by itself.
        succeed(into_other("restore", file, "--replace", OTHER))
    assert other.players.find_one()["Name"] == "Aladric"


def start(folder, *arguments, **settings):
    """Start a command that is slow enough to be killed in the middle."""
    return subprocess.Popen(
        ["nice", "-n", "19", PROGRAM, *map(str, arguments)],
        env=environment(folder, ENV="testing", **settings),
        stdout=subprocess.DEVNULL,
    )


def test_kill_9_of_a_backup_leaves_the_former_and_of_a_restore_what_can_be_repeated(
    quartermaster, into_other, real_db, other, mongodb_uri, tmp_path, file
):
    names = [f"Player {number}" for number in range(4000)]
    real_db.players.insert_many([make_player(Name=name) for name in names])
    before = contents(real_db)
    file.write_text("former")
    process = start(tmp_path, "backup", file, MONGODB_URI=mongodb_uri)
    wait_until(lambda: any(p.stat().st_size for p in tmp_path.glob("backup.zip.*.part")))
    process.kill()
    assert process.wait() == -9
    assert file.read_text() == "former"
    (part,) = tmp_path.glob("backup.zip.*.part")
    assert "Nothing was written." in refused(into_other("restore", part))

    succeed(quartermaster("backup", file))
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": OTHER}
    process = start(tmp_path, "restore", file, **settings)
    wait_until(lambda: other.players.find_one({}, ["_id"]))
    process.kill()
    assert process.wait() == -9
    assert "restoring" in other.list_collection_names()
    succeed(into_other("restore", file))
    assert contents(other) == before


# Files


def test_standard_output_and_a_pipe(quartermaster, mongodb_uri, real_db, other, tmp_path):
    real_db.players.insert_many([make_player() for _ in range(50)])
    env = environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri)
    done = subprocess.run([PROGRAM, "backup", "-"], env=env, capture_output=True, check=True)
    assert b"Backed up 5" in done.stderr
    env["QM_MONGODB_DATABASE"] = OTHER
    subprocess.run([PROGRAM, "restore", "-"], env=env, input=done.stdout, check=True)
    assert contents(other) == contents(real_db)


def test_a_full_disk_leaves_the_former_backup(mongodb_uri, real_db, tmp_path, file, quartermaster):
    real_db.players.insert_many([make_player() for _ in range(500)])
    assert "No space left on device" in refused(quartermaster("backup", "/dev/full"))
    file.write_text("former")
    done = subprocess.run(
        [PROGRAM, "backup", file],
        env=environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "Error: File too large: output\n")
    assert file.read_text() == "former"
    assert list(tmp_path.glob("*.part")) == []


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


def script(name, *arguments):
    done = subprocess.run(
        [DEPLOY / name, *map(str, arguments)], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def program(tmp_path):
    """Put a program in the place of quartermaster, and return a way to run the script with it."""

    def make(text):
        tool = tmp_path / "bin" / "quartermaster"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o755)
        path = f"{tool.parent}:{os.environ['PATH']}"
        command = [DEPLOY / "backup", tmp_path]
        return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True)

    return make


def test_old_backups_go_only_when_a_new_one_is_whole(tmp_path, program):
    names = ("quartermaster-20200101T000000Z.zip", "quartermaster-20200102T000000Z.zip.a1.part")
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    assert program("exit 1").returncode == 1
    assert len(list(tmp_path.glob("*.zip*"))) == 2
    done = program('test "$1" = backup && touch "$2"')
    (left,) = tmp_path.glob("*.zip*")
    assert (done.returncode, done.stdout) == (0, f"{left}\n")
    assert left.name not in names


def test_a_whole_backup_leaves_a_note_for_prometheus(tmp_path):
    backups, notes = tmp_path / "backups", tmp_path / "notes"
    backups.mkdir()
    (backups / "quartermaster-20200101T000000Z.zip").write_bytes(b"older")
    (backups / "quartermaster-20260101T000000Z.zip").write_bytes(b"the newest")
    # Where no exporter is installed, there is nobody to tell.
    script("backup-note", backups, notes)
    notes.mkdir()
    for _ in range(2):
        before = int(time.time())
        script("backup-note", backups, notes)
        (note,) = notes.iterdir()
        shown = Exposition(note.read_text())
        at = shown.sum("backup_last_success_timestamp_seconds")
        assert before <= at <= time.time()
        assert shown.sum("backup_last_size_bytes") == len(b"the newest")
        # The exporter is another user, and reads no file with another ending.
        assert stat.S_IMODE(note.stat().st_mode) == 0o644
        assert note.name == "quartermaster_backup.prom"


def test_without_a_backup_there_is_no_note_of_one(tmp_path):
    backups, notes = tmp_path / "backups", tmp_path / "notes"
    backups.mkdir()
    notes.mkdir()
    done = subprocess.run([DEPLOY / "backup-note", backups, notes], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no backup is noted" in done.stderr
    assert list(notes.iterdir()) == []


@pytest.mark.parametrize("name", ["backup", "backup-note"])
def test_a_script_without_its_arguments_says_which(name):
    done = subprocess.run([DEPLOY / name], capture_output=True, text=True)
    assert done.returncode == 2
    assert "is missing" in done.stderr


def test_the_unit_leaves_the_note_where_the_guide_has_it_read():
    unit = (DEPLOY / "quartermaster-backup.service").read_text()
    assert re.search(
        r"^ExecStartPost=\+\S*/backup-note \S+ /var/lib/prometheus/node-exporter$", unit, re.M
    )
