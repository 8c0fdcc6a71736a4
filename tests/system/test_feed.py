"""The feed of events on the real server: each entry once, in one order, whoever dies on the way."""

import signal
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
    feeds = []

    def start(kind=Feed):
        feeds.append(kind(storage))
        feeds[-1].begin()
        return feeds[-1]

    yield start
    for feed in feeds:
        feed.end()


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
    """A tool that follows the log from a place on."""

    def __init__(self, storage, place=BEGINNING):
        super().__init__()
        self.seen, self.place = {}, place
        self.doubles = 0
        self.is_done = threading.Event()
        self._storage = storage

    def run(self):
        while not self.is_done.wait(0.03):
            with suppress(PyMongoError):
                for entry_id, place in entries_in_log(self._storage, self.place):
                    self.place = place
                    self.doubles += entry_id in self.seen
                    self.seen[entry_id] = time.monotonic()


class Traffic(threading.Thread):
    """Changes of some players, whose entries are inserted one after another."""

    def __init__(self, storage):
        super().__init__()
        self._history = storage.db.history
        self._players = [make_player() for _ in range(3)]
        self.made, self.is_done = {}, threading.Event()

    def run(self):
        while not self.is_done.wait(0.02):
            for player in self._players:
                self.add(player, len(self.made))

    def add(self, player, version):
        entry = make_entry(player, Version=version, At=datetime.now(timezone.utc))
        while True:
            with suppress(PyMongoError):
                self._history.update_one({"_id": entry["_id"]}, {"$set": entry}, upsert=True)
                break
        self.made[entry["_id"]] = time.monotonic()


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
    first, second = (list(follower.seen) for follower in followers)
    assert [follower.doubles for follower in followers] == [0, 0]
    assert set(first) ^ set(expected) == set()
    assert first == second
    for player in maker._players:
        own = [id_ for id_ in maker.made if player["_id"] in id_]
        assert [id_ for id_ in first if player["_id"] in id_] == own
    numbers = [event["_id"] for event in storage.db.events.find(sort=[("_id", 1)])]
    assert numbers == list(range(1, len(numbers) + 1))


def waited_for_more(followers, count=50):
    """Wait until the tools have seen more; return how long that took."""
    begun, wanted = time.monotonic(), [len(follower.seen) + count for follower in followers]
    wait_until(lambda: all(len(f.seen) >= n for f, n in zip(followers, wanted, strict=True)))
    return time.monotonic() - begun


def test_an_event_is_seen_at_once(storage, mongodb_uri):
    with leader(mongodb_uri), traffic(storage) as (maker, followers):
        waited_for_more(followers)
        begun = time.monotonic()
        waited_for_more(followers, 300)
    seen = followers[0].seen
    delays = sorted(seen[id_] - at for id_, at in maker.made.items() if at > begun)
    median = delays[len(delays) // 2]
    print(f"{len(delays)} entries were seen after {median:.3f} s at the median")
    assert median < 0.5


def test_another_worker_takes_over_from_one_that_is_killed(storage, mongodb_uri):
    with leader(mongodb_uri) as first, ExitStack() as others, traffic(storage) as (_, followers):
        waited_for_more(followers)
        others.enter_context(leader(mongodb_uri))
        first.send_signal(signal.SIGKILL)
        print(f"after kill -9, the next events came within {waited_for_more(followers):.1f} s")


def test_a_step_down_loses_and_doubles_nothing(storage, start):
    start()
    with traffic(storage) as (_, followers):
        waited_for_more(followers)
        storage.client.admin.command("replSetStepDown", 1, force=True)
        waited_for_more(followers)


def test_two_leaders_at_once_do_no_harm(storage, start):
    class Greedy(Feed):
        def _renew(self, **position):
            super()._renew(**position)
            return True

    start(Greedy)
    start(Greedy)
    with traffic(storage) as (_, followers):
        waited_for_more(followers, 500)


def dump(storage):
    """Return the documents of a backup, in which the log lacks the last entries."""
    documents = {name: list(storage.db[name].find()) for name in ("history", "events", "locks")}
    del documents["events"][-2:]
    return documents


def restore(storage, documents):
    """Do what mongorestore --drop does."""
    for name, restored in documents.items():
        storage.db[name].drop()
        init_database(storage.db, COLLECTIONS)
        storage.db[name].insert_many(restored)


@pytest.mark.parametrize("is_running", [True, False])
def test_after_a_restore_the_log_is_complete(storage, start, is_running):
    with traffic(storage) as (_, followers):
        feed = start()
        waited_for_more(followers, 300)
    documents = dump(storage)
    if not is_running:
        feed.end()
    restore(storage, {name: documents[name] for name in ("events", "locks", "history")})
    if not is_running:
        start()
    with traffic(storage, [entry["_id"] for entry in documents["history"]]) as (_, followers):
        waited_for_more(followers)


def test_db_init_logs_what_a_torn_backup_lacks(storage, start):
    """Of some weeks ago, restored on a server with another oplog."""
    past = datetime.now(timezone.utc) - timedelta(days=30)
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
    later = make_entry(make_player(), At=datetime.now(timezone.utc))
    time.sleep(2)
    storage.db.history.insert_one(later)
    wait_until(lambda: later["_id"] in [id_ for id_, _ in entries_in_log(storage, place)])


@pytest.mark.parametrize("lost", ["too old", "of another collection", "invalid", "absent"])
def test_a_token_that_cannot_be_resumed_loses_and_doubles_nothing(
    storage, start, lost, monkeypatch, caplog
):
    """absent: the documents of an earlier release have none."""
    storage.db.history.insert_many([make_entry(make_player(), At=NOW) for _ in range(3)])
    before = [make_entry(make_player(), At=datetime.now(timezone.utc)) for _ in range(6)]
    storage.db.history.insert_many(before)
    with storage.db.players.watch() as stream:
        storage.db.players.insert_one(make_player())
        token = stream.next()["_id"]
    storage.db.players.insert_one(make_player())
    tokens = {"of another collection": {"Token": token}, "invalid": {"Token": {"_data": "82"}}}
    ids = [entry["_id"] for entry in before]
    for number in (1, 2):
        some = ids[2 * number - 2 : 2 * number]
        event = {"_id": number, "Entries": some, "Stamp": ObjectId(), **tokens.get(lost, {})}
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
        waited_for_more(followers)
    assert [id_ for id_, _ in entries_in_log(storage, place)] == [*followers[0].seen][3:]
    assert ("begin a new stream" in caplog.text) == (lost != "absent")


def test_what_one_transaction_inserts_comes_in_its_order(storage, start):
    start()
    with traffic(storage) as (maker, followers):
        waited_for_more(followers, 1)
        player = make_player()
        now = datetime.now(timezone.utc)
        entries = [make_entry(player, Version=n, At=now) for n in (3, 2, 1)]
        with storage.client.start_session() as session, session.start_transaction():
            storage.db.history.insert_many(entries, session=session)
        maker.made |= {entry["_id"]: time.monotonic() for entry in entries}
    seen = [id_ for id_ in followers[0].seen if player["_id"] in id_]
    assert seen == [entry["_id"] for entry in entries]


def test_many_entries_at_once_become_several_documents(storage, start):
    player, now = make_player(), datetime.now(timezone.utc)
    crowd = [make_entry(player, Version=n, At=now) for n in range(2 * MOST_ENTRIES + 1)]
    start()
    with traffic(storage) as (maker, _):
        storage.db.history.insert_many(crowd)
        maker.made |= {entry["_id"]: time.monotonic() for entry in crowd}
    assert max(len(event["Entries"]) for event in storage.db.events.find()) <= MOST_ENTRIES
