"""Laws of batches: each row once, whoever dies, and items neither lost nor made."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from app.batches import planning, running, store
from app.batches.domain import PlannedTooLong, Row, row_key, undoes_nothing
from app.batches.running import MOST_AT_ONCE, BatchWorker
from app.batches.store import Batches
from app.core.changes import Origin
from app.core.errors import Busy, Damaged, TooLarge
from app.core.limits import RequestScope, at_database
from app.players.store import Players
from app.storage.client import Storage
from tests.applications import service
from tests.callers import Caller
from tests.changes import Killed
from tests.factories import make_player, numbered_guid
from tests.mongod import on_mongodb
from tests.system.programs import wait_until

ITEM = numbered_guid(1)
SOMEBODY = Origin(None, "tester", "batch")
STARTER = {"UserId": None, "Name": "tester"}
FIELDS = {"Name": "", "Reason": None, "By": {"UserId": None, "Name": "tester"}, "Via": "cli"}


def rows_for(players, quantity=1):
    arguments = {"itemid": ITEM, "quantity": quantity, "bankoverflow": False}
    return [Row(player["Name"], "give", arguments) for player in players]


def plan(app, rows):
    with app.app_context():
        return planning.make_plan(rows, FIELDS).answer


def run(app, batch):
    """Carry out a batch to its end, or until it is paused or cancelled; return it."""
    batches = service(app, Batches)
    batch = batches.start(batch["_id"], STARTER)
    with app.app_context():
        while batch["State"] == "running":
            if not service(app, BatchWorker).carry_out(batch, SOMEBODY):
                time.sleep(0.01)
            batch = batches.get(batch["_id"])
    return batch


def held(db):
    return {
        player["_id"]: sum(
            slot["Quantity"] for slot in player["Inventory"].values() if slot["ItemId"] == ITEM
        )
        for player in db.players.find()
    }


def entries(db, batch):
    """Return how often the key of each row of a batch is in history."""
    keys = {"IdempotencyKey": {"$regex": f"^batch {batch['_id']}"}}
    return Counter(entry["IdempotencyKey"] for entry in db.history.find(keys))


def expire_leases(db):
    db.batches.update_many({}, {"$unset": {"Lease": ""}})


def assert_once(db, batch):
    """Each row is done once, with its entry, and the batch has counted them."""
    rows = list(db.batch_rows.find({"Batch": batch["_id"]}))
    verdicts = Counter(row["Verdict"].capitalize() for row in rows)
    counts = {**dict.fromkeys(("Ready", "Done", "Refused"), 0), **verdicts}
    counts["Replanned"] = sum(row["Replanned"] for row in rows)
    assert db.batches.find_one({"_id": batch["_id"]})["Counts"] == counts
    done = Counter(row_key(row)[0] for row in rows if row["Verdict"] == "done")
    assert entries(db, batch) == done
    assert set(done.values()) <= {1}


READS = ("find", "aggregate", "count_documents")
WRITES = ("insert_one", "insert_many", "update_one", "update_many", "bulk_write", "delete_one")
WRITES += ("find_one_and_update",)


class Stopped:
    """Acts before a command of this thread, with or without its transaction."""

    def __init__(self, patch, number, act, names=(*READS, *WRITES)):
        self._thread, self._left, self._act = threading.get_ident(), number, act
        for name in names:
            patch.setattr(Collection, name, self._stopping(getattr(Collection, name)))

    def _stopping(self, plain):
        def command(collection, *args, **options):
            if threading.get_ident() == self._thread:
                self._left -= 1
                if self._left == 0:
                    self._act()
            return plain(collection, *args, **options)

        return command

    @property
    def is_over(self):
        return self._left <= 0


def die(*_):
    raise Killed


def mixed(world, app):
    """Plan two rows for one player, a refused one, and undos, one of which is carried out alone."""
    staff = Caller(app.test_client(), world.headers(), "/api/v1/")
    players = [world.add_player(Name=f"Player {number}") for number in range(3)]
    deleted = world.add_player(Name="Deleted", Online=False)
    undone = [
        staff("DELETE players/Deleted").headers["X-History-Id"],
        staff("POST players/Player 2/items/give", {"itemid": ITEM, "quantity": 7}).headers[
            "X-History-Id"
        ],
    ]
    rows = rows_for([players[0], *players, {"Name": "Nobody"}])
    rows += [Row(None, "undo", {"id": id_}) for id_ in undone]
    return plan(app, rows), [*players, deleted]


@on_mongodb
def test_killed_before_every_command_each_row_is_carried_out_once(app, world, db):
    """Before its first command, its second and so on, by one worker after another."""
    batch, players = mixed(world, app)
    deaths = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            stop = Stopped(patch, deaths + 1, die)
            try:
                found = run(app, batch)
            except Killed:
                deaths += 1
                expire_leases(db)
                continue
        break
    assert not stop.is_over
    assert deaths > 10
    assert (found["State"], found["Counts"]["Done"], found["Counts"]["Refused"]) == ("done", 6, 1)
    assert held(db) == dict(zip((p["_id"] for p in players), (2, 1, 1, 0), strict=True))
    assert_once(db, batch)


@on_mongodb
@pytest.mark.parametrize("before", [*range(1, 8), "commit"])
def test_who_stands_still_while_another_worker_goes_on_makes_no_second_change(
    app, world, db, before
):
    """Once it has written, the other one waits until MongoDB ends its transaction."""
    batch = plan(app, rows_for([world.add_player() for _ in range(3)]))
    lease = service(app, Batches).lease

    def go_on():
        with ThreadPoolExecutor(1) as others:
            others.submit(expire_leases, db)
            assert others.submit(run_on).result()["State"] == "done"

    def run_on():
        while True:
            try:
                return run(app, batch)
            except Busy:
                expire_leases(db)

    service(app, Batches).start(batch["_id"], STARTER)
    with pytest.MonkeyPatch.context() as patch, app.app_context():
        if before == "commit":
            stop, names = 1, ("update_one",)
        else:
            stop, names = before, (*READS, *WRITES)

        def leased(batch_id):
            # From here on: it has the batch.
            token = lease(batch_id)
            if threading.current_thread() is threading.main_thread():
                Stopped(patch, stop, go_on, names)
            return token

        patch.setattr(service(app, Batches), "lease", leased)
        service(app, BatchWorker).carry_out(batch, SOMEBODY)
    assert set(held(db).values()) == {1}
    assert_once(db, batch)


@on_mongodb
@pytest.mark.parametrize(
    ("field", "refusal"),
    [
        ("Map", TooLarge("player")),
        ("Inventory", Damaged("player")),
        ("Level", Damaged("player")),
    ],
)
def test_one_damaged_player_in_each_portion_stops_no_other(app, world, db, field, refusal):
    players = [make_player() for _ in range(2 * MOST_AT_ONCE + 9)]
    db.players.insert_many(players)
    batch = plan(app, rows_for(players))
    damaged = players[7::MOST_AT_ONCE]
    for player in damaged:
        fill = "x" * (2**24 - len(bson.encode(player)) - 20)
        set_ = {"$set": {field: {"Map": fill, "Inventory": 5, "Level": "x"}[field]}}
        db.players.update_one({"_id": player["_id"]}, set_, bypass_document_validation=True)
    # Otherwise MongoDB lets what is invalid be changed.
    db.command("collMod", "players", validationLevel="strict")
    try:
        found = run(app, batch)
    finally:
        db.command("collMod", "players", validationLevel="moderate")
    assert found["Counts"]["Refused"] == len(damaged) == 3
    assert found["Counts"]["Done"] == len(players) - 3
    refused = db.batch_rows.find({"Verdict": "refused"})
    assert {row["Why"] for row in refused} == {str(refusal)}
    assert_once(db, batch)


@on_mongodb
@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_pause_is_quick_and_nothing_changes_after_its_answer(app, world, db, verb):
    players = [make_player() for _ in range(2000)]
    db.players.insert_many(players)
    batch, batches = plan(app, rows_for(players)), service(app, Batches)
    with ThreadPoolExecutor(1) as worker:
        running_ = worker.submit(run, app, batch)
        wait_until(lambda: batches.get(batch["_id"])["Counts"]["Done"])
        began = monotonic()
        answer = getattr(batches, verb)(batch["_id"])
        assert monotonic() - began < 1
        assert sum(held(db).values()) == answer["Counts"]["Done"] < len(players)
        assert running_.result()["Counts"] == answer["Counts"]
    assert sum(held(db).values()) == answer["Counts"]["Done"]
    assert_once(db, batch)
    if verb == "cancel":
        with app.app_context():
            undo = plan(app, planning.done_rows(batch["_id"], False))
        run(app, undo)
    else:
        assert run(app, batch)["Counts"]["Done"] == len(players)
    assert set(held(db).values()) == {int(verb == "pause")}


def test_a_batch_belongs_to_the_worker_that_has_its_lease(app, world, db):
    batch = plan(app, rows_for([world.add_player()]))
    batches, runner = service(app, Batches), service(app, BatchWorker)
    batches.start(batch["_id"], STARTER)
    lease = batches.lease(batch["_id"])
    with app.app_context():
        assert not runner.carry_out(batch, SOMEBODY)
        assert not service(app, BatchWorker).work()
        batches.release(batch["_id"], "another")
        assert not runner.carry_out(batch, SOMEBODY)
        # Whoever has it has not been heard of for ten seconds.
        late = batches.now() + store.LEASE
        batches.now = lambda: late
        assert runner.carry_out(batch, SOMEBODY)
    assert not batches.is_leased(batch["_id"], lease)
    assert held(db) == {player["_id"]: 1 for player in db.players.find()}


def test_rows_that_an_erasure_has_deleted_keep_no_batch_from_its_end(app, world, db):
    players = [world.add_player() for _ in range(3)]
    batch = plan(app, rows_for(players))
    db.batch_rows.delete_many({"Subject.Id": players[0]["_id"]})
    found = run(app, batch)
    assert (found["State"], found["Counts"]["Ready"], found["Counts"]["Done"]) == ("done", 0, 2)


def test_a_portion_that_takes_long_is_followed_by_smaller_ones(app, world, db, monkeypatch):
    monkeypatch.setattr(running, "LONGEST_SECONDS", 0)
    batch = plan(app, rows_for([world.add_player() for _ in range(90)]))
    change_many, sizes = Players.change_many, []

    def counted(players, wanted):
        sizes.append(len(wanted))
        return change_many(players, wanted)

    monkeypatch.setattr(Players, "change_many", counted)
    run(app, batch)
    assert sizes[:3] == [50, 25, 12]
    assert set(held(db).values()) == {1}


def test_a_plan_that_dies_leaves_nothing_that_could_be_run(app, world, db, monkeypatch):
    players = [world.add_player() for _ in range(3)]
    store = service(app, Batches)
    monkeypatch.setattr(store, "remove", lambda _: None)

    monkeypatch.setattr(store, "complete", die)
    with pytest.raises(Killed):
        plan(app, rows_for(players))
    (batch,) = db.batches.find()
    assert batch["State"] == "planning"
    monkeypatch.undo()
    store.remove_stale()
    assert db.batches.count_documents({}) == 1
    past = store.now() - timedelta(hours=1)
    db.batches.update_one({}, {"$set": {"At": past}})
    store.remove_stale()
    assert db.batches.count_documents({}) == 1
    db.batches.update_one({}, {"$set": {"PlannedUntil": past}})
    store.remove_stale()
    assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]


def test_a_long_plan_says_that_it_is_under_way(app, world, db, monkeypatch):
    """Otherwise it would be taken for one whose worker has died."""
    monkeypatch.setattr(planning, "CHUNK", 1)
    store = service(app, Batches)
    add_rows, seen = store.add_rows, set()

    def see(*args):
        add_rows(*args)
        seen.add(db.batches.find_one()["PlannedUntil"])
        monkeypatch.setattr(store, "now", lambda: max(seen))

    monkeypatch.setattr(store, "add_rows", see)
    plan(app, rows_for([world.add_player() for _ in range(3)]))
    assert len(seen) == 3


def test_a_plan_whose_last_answer_is_lost_stays_whole(app, world, db, monkeypatch):
    """The worker takes the plan for failed, and the batch can be run all the same."""
    players = [world.add_player() for _ in range(3)]
    store = service(app, Batches)
    complete = store.complete

    def lose_the_answer(*args):
        complete(*args)
        raise AutoReconnect("connection closed")

    monkeypatch.setattr(store, "complete", lose_the_answer)
    with pytest.raises(AutoReconnect):
        plan(app, rows_for(players))
    (batch,) = db.batches.find()
    assert batch["State"] == "planned"
    assert run(app, batch)["Counts"]["Done"] == 3
    assert set(held(db).values()) == {1}


@pytest.mark.parametrize("when", ["before its rows", "after its rows"])
def test_a_plan_that_was_removed_meanwhile_is_not_completed(app, world, db, monkeypatch, when):
    """By others, who take a planner that stands still for dead; its rows go all the same."""
    players = [world.add_player() for _ in range(3)]
    store = service(app, Batches)
    add_rows = store.add_rows

    def add_and_remove(batch, rows):
        if when == "before its rows":
            store.remove(batch["_id"])
        add_rows(batch, rows)
        assert db.batch_rows.count_documents({}) == 3
        store.remove(batch["_id"])

    monkeypatch.setattr(store, "add_rows", add_and_remove)
    with pytest.raises(PlannedTooLong):
        plan(app, rows_for(players))
    assert [db[name].count_documents({}) for name in ("batches", "batch_rows")] == [0, 0]


def variable_rows(player, count):
    """Return rows that set a variable of one player to 1, 2, 3 and so on."""
    return [
        Row(player["Name"], "set-variable", {"variable_id": ITEM, "value": n})
        for n in range(1, count + 1)
    ]


def values_set(db):
    """Return the values that a variable was set to, in the order of the changes."""
    entries = db.history.find({"Operation": "set-variable"}, sort=[("Version", 1)])
    return [entry["Arguments"]["Value"] for entry in entries]


def test_rows_of_one_player_keep_their_order(app, world, db):
    """They are more than are read at once, and somebody else has rows as well."""
    rows = variable_rows(world.add_player(), MOST_AT_ONCE + 20)
    others = rows_for([world.add_player() for _ in range(5)])
    batch = plan(app, [*rows, *others])
    assert run(app, batch)["Counts"]["Done"] == len(rows) + 5
    assert values_set(db) == list(range(1, len(rows) + 1))


@on_mongodb
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_and_a_command_together_carry_out_each_row_once(app, world, db, workers):
    batch = plan(app, [r for _ in range(3) for r in variable_rows(world.add_player(), 20)])
    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(lambda _: run(app, batch), range(workers)):
            assert (found["State"], found["Counts"]["Done"]) == ("done", 60)
    assert_once(db, batch)


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_chain_of_undos_is_undone_as_if_its_chosen_end_alone_had_been_made(chosen):
    """Whether a change is in effect flips with each undo of it, and of its undos."""
    chain = [{"_id": str(n), "Undoes": str(n - 1)} for n in range(len(chosen))]
    del chain[0]["Undoes"]
    by_id = {one["_id"]: one for one, is_chosen in zip(chain, chosen, strict=True) if is_chosen}
    last = len(chosen) - 1
    if not chosen[last]:
        return
    leaves = undoes_nothing(chain[last], by_id)
    before = last
    while before >= 0 and chosen[before]:
        before -= 1
    is_in_effect = last % 2 == 0
    was_in_effect = before % 2 == 0
    assert leaves == (is_in_effect == was_in_effect)


def test_a_request_at_the_database_is_seen(app, world, db):
    storage = service(app, Storage)
    with RequestScope(storage.places, monotonic()):
        with at_database():
            assert storage.places.in_use == 1
        assert storage.places.in_use == 0


@pytest.mark.parametrize("others", [0, 1])
def test_beside_others_a_worker_rests_between_portions(app, world, db, others, monkeypatch):
    batch = plan(app, rows_for([world.add_player() for _ in range(MOST_AT_ONCE + 1)]))
    rests = []
    service(app, BatchWorker).sleep = rests.append
    monkeypatch.setattr(service(app, Storage).places, "in_use", others)
    run(app, batch)
    assert len(rests) == 2 * others
    assert set(held(db).values()) == {1}
