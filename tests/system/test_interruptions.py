"""Commands that change a whole database, killed in the middle by kill -9 and run again."""

import json
import subprocess
import time
from functools import cache, partial

import pytest
from bson import ObjectId
from pymongo import MongoClient, UpdateOne

from app.core.changes import BOOKKEEPING
from app.database import COLLECTIONS
from app.maintenance.demo.world import World
from app.storage.schema import migrations
from app.storage.schema.collections import init_database
from tests import older_databases
from tests.factories import NOW, make_entry
from tests.system.programs import PROGRAM, environment

NAME = "interrupted"
PLAYERS = 2000
# Players are repaired one by one, which takes longer.
WRONG = 500


@pytest.fixture
def db(mongodb_uri):
    with MongoClient(mongodb_uri, tz_aware=True) as client:
        yield client[NAME]
        client.drop_database(NAME)


@pytest.fixture
def settings(mongodb_uri):
    return {"ENV": "testing", "MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": NAME}


@pytest.fixture
def finish(quartermaster, monkeypatch):
    """Run a command to its end in this process, and see that it succeeds."""
    monkeypatch.setenv("QM_MONGODB_DATABASE", NAME)

    def finish(*arguments):
        result = quartermaster(*arguments)
        assert result.exit_code == 0, result.output

    return finish


def kill_in_the_middle(folder, settings, arguments, done, players=PLAYERS):
    """Kill a command as soon as it has done some of its work, and see that some is left."""
    process = subprocess.Popen(
        # On a busy machine, it must not be done before somebody looks.
        ["nice", "-n", "19", PROGRAM, *map(str, arguments)],
        env=environment(folder, **settings),
        stdout=subprocess.DEVNULL,
    )
    while not done(1) and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert 0 < done(players) < players


def count(db, where, limit):
    return db.players.count_documents(where, limit=limit)


@cache
def world():
    made = World(10, NOW, None)
    return list(made.users()), list(made.players(PLAYERS)), list(made.bags(PLAYERS))


def documents_of(db, without=()):
    """Return all documents, but for what a command may count up or begin anew."""
    return {
        kind: [
            {name: value for name, value in document.items() if name not in without}
            for document in db[kind].find(sort=[("_id", 1)])
        ]
        for kind in ("users", "players", "bags")
    }


def test_db_init_is_killed_and_the_next_one_finishes(tmp_path, settings, finish, db):
    older_databases.make(db, "before_transactions")
    for name in {*db.list_collection_names()} - {migrations.VERSIONS}:
        db[name].delete_many({})
    users, players, bags = world()
    expected = {"users": users, "players": players, "bags": bags}
    for kind, documents in expected.items():
        db[kind].insert_many([with_journal(kind, document) for document in documents])
    moved = partial(count, db, {"Journal": {"$exists": False}})
    kill_in_the_middle(tmp_path, settings, ["db", "init"], moved)
    assert migrations.version_of(db) < migrations.CURRENT
    finish("db", "init")
    assert moved(PLAYERS + 1) == db.history.count_documents({}) == PLAYERS
    assert sum(len(event["Entries"]) for event in db.events.find()) == PLAYERS
    finish("db", "check")
    for kind, documents in documents_of(db).items():
        assert documents == sorted(expected[kind], key=lambda document: document["_id"])


def with_journal(kind, document):
    """Return a document as it was stored before transactions; of a player, with an entry."""
    stamp = {"Stamp": ObjectId()}
    journal = [{**make_entry(document), **stamp}] if kind == "players" else []
    return {**document, "Journal": journal, **stamp}


@pytest.mark.everything
def test_a_repair_is_killed_and_the_next_one_finishes(tmp_path, settings, finish, db):
    init_database(db, COLLECTIONS)
    users, players, bags = world()
    players = players[:WRONG]
    for kind, documents in (("users", users), ("players", players), ("bags", bags)):
        db[kind].insert_many(documents)
    before = documents_of(db, without=BOOKKEEPING)
    wrong = [
        UpdateOne({"_id": p["_id"]}, {"$set": {"NameKey": f"wrong {p['_id']}"}}) for p in players
    ]
    db.players.bulk_write(wrong)
    sound = partial(count, db, {"NameKey": {"$not": {"$regex": "^wrong"}}})
    kill_in_the_middle(tmp_path, settings, ["db", "check", "--repair"], sound, WRONG)
    finish("db", "check", "--repair")
    finish("db", "check")
    assert documents_of(db, without=BOOKKEEPING) == before


@pytest.mark.everything
def test_an_import_is_killed_and_the_next_one_finishes(tmp_path, settings, finish, db):
    init_database(db, COLLECTIONS)
    users, players, bags = world()
    for kind, documents in (("users", users), ("players", players), ("bags", bags)):
        db[kind].insert_many(documents)
    before = documents_of(db, without=[*BOOKKEEPING, "PasswordVersion"])
    file = tmp_path / "players.jsonl"
    finish("export", "players", file)
    assert len({json.loads(line)["Id"] for line in file.read_text().splitlines()}) == PLAYERS
    db.players.delete_many({})
    kill_in_the_middle(tmp_path, settings, ["import", "players", file], partial(count, db, {}))
    finish("import", "players", file)
    finish("db", "check")
    assert documents_of(db, without=[*BOOKKEEPING, "PasswordVersion"]) == before
