"""db init of a large database, killed in the middle by kill -9 and run again.

An import and a restore that die at any step: test_import.py and test_backup.py.
"""

import subprocess
import time

import pytest
from bson import ObjectId
from pymongo import MongoClient

from app.maintenance.demo.world import World
from app.storage.schema import migrations
from tests import older_databases
from tests.factories import NOW, make_entry
from tests.system.programs import PROGRAM, environment

NAME = "interrupted"
PLAYERS = 2000


@pytest.fixture
def db(mongodb_uri):
    with MongoClient(mongodb_uri, tz_aware=True) as client:
        yield client[NAME]
        client.drop_database(NAME)


def with_journal(kind, document):
    """Return a document as it was stored before transactions; of a player, with an entry."""
    stamp = {"Stamp": ObjectId()}
    journal = [{**make_entry(document), **stamp}] if kind == "players" else []
    return {**document, "Journal": journal, **stamp}


def test_db_init_is_killed_and_the_next_one_finishes(
    tmp_path, mongodb_uri, quartermaster, db, monkeypatch
):
    older_databases.make(db, "before_transactions")
    for name in {*db.list_collection_names()} - {migrations.VERSIONS}:
        db[name].delete_many({})
    made = World(10, NOW, None)
    expected = {"users": made.users(), "players": made.players(PLAYERS), "bags": made.bags(PLAYERS)}
    expected = {kind: list(documents) for kind, documents in expected.items()}
    for kind, documents in expected.items():
        db[kind].insert_many([with_journal(kind, document) for document in documents])

    def moved(limit):
        return db.players.count_documents({"Journal": {"$exists": False}}, limit=limit)

    # On a busy machine, it must not be done before somebody looks.
    command = ["nice", "-n", "19", PROGRAM, "db", "init"]
    settings = {"ENV": "testing", "MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": NAME}
    process = subprocess.Popen(
        command, env=environment(tmp_path, **settings), stdout=subprocess.DEVNULL
    )
    while not moved(1) and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert 0 < moved(PLAYERS) < PLAYERS
    assert migrations.version_of(db) < migrations.CURRENT
    monkeypatch.setenv("QM_MONGODB_DATABASE", NAME)
    assert quartermaster("db", "init").exit_code == 0
    assert moved(PLAYERS + 1) == db.history.count_documents({}) == PLAYERS
    assert sum(len(event["Entries"]) for event in db.events.find()) == PLAYERS
    assert quartermaster("db", "check").exit_code == 0
    for kind, documents in expected.items():
        stored = list(db[kind].find(sort=[("_id", 1)]))
        assert stored == sorted(documents, key=lambda document: document["_id"])
