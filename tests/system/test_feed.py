"""The feed of events on the real server: each entry once, in one order, whoever dies on the way."""

import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta, timezone

import pytest
from bson import ObjectId, Timestamp
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, PyMongoError

import config
from app.database import COLLECTIONS
from app.storage.client import Storage
from app.storage.events import BEGINNING, MOST_ENTRIES, Feed, Position, entries_after
from app.storage.schema.collections import init_database
from tests.factories import NOW, make_entry, make_player
from tests.system.programs import wait_until

LEADER = """
import sys, threading, config
from app.storage.client import Storage
from app.storage.events import Feed
settings = {"MONGODB_URI": sys.argv[1], "MONGODB_DATABASE": "feed"}
Feed(Storage(config.load({"QM_ENV": "testing"}, **settings))).begin()
threading.Event().wait()
"""


@pytest.fixture
def storage(mongodb_uri):
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "feed"}
    storage = Storage(config.load({"QM_ENV": "testing"}, **settings))
    init_database(storage.db, COLLECTIONS)
    yield storage
    storage.client.drop_database("feed")
    storage.close()


@pytest.fixture
def start(storage):
    """Return a function that starts feeds in this process; they end with the test."""
    with ExitStack() as feeds:

        def start(kind=Feed):
            feed = kind(storage)
            feeds.callback(feed.end)
            feed.begin()
            return feed

        yield start


@contextmanager
def leader(uri):
    """Run a feed in a process of its own, which is killed in the end."""
    process = subprocess.Popen([sys.executable, "-c", LEADER, uri])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def entries_in_log(storage, place):
    """Return the ids of all entries after a place, each with its place, as /api/v1/events does."""
    return storage.transactions.run(lambda: list(entries_after(storage.db, place)))


class Follower(threading.Thread):
    """A tool that follows the log."""

    def __init__(self, storage):
        super().__init__()
        self._storage, self.is_done = storage, threading.Event()
        self.seen, self.place = [], BEGINNING

    def run(self):
        while not self.is_done.wait(0.03):
            with suppress(PyMongoError):
                for entry_id, place in entries_in_log(self._storage, self.place):
                    self.place = place
                    self.seen.append((entry_id, time.monotonic()))

    def ids(self):
        return [entry_id for entry_id, _ in self.seen]


class Traffic(threading.Thread):
    """Changes of some players, whose entries are inserted one after another."""

    def __init__(self, storage):
        super().__init__()
        self._history, self.is_done = storage.db.history, threading.Event()
        self.players = [make_player() for _ in range(3)]
        self.made = {}

    def run(self):
        while not self.is_done.wait(0.02):
            for player in self.players:
                self.add(make_entry(player, Version=len(self.made), At=now()))

    def add(self, entry):
        is_made = False
        while not is_made:
            with suppress(PyMongoError):
                self._history.update_one({"_id": entry["_id"]}, {"$set": entry}, upsert=True)
                is_made = True
        self.made[entry["_id"]] = time.monotonic()


def now():
    return datetime.now(timezone.utc)


@contextmanager
def traffic(storage, before=()):
    """Let two tools follow changes, and compare in the end what they have seen."""
    maker, followers = Traffic(storage), [Follower(storage), Follower(storage)]
    for thread in (maker, *followers):
        thread.start()
    try:
        yield maker, followers
        maker.is_done.set()
        maker.join()
        expected = [*before, *maker.made]
        wait_until(lambda: all(len(f.seen) >= len(expected) for f in followers))
        time.sleep(0.5)  # in which doubles would come
    finally:
        for thread in (maker, *followers):
            thread.is_done.set()
            thread.join()
    first, second = (follower.ids() for follower in followers)
    assert first == second
    assert sorted(first) == sorted(expected)
    for player in maker.players:
        own = [id_ for id_ in maker.made if player["_id"] in id_]
        assert [id_ for id_ in first if player["_id"] in id_] == own
    numbers = [event["_id"] for event in storage.db.events.find(sort=[("_id", 1)])]
    assert numbers == list(range(1, len(numbers) + 1))


def wait_for_more(followers, count=50):
    wanted = [len(follower.seen) + count for follower in followers]
    wait_until(lambda: all(len(f.seen) >= n for f, n in zip(followers, wanted, strict=True)))


def test_events_are_seen_at_once_and_another_worker_takes_over_from_one_that_is_killed(
    storage, mongodb_uri
):
    with leader(mongodb_uri) as first, ExitStack() as others, traffic(storage) as (maker, tools):
        wait_for_more(tools)
        begun = time.monotonic()
        wait_for_more(tools, 300)
        seen = [(maker.made[id_], at) for id_, at in tools[0].seen]
        assert statistics.median(at - made for made, at in seen if made > begun) < 0.5
        others.enter_context(leader(mongodb_uri))
        first.send_signal(signal.SIGKILL)
        wait_for_more(tools)


def test_a_step_down_loses_and_doubles_nothing(storage, start):
    start()
    with traffic(storage) as (_, followers):
        wait_for_more(followers)
        storage.client.admin.command("replSetStepDown", 1, force=True)
        wait_for_more(followers)


def test_two_leaders_at_once_do_no_harm(storage, start):
    class Greedy(Feed):
        def _renew(self, **position):
            super()._renew(**position)
            return True

    start(Greedy)
    start(Greedy)
    with traffic(storage) as (_, followers):
        wait_for_more(followers, 500)


def test_after_a_restore_the_log_is_complete(storage, start):
    """Of a dump in which it lacks the last entries."""
    with traffic(storage) as (_, followers):
        feed = start()
        wait_for_more(followers, 300)
    feed.end()
    dump = {name: list(storage.db[name].find()) for name in ("history", "events", "locks")}
    del dump["events"][-2:]
    for name, documents in dump.items():
        storage.db[name].drop()
        init_database(storage.db, COLLECTIONS)
        storage.db[name].insert_many(documents)
    start()
    with traffic(storage, [entry["_id"] for entry in dump["history"]]) as (_, followers):
        wait_for_more(followers)


def test_db_init_logs_what_a_torn_backup_lacks(storage, start):
    """Of some weeks ago, restored on a server with another oplog."""
    past = now() - timedelta(days=30)
    entries = [make_entry(make_player(), At=past + timedelta(minutes=n)) for n in range(5)]
    storage.db.history.insert_many(entries)
    ids = [entry["_id"] for entry in entries]
    logged = {"_id": 7, "Entries": ids[:3], "Stamp": ObjectId.from_datetime(past)}
    storage.db.events.insert_one(logged)
    place = Position(7, 1, storage.db.events.find_one()["Stamp"])
    lease = {"Number": 7, "Start": {"start_at_operation_time": Timestamp(2**32 - 1, 1)}}
    storage.db.locks.replace_one({"_id": "events"}, {"By": "", "Until": past, **lease}, True)
    Feed(storage).catch_up()
    assert [id_ for id_, _ in entries_in_log(storage, place)] == ids[1:]
    start()
    later = make_entry(make_player(), At=now())
    time.sleep(2)
    storage.db.history.insert_one(later)
    wait_until(lambda: later["_id"] in [id_ for id_, _ in entries_in_log(storage, place)])


@pytest.mark.parametrize("lost", ["too old", "of another collection", "invalid", "absent"])
def test_a_token_that_cannot_be_resumed_loses_and_doubles_nothing(
    storage, start, lost, monkeypatch, caplog
):
    """absent: the documents of an earlier release have none."""
    storage.db.history.insert_many([make_entry(make_player(), At=NOW) for _ in range(3)])
    before = [make_entry(make_player(), At=now()) for _ in range(6)]
    storage.db.history.insert_many(before)
    with storage.db.players.watch() as stream:
        storage.db.players.insert_one(make_player())
        token = stream.next()["_id"]
    storage.db.players.insert_one(make_player())
    tokens = {"of another collection": {"Token": token}, "invalid": {"Token": {"_data": "82"}}}
    ids = [entry["_id"] for entry in before]
    for number, pair in ((1, ids[:2]), (2, ids[2:4])):
        event = {"_id": number, "Entries": pair, "Stamp": ObjectId(), **tokens.get(lost, {})}
        storage.db.events.insert_one(event)
    if lost == "too old":  # of an oplog that has room for everything, MongoDB accepts any time
        lease = {"Number": 2, "Start": {"start_at_operation_time": Timestamp(1, 1)}}
        storage.db.locks.replace_one({"_id": "events"}, {"By": "", "Until": NOW, **lease}, True)
        gone = [OperationFailure("the resume point may no longer be in the oplog", 286)]
        watch = Collection.watch

        def refuse_once(*args, **options):
            if gone:
                raise gone.pop()
            return watch(*args, **options)

        monkeypatch.setattr(Collection, "watch", refuse_once)
    place = Position(2, 1, storage.db.events.find_one({"_id": 2})["Stamp"])
    start()
    with traffic(storage, ids) as (_, followers):
        wait_for_more(followers)
    assert [id_ for id_, _ in entries_in_log(storage, place)] == followers[0].ids()[3:]
    assert ("begin a new stream" in caplog.text) == (lost != "absent")


def test_what_one_transaction_inserts_comes_in_its_order_even_if_it_is_much(storage, start):
    start()
    player, at = make_player(), now()
    entries = [make_entry(player, Version=-n, At=at) for n in range(2 * MOST_ENTRIES + 1)]
    with traffic(storage) as (maker, followers):
        wait_for_more(followers, 1)
        with storage.client.start_session() as session, session.start_transaction():
            storage.db.history.insert_many(entries, session=session)
        maker.made |= {entry["_id"]: time.monotonic() for entry in entries}
    seen = [id_ for id_ in followers[0].ids() if player["_id"] in id_]
    assert seen == [entry["_id"] for entry in entries]
    # It becomes several documents.
    assert max(len(event["Entries"]) for event in storage.db.events.find()) <= MOST_ENTRIES
