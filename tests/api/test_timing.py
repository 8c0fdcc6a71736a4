"""Every operation of pymongo runs within the budget of its request, or is refused there."""

from __future__ import annotations

import time

import pytest
from pymongo import InsertOne, MongoClient, ReadPreference, _csot, monitoring
from pymongo.collection import Collection
from pymongo.cursor import Cursor
from pymongo.database import Database
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

import config
from app.errors import Unavailable
from app.storage.bulkhead import Bulkhead, RequestBudget
from app.storage.client import Storage
from app.storage.embedded.supervisor import REPLICA_SET
from app.storage.timing import (
    TIMED,
    NotWithinRequest,
    TimedCollection,
    TimedCursor,
    TimedDatabase,
)
from tests.factories import make_player

LONG = 60.0
READERS = {
    "a loop": lambda cursor: [document["_id"] for document in cursor],
    "next": lambda cursor: [next(cursor)["_id"] for _ in range(5)],
    "next with a default": lambda cursor: [next(cursor, None)["_id"] for _ in range(5)],
    "a list": lambda cursor: [document["_id"] for document in cursor.to_list()],
    "an index": lambda cursor: [cursor[place]["_id"] for place in range(5)],
    "a copy": lambda cursor: [document["_id"] for document in cursor.clone()],
}
OPERATIONS = {
    "aggregate_all": lambda things: things.aggregate_all([{"$match": {}}], "_id_"),
    "bulk_write": lambda things: things.bulk_write([InsertOne({})]),
    "count_documents": lambda things: things.count_documents({}),
    "delete_many": lambda things: things.delete_many({}),
    "delete_one": lambda things: things.delete_one({}),
    "distinct": lambda things: things.distinct("_id"),
    "estimated_document_count": lambda things: things.estimated_document_count(),
    "find_all": lambda things: things.find_all({}, {}, (), 0, 5),
    "find_one": lambda things: things.find_one(),
    "find_one_and_delete": lambda things: things.find_one_and_delete({}),
    "find_one_and_replace": lambda things: things.find_one_and_replace({}, {}),
    "find_one_and_update": lambda things: things.find_one_and_update({}, {"$set": {"a": 1}}),
    "find": lambda things: list(things.find()),
    "insert_many": lambda things: things.insert_many([{}]),
    "insert_one": lambda things: things.insert_one({}),
    "replace_one": lambda things: things.replace_one({}, {}),
    "update_many": lambda things: things.update_many({}, {"$set": {"a": 1}}),
    "update_one": lambda things: things.update_one({}, {"$set": {"a": 1}}),
}
# Methods that send nothing.
LOCAL = {"with_options", "get_collection", "of"}
CURSOR_OPERATIONS = {
    "distinct": lambda cursor: cursor.distinct("_id"),
    "explain": lambda cursor: cursor.explain(),
    "close": lambda cursor: (next(cursor), cursor.close()),
    "rewind": lambda cursor: (next(cursor), cursor.rewind(), next(cursor)),
    "a with block": lambda cursor: cursor.__enter__() and (next(cursor), cursor.__exit__(0, 0, 0)),
}


class CountingBulkhead(Bulkhead):
    def __init__(self):
        super().__init__(1)
        self.held = self.taken = 0

    def acquire(self, deadline):
        super().acquire(deadline)
        self.held += 1
        self.taken += 1

    def release(self):
        self.held -= 1
        super().release()


class Commands(monitoring.CommandListener):
    """Keeps the commands that were sent, and whether each had a slot and a time limit."""

    def __init__(self):
        self.bulkhead = CountingBulkhead()
        self.sent = []
        self.covered = []

    def started(self, event):
        self.sent.append(event.command)
        self.covered.append(self.bulkhead.held == 1 and _csot.remaining() is not None)

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass

    def request(self):
        self.sent.clear()
        self.covered.clear()
        return RequestBudget(self.bulkhead, LONG, time.monotonic())


@pytest.fixture
def commands():
    return Commands()


@pytest.fixture
def connect(mongodb_uri, commands):
    clients = []

    def connect(options=""):
        # As a member of its replica set: pymongo changes the preference of direct connections.
        uri = mongodb_uri.replace("directConnection=true", f"replicaSet={REPLICA_SET}")
        clients.append(MongoClient(uri + options, event_listeners=[commands]))
        return TimedDatabase.of(clients[-1].get_default_database("timing"))

    yield connect
    clients[0].drop_database("timing")
    for client in clients:
        client.close()


@pytest.fixture
def database(connect):
    return connect()


@pytest.fixture
def things(database):
    database["things"].insert_many([{} for _ in range(5)])
    return database["things"]


@pytest.fixture
def found(real_db):
    """Five players, to be read in three batches."""
    ids = sorted(player["_id"] for player in players(real_db))
    return ids, lambda: real_db.players.find({}, ["_id"], sort=[("_id", 1)], batch_size=2)


def players(db):
    made = [make_player() for _ in range(5)]
    db.players.insert_many(made)
    return made


def public_methods(kind):
    return [name for name in dir(kind) if name[0] != "_" and callable(getattr(kind, name))]


def assert_covered(commands):
    assert commands.sent
    assert all(commands.covered), commands.sent
    assert commands.bulkhead.taken


@pytest.mark.parametrize("name", public_methods(TimedCollection))
def test_every_method_of_a_collection_has_a_budget_or_is_refused(things, commands, name):
    if name in LOCAL:
        return
    with commands.request():
        if name in OPERATIONS:
            OPERATIONS[name](things)
        else:
            with pytest.raises(NotWithinRequest, match=name if name != "next" else "__next__"):
                getattr(things, name)()
    if name in OPERATIONS:
        assert_covered(commands)
    else:
        assert not commands.sent


@pytest.mark.parametrize("name", public_methods(TimedDatabase))
def test_every_method_of_a_database_has_a_budget_or_is_refused(database, commands, name):
    if name in LOCAL:
        return
    with commands.request():
        if name == "command":
            database.command("ping")
        else:
            with pytest.raises(NotWithinRequest, match=name if name != "next" else "__next__"):
                getattr(database, name)()
    assert commands.covered == ([True] if name == "command" else [])


def test_what_is_timed_exists():
    assert set(public_methods(Collection)) >= TIMED


def test_what_is_refused_within_a_request_works_outside_of_one(things, database):
    assert len(list(things.aggregate([{"$match": {}}]))) == 5
    assert [index["name"] for index in things.list_indexes()] == ["_id_"]
    assert things.options() == {}
    assert database.list_collection_names() == ["things"]
    things.drop()
    assert database.list_collection_names() == []


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_every_batch_of_a_cursor_has_a_budget(things, commands, read):
    with commands.request():
        assert len(read(things.find(batch_size=2))) == 5
    assert_covered(commands)


@pytest.mark.parametrize("operate", CURSOR_OPERATIONS.values(), ids=CURSOR_OPERATIONS)
def test_every_operation_of_a_cursor_has_a_budget(things, commands, operate):
    with commands.request():
        operate(things.find(batch_size=2))
    assert_covered(commands)


def test_no_method_of_a_cursor_is_forgotten():
    """A method that pymongo adds may send something: then it belongs into one of the tables."""
    chained = {
        "add_option",
        "allow_disk_use",
        "batch_size",
        "collation",
        "comment",
        "hint",
        "limit",
        "max",
        "max_await_time_ms",
        "max_scan",
        "max_time_ms",
        "min",
        "remove_option",
        "skip",
        "sort",
        "where",
    }
    known = {"clone", "close", "distinct", "explain", "next", "rewind", "to_list"}
    assert set(public_methods(Cursor)) == chained | known


def test_a_cursor_that_reaches_its_limit_waits_for_no_second_slot(things, commands):
    with commands.request():
        assert len(list(things.find(batch_size=2, limit=3))) == 3
    assert_covered(commands)


@pytest.mark.parametrize(
    "options", [{"comment": "why"}, {"skip": 1}, {"hint": "_id_"}, {"max_time_ms": 5000}]
)
def test_find_one_takes_every_option_of_pymongo(things, commands, options):
    with commands.request():
        assert things.find_one({}, sort=[("_id", -1)], **options)
    assert_covered(commands)


def test_find_one_takes_an_id(things):
    some = things.find_one()
    assert things.find_one(some["_id"]) == some
    assert things.find_one({"_id": "nobody"}) is None


@pytest.mark.parametrize(
    "derive",
    [
        lambda database: database.things,
        lambda database: database["things"],
        lambda database: database.get_collection("things"),
        lambda database: database.things.parts,
        lambda database: database["things"]["parts"],
        lambda database: database.things.with_options(write_concern=WriteConcern(1)),
        lambda database: database.with_options(write_concern=WriteConcern(1)).things,
        lambda database: database.things.with_options().database.things,
    ],
)
def test_whatever_is_derived_from_a_timed_database_is_timed(database, derive):
    derived = derive(database)
    assert type(derived) is TimedCollection
    assert type(derived.database) is TimedDatabase
    assert type(derived.find()) is TimedCursor


def test_options_are_kept(connect):
    plain = connect("&w=1&readConcernLevel=majority&readPreference=secondaryPreferred")
    again = TimedDatabase.of(
        Database(
            plain.client,
            "timing",
            plain.codec_options.with_options(tz_aware=True),
            ReadPreference.NEAREST,
            WriteConcern(1),
            ReadConcern("local"),
        )
    )
    for owner in (again, again.things, again.things.with_options(), again.things.parts):
        assert owner.codec_options.tz_aware
        assert owner.read_preference == ReadPreference.NEAREST
        assert owner.write_concern == WriteConcern(1)
        assert owner.read_concern == ReadConcern("local")


@pytest.mark.parametrize(
    "read",
    [
        lambda things: things.find_one({}),
        lambda things: things.find_all({}, {}, (), 0, 5),
        lambda things: list(things.find()),
        lambda things: things.count_documents({}),
        lambda things: things.distinct("_id"),
    ],
)
def test_reads_honour_the_read_preference_and_read_concern_of_the_uri(connect, commands, read):
    database = connect("&readConcernLevel=majority&readPreference=secondaryPreferred")
    commands.sent.clear()
    read(database.things)
    (command,) = commands.sent
    assert command["readConcern"]["level"] == "majority"
    assert command["$readPreference"] == {"mode": "secondaryPreferred"}


def test_a_read_has_no_read_concern_where_the_uri_sets_none(things, commands):
    commands.sent.clear()
    things.find_one({})
    assert "readConcern" not in commands.sent[0]


def test_the_storage_takes_over_what_the_uri_sets(mongodb_uri):
    uri = mongodb_uri + "&readConcernLevel=majority&readPreference=secondaryPreferred"
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=uri))
    for owner in (storage.db, storage.db.players):
        assert owner.read_concern == ReadConcern("majority")
        assert owner.read_preference == ReadPreference.SECONDARY_PREFERRED
        assert owner.codec_options == storage.client.codec_options
        assert owner.write_concern == WriteConcern("majority")
    storage.close()


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_cursor_is_read_within_the_budget_of_its_request(found, read):
    ids, find = found
    with RequestBudget(Bulkhead(1), LONG, time.monotonic()):
        assert read(find()) == ids


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_cursor_waits_for_a_slot(found, read):
    _, find = found
    too_old = RequestBudget(Bulkhead(0), LONG, time.monotonic() - LONG)
    with too_old, pytest.raises(Unavailable):
        read(find())


def test_the_next_batch_has_what_is_left_of_the_time(found):
    _, find = found
    with RequestBudget(Bulkhead(1), LONG, time.monotonic()):
        cursor = find()
        next(cursor), next(cursor)
    with RequestBudget(Bulkhead(1), 0.0, time.monotonic()), pytest.raises(Unavailable):
        next(cursor)
