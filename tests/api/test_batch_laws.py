"""Laws of batches: each row once, whoever dies, and items neither lost nor made."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo.errors import AutoReconnect

from app.batches import domain, planning
from app.batches.choosing import Choosing
from app.batches.domain import (
    NewBatch,
    NotEnded,
    PlannedTooLong,
    Row,
    in_parts,
    in_waves,
    row_key,
    undoes_nothing,
)
from app.batches.parts import store as parts_store
from app.batches.parts.store import NEVER
from app.batches.planning import Planner
from app.batches.running import FEW_ROWS, Run, Runner
from app.batches.store import Batches, BatchTraces
from app.changes import Origin
from app.errors import Unavailable
from app.players.store import Players
from app.request_scope import at_database
from app.storage.bulk_swap import Swapped
from app.storage.client import Storage
from app.storage.unfinished import UnfinishedWork
from tests.applications import service
from tests.factories import numbered_guid
from tests.mongod import on_mongodb
from tests.swaps import move_all

ITEM = numbered_guid(1)
SOMEBODY = Origin(None, "tester", "batch")
STARTER = {"UserId": None, "Name": "tester"}
FIELDS = {"Name": "", "Reason": None, "By": {"UserId": None, "Name": "tester"}, "Via": "cli"}


class Killed(BaseException):
    """The process dies here."""


class Dying:
    """A collection before whose operations the process may die."""

    def __init__(self, collection, die):
        self._collection, self._die = collection, die

    def with_options(self, **options):
        return Dying(self._collection.with_options(**options), self._die)

    def __getattr__(self, name):
        found = getattr(self._collection, name)
        if callable(found) and not name.startswith("_"):
            self._die()
        return found


def rows_for(players, quantity=1):
    arguments = {"itemid": ITEM, "quantity": quantity, "bankoverflow": False}
    return [Row(n, p["Name"], "give", arguments) for n, p in enumerate(players, 1)]


def plan(app, rows):
    with app.app_context():
        return service(app, Planner).plan(rows, NewBatch(FIELDS, None, ""), lambda _: None)


def run(app, batch, runner=None):
    with app.app_context():
        while True:
            found = (runner or service(app, Runner)).advance(batch["_id"], SOMEBODY, STARTER)
            if found["State"] == "done":
                return found


def held(db):
    return {
        player["_id"]: sum(
            slot["Quantity"] for slot in player["Inventory"].values() if slot["ItemId"] == ITEM
        )
        for player in db.players.find()
    }


def entries(db, batch):
    """Return how often the key of each row of a batch is in history."""
    move_all(db)
    keys = {"IdempotencyKey": {"$regex": f"^batch {batch['_id']}"}}
    return Counter(entry["IdempotencyKey"] for entry in db.history.find(keys))


def expected_entries(db, batch):
    return Counter(row_key(row)[0] for row in db.batch_rows.find({"Batch": batch["_id"]}))


def expire_leases(db):
    db.batch_parts.update_many({}, {"$set": {"LeasedUntil": NEVER}})


@pytest.mark.parametrize("moves", [False, True])
def test_killed_before_every_operation_each_row_is_carried_out_once(app, world, db, moves):
    """In turn before the first operation of the database, before the second, and so on."""
    players = [world.add_player() for _ in range(3)]
    batch = plan(app, rows_for([*players, players[0]]))
    store, player_store = service(app, Batches), service(app, Players)
    holders = [(store, "_batches"), (store, "_rows"), (store, "_parts")]
    holders.append((player_store._swapper, "_collection"))
    real = [getattr(holder, name) for holder, name in holders]
    counted, last, deaths = 0, 0, 0

    def die():
        nonlocal counted
        counted += 1
        if counted == last:
            raise Killed

    is_done = False
    while not is_done:
        last, counted = last + 1, 0
        for (holder, name), collection in zip(holders, real, strict=True):
            setattr(holder, name, Dying(collection, die))
        try:
            run(app, batch, service(app, Runner))
            is_done = counted < last
        except Killed:
            deaths += 1
        finally:
            for (holder, name), collection in zip(holders, real, strict=True):
                setattr(holder, name, collection)
        expire_leases(db)
        if moves:
            move_all(db)
    assert deaths > 5
    assert run(app, batch)["Counts"]["Done"] == 4
    assert held(db) == {p["_id"]: 1 + (p is players[0]) for p in players}
    assert entries(db, batch) == expected_entries(db, batch)


def test_a_batch_is_done_when_nobody_has_a_part_of_it_any_more(app, world, db):
    """A caller has died after it noted its last row, and before it gave its part back."""
    batch = plan(app, rows_for([world.add_player() for _ in range(3)]))
    store = service(app, Batches)

    def die(_):
        raise Killed

    store.release = die
    with pytest.raises(Killed):
        run(app, batch)
    del store.release
    found = store.note_progress(batch["_id"])
    assert (found["State"], found["Counts"]["Ready"]) == ("running", 0)
    with pytest.raises(NotEnded):
        store.require_ended(batch["_id"])
    expire_leases(db)
    run(app, batch)
    assert store.require_ended(batch["_id"])["State"] == "done"


def test_whoever_lost_a_lease_to_another_makes_no_second_change(app, world, db):
    """A worker that stood still after it read, while another took its part over and ended it."""
    players = [world.add_player() for _ in range(3)]
    batch = plan(app, rows_for(players))
    player_store = service(app, Players)
    change_many = player_store.change_many

    def stand_still(wanted):
        player_store.change_many = change_many
        expire_leases(db)
        run(app, batch)
        move_all(db)
        return change_many(wanted)

    player_store.change_many = stand_still
    assert run(app, batch)["Counts"]["Done"] == 3
    assert set(held(db).values()) == {1}
    assert entries(db, batch) == expected_entries(db, batch)


def test_a_game_that_writes_beside_loses_nothing(app, world, db):
    """Between each read and each write, a game that keeps no rule puts something into a slot."""
    players = [world.add_player() for _ in range(3)]
    batch = plan(app, rows_for(players))
    swapper = service(app, Players)._swapper
    read_many, writes = swapper.read_many, 0

    def read(wanted):
        nonlocal writes
        documents = read_many(wanted)
        if writes < 4:
            slot = {"ItemId": ITEM, "Quantity": 10}
            db.players.update_one(
                {"_id": players[1]["_id"]}, {"$set": {f"Inventory.{writes}": slot}}
            )
            writes += 1
        return documents

    swapper.read_many = read
    try:
        assert run(app, batch)["Counts"]["Done"] == 3
    finally:
        swapper.read_many = read_many
    assert writes > 1
    assert [held(db)[player["_id"]] for player in players] == [1, 10 * writes + 1, 1]


def test_a_plan_that_dies_leaves_nothing_that_could_be_run(app, world, db, monkeypatch):
    players = [world.add_player() for _ in range(3)]
    store = service(app, Batches)
    monkeypatch.setattr(store, "remove", lambda _: None)

    def die(*_):
        raise Killed

    monkeypatch.setattr(store, "complete", die)
    with pytest.raises(Killed):
        plan(app, rows_for(players))
    (batch,) = db.batches.find()
    assert batch["State"] == "planning"
    monkeypatch.undo()
    with app.app_context():
        service(app, UnfinishedWork).finish_all()
        assert db.batches.count_documents({}) == 1
        past = service(app, Storage).clock.now() - timedelta(hours=1)
        db.batches.update_one({}, {"$set": {"At": past}})
        service(app, UnfinishedWork).finish_all()
        assert db.batches.count_documents({}) == 1
        db.batches.update_one({}, {"$set": {"PlannedUntil": past}})
        service(app, UnfinishedWork).finish_all()
    names = ("batches", "batch_rows", "batch_parts")
    assert [db[name].count_documents({}) for name in names] == [0, 0, 0]


def test_a_long_plan_says_that_it_is_under_way(app, world, db, monkeypatch):
    """Otherwise it would be taken for one whose worker has died."""
    monkeypatch.setattr(planning, "RENEWAL_SECONDS", 0)
    monkeypatch.setattr(domain, "PART_ROWS", 1)
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


@pytest.mark.parametrize("when", ["before its rows", "after its rows", "half"])
def test_a_plan_that_was_removed_meanwhile_is_not_completed(app, world, db, monkeypatch, when):
    """By others, who take a planner that stands still for dead; its rows go all the same."""
    players = [world.add_player() for _ in range(3)]
    store = service(app, Batches)
    add_rows = store.add_rows

    def remove(batch_id):
        if when == "half":
            db.batches.update_one({"_id": batch_id}, {"$set": {"IsRemoved": True}})
        else:
            store.remove(batch_id)

    def add_and_remove(batch, part, rows):
        if when == "before its rows":
            remove(batch["_id"])
        add_rows(batch, part, rows)
        assert db.batch_parts.count_documents({}) == 1
        if when != "before its rows":
            remove(batch["_id"])

    monkeypatch.setattr(store, "add_rows", add_and_remove)
    with pytest.raises(PlannedTooLong):
        plan(app, rows_for(players))
    names = ("batches", "batch_rows", "batch_parts")
    assert [db[name].count_documents({}) for name in names] == [0, 0, 0]


def test_an_erasure_reads_only_rows_that_may_tell_of_others(app, world, db):
    """Of millions of rows, an erasure that is cut off and begins anew would see the first alone."""
    players = [world.add_player() for _ in range(3)]
    nobody = Row(4, "Nobody", "give", rows_for(players)[0].arguments)
    plan(app, [*rows_for(players), nobody])
    read = []
    for _ in BatchTraces(db).rewrite(lambda document: read.append(document) or {}):
        pass
    assert [row["Player"] for row in read if "Player" in row] == ["Nobody"]


def variable_rows(player, count):
    """Return rows that set a variable of one player to 1, 2, 3 and so on."""
    return [
        Row(n, player["Name"], "set-variable", {"variable_id": ITEM, "value": n})
        for n in range(1, count + 1)
    ]


def values_set(db):
    """Return the values that a variable was set to, in the order of the changes."""
    move_all(db)
    entries = db.history.find({"Operation": "set-variable"}, sort=[("Version", 1)])
    return [entry["Arguments"]["Value"] for entry in entries]


@pytest.mark.parametrize("callers", [1, 3])
def test_rows_of_one_player_keep_their_order_whoever_carries_them_out(
    app, world, db, monkeypatch, callers
):
    """They are more than are stored and read at once, and somebody else has rows as well."""
    if callers > 1 and service(app, Storage).is_mock:
        callers = 1  # the imitation is not made for threads
    monkeypatch.setattr(domain, "PORTION_ROWS", 20)
    monkeypatch.setattr(parts_store, "PORTION_ROWS", 20)
    rows = variable_rows(world.add_player(), 70)
    others = [world.add_player() for _ in range(5)]
    batch = plan(app, [*rows, *(row._replace(number=row.number + 70) for row in rows_for(others))])
    runner = service(app, Runner)
    with ThreadPoolExecutor(callers) as pool:
        for found in pool.map(lambda _: run(app, batch, runner), range(callers)):
            assert found["Counts"]["Done"] == 75
    assert values_set(db) == list(range(1, 71))


def test_a_row_that_could_not_be_tried_holds_up_those_of_its_player_alone(
    app, world, db, monkeypatch
):
    """Otherwise the next row of the player would be made before it."""
    player, other = world.add_player(), world.add_player()
    batch = plan(app, [*variable_rows(player, 4), rows_for([other])[0]._replace(number=5)])
    change_many, change, is_away = Players.change_many, Players.change, True

    def second_is_away(wanted):
        return is_away and wanted.rule.keywords.get("value") == 2

    def change_others(players, wanted):
        made = change_many(players, [one for one in wanted if not second_is_away(one)])
        return [Swapped() if second_is_away(one) else made.pop(0) for one in wanted]

    def unavailable(*_):
        raise Unavailable("The database is away.")

    monkeypatch.setattr(Players, "change_many", change_others)
    monkeypatch.setattr(Players, "change", unavailable)
    runner = service(app, Runner)
    lease = runner._batches.lease(batch["_id"])
    with app.app_context():
        runner._carry_out(lease, Run(SOMEBODY, lambda: False, lambda: False))
    assert values_set(db) == [1]
    assert held(db)[other["_id"]] == 1
    is_away = False
    monkeypatch.setattr(Players, "change", change)
    assert run(app, batch)["Counts"]["Done"] == 5
    assert values_set(db) == [1, 2, 3, 4]


def test_a_long_part_is_taken_over_in_the_middle_and_its_lease_is_renewed(
    app, world, db, monkeypatch
):
    monkeypatch.setattr(parts_store, "PORTION_ROWS", 10)
    batch = plan(app, variable_rows(world.add_player(), 35))
    batches, runner = service(app, Batches), service(app, Runner)
    settle, leases = batches.settle, []

    def die_in_the_middle(lease, settled):
        leases.append(lease)
        if len(leases) == 25:
            raise Killed
        return settle(lease, settled)

    monkeypatch.setattr(batches, "settle", die_in_the_middle)
    with pytest.raises(Killed):
        run(app, batch, runner)
    assert len({lease.until for lease in leases}) == 3
    assert len({lease.taken_at for lease in leases}) == 3
    monkeypatch.setattr(batches, "settle", settle)
    expire_leases(db)
    assert run(app, batch)["Counts"]["Done"] == 35
    assert values_set(db) == list(range(1, 36))


def test_whoever_lost_a_long_part_to_another_leaves_it(app, world, db, monkeypatch):
    monkeypatch.setattr(parts_store, "PORTION_ROWS", 10)
    batch = plan(app, variable_rows(world.add_player(), 35))
    batches, runner = service(app, Batches), service(app, Runner)
    renew = batches.renew

    def stand_still(lease):
        expire_leases(db)
        assert batches.lease(batch["_id"])
        return renew(lease)

    monkeypatch.setattr(batches, "renew", stand_still)
    lease = batches.lease(batch["_id"])
    with app.app_context():
        runner._carry_out(lease, Run(SOMEBODY, lambda: False, lambda: False))
    assert values_set(db) == list(range(1, 11))


subjects = st.lists(st.integers(0, 30), max_size=900)


@given(subjects, st.sampled_from([7, 150, 1000]))
@settings(max_examples=30, deadline=None)
def test_parts_and_waves_hold_every_row_once_and_in_order(numbers, portion_rows):
    rows = [
        Row(place, None, "give", {}, subject={"Id": str(number)})
        for place, number in enumerate(sorted(numbers))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domain, "PORTION_ROWS", portion_rows)
        portions = list(in_parts(rows))
    assert all(0 < len(portion) <= portion_rows for _, portion in portions)
    assert [row for _, portion in portions for row in portion] == rows
    owned_by = {(part, row.subject_id) for part, portion in portions for row in portion}
    assert len(owned_by) == len(set(numbers))
    for part, portion in portions:
        documents = [{"Subject": row.subject, "Number": row.number} for row in portion]
        waves = list(in_waves(documents))
        assert sorted(d["Number"] for wave in waves for d in wave) == [r.number for r in portion]
        for wave in waves:
            ids = [document["Subject"]["Id"] for document in wave]
            assert len(ids) == len(set(ids))
        for subject in (subject for owner, subject in owned_by if owner == part):
            own = [d["Number"] for wave in waves for d in wave if d["Subject"]["Id"] == subject]
            assert own == sorted(own)


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_chain_of_undos_is_undone_as_if_its_chosen_end_alone_had_been_made(chosen):
    """Whether a change is in effect flips with each undo of it, and of its undos."""
    chain = [{"_id": str(n), "Undoes": str(n - 1)} for n in range(len(chosen))]
    del chain[0]["Undoes"]
    by_id = {entry["_id"]: entry for entry in chain}
    last = len(chosen) - 1
    if not chosen[last]:
        return
    leaves = undoes_nothing(chain[last], by_id.get, lambda entry: chosen[int(entry["_id"])])
    before = last
    while before >= 0 and chosen[before]:
        before -= 1
    is_in_effect = last % 2 == 0
    was_in_effect = before % 2 == 0
    assert leaves == (is_in_effect == was_in_effect)


@pytest.fixture
def long_leases(monkeypatch):
    """Let nobody take rows over from a run that a busy machine holds up."""
    monkeypatch.setattr(parts_store, "LEASE", timedelta(hours=2))
    monkeypatch.setattr(parts_store, "SURE_SECONDS", 3600.0)


@pytest.mark.usefixtures("long_leases")
@pytest.mark.parametrize(("others", "most"), [(0, 90), (1, FEW_ROWS)])
def test_beside_others_a_few_rows_are_carried_out_at_once(
    app, world, db, monkeypatch, others, most
):
    batch = plan(app, rows_for([world.add_player() for _ in range(90)]))
    service(app, Runner).requests_at_work = lambda: others
    change_many, sizes = Players.change_many, []

    def counted(players, wanted):
        sizes.append(len(wanted))
        return change_many(players, wanted)

    monkeypatch.setattr(Players, "change_many", counted)
    run(app, batch)
    assert (max(sizes), sum(sizes)) == (most, 90)
    assert set(held(db).values()) == {1}


def test_a_request_at_the_database_is_seen(app, world, db):
    storage = service(app, Storage)
    with storage.request_scope(monotonic()):
        with at_database():
            assert storage.requests_at_work() == 1
        assert storage.requests_at_work() == 0


@pytest.mark.usefixtures("long_leases")
def test_runs_of_one_worker_do_not_rest_for_each_other(app, world, db, client, monkeypatch):
    batch = plan(app, rows_for([world.add_player()]))
    change_many, seen = Players.change_many, []

    def counted(players, wanted):
        seen.append(service(app, Runner).requests_at_work())
        return change_many(players, wanted)

    monkeypatch.setattr(Players, "change_many", counted)
    with service(app, Storage).request_scope(monotonic()), at_database():
        run(app, batch)
    # A run that is held up may carry its row out again.
    assert set(seen) == {0}


@on_mongodb
def test_of_all_batches_that_try_a_row_again_one_carries_it_out(app, world, db):
    """The original, which is still open, two retries of it, and a retry of a retry, all at once."""
    players = [world.add_player() for _ in range(40)]
    original = plan(app, rows_for(players))

    def retry(batch):
        db.batches.update_one({"_id": batch["_id"]}, {"$set": {"State": "cancelled"}})
        with app.app_context():
            again = list(service(app, Choosing).rows_left(batch["_id"]))
        db.batches.update_one({"_id": batch["_id"]}, {"$set": {"State": "planned"}})
        return plan(app, again)

    batches = [original, first := retry(original), retry(original), retry(first)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda batch: run(app, batch), batches))
    assert set(held(db).values()) == {1}
    assert set(entries(db, original).values()) == {1}
    found = list(db.batch_rows.find())
    done = [row["_id"][37:] for row in found if row["Verdict"] == "done"]
    assert sorted(done) == [f"{number:06}" for number in range(1, 41)]
    assert {row["Why"] for row in found if row["Verdict"] != "done"} == {domain.RETRIED}
    # Whatever was made is undone by the batch that made it.
    with app.app_context():
        for batch in batches:
            if db.batch_rows.count_documents({"Batch": batch["_id"], "Verdict": "done"}):
                run(app, plan(app, service(app, Choosing).done_rows(batch["_id"], False)))
    assert set(held(db).values()) == {0}


def test_a_row_that_was_tried_again_by_a_dead_caller_is_done_and_not_refused(app, world, db):
    """The caller died before it stored the results, and the batch goes on or is cancelled."""
    rows = rows_for([world.add_player() for _ in range(3)])
    earlier = [domain.row_id(numbered_guid(7), row.number) for row in rows]
    batch = plan(app, [r._replace(earlier_id=e) for r, e in zip(rows, earlier, strict=True)])
    parts = list(db.batch_parts.find())
    run(app, batch)
    batches = service(app, Batches)

    def die_before_results():
        db.batch_rows.update_many({}, {"$set": {"Verdict": "ready"}})
        lease = {"LeasedUntil": batches.now() - timedelta(hours=1)}
        db.batch_parts.insert_many([{**part, **lease} for part in parts])
        db.batches.update_one({}, {"$set": {"State": "running"}})

    die_before_results()
    assert run(app, batch)["Counts"]["Done"] == 3
    die_before_results()
    batches.cancel(batch["_id"])
    with app.app_context():
        assert len(list(service(app, Choosing).done_rows(batch["_id"], False))) == 3
    assert set(held(db).values()) == {1}


@on_mongodb
def test_a_partial_undo_beside_a_game_that_spends_makes_and_loses_nothing(app, world, db):
    """What was given is held, or was spent by the game, or was taken back by an entry."""
    players = [world.add_player() for _ in range(30)]
    batch = plan(app, rows_for(players, 5))
    run(app, batch)
    with app.app_context():
        rows = list(service(app, Choosing).done_rows(batch["_id"], is_partial=True))
    undo = plan(app, rows)
    spent = Counter()

    def spend():
        for player in players * 4:
            one = {"_id": player["_id"], "Inventory.0.Quantity": {"$gt": 1}}
            less = {"$inc": {"Inventory.0.Quantity": -1, "Version": 1}}
            spent[player["_id"]] += db.players.update_one(one, less).modified_count

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(spend), *(pool.submit(run, app, undo) for _ in range(2))]:
            done.result()
    assert entries(db, undo) == expected_entries(db, undo)
    taken = Counter()
    for entry in db.history.find({"Operation": "undo"}):
        for change in entry["Changes"]:
            left = change["After"]["Quantity"] if change["After"] else 0
            taken[entry["Subject"]["Id"]] += change["Before"]["Quantity"] - left
        missing = 5 - taken[entry["Subject"]["Id"]]
        assert entry.get("Warning", "0 of 5").startswith(f"{missing} of 5")
    rows = {row["Subject"]["Id"]: row for row in db.batch_rows.find({"Batch": undo["_id"]})}
    for id_, left in held(db).items():
        assert left + spent[id_] + taken[id_] == 5
        assert (rows[id_]["Verdict"], bool(rows[id_]["Warning"])) == ("done", taken[id_] < 5)
