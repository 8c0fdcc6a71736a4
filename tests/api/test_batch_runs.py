"""A batch that was started runs to its end without a caller: each row once, whoever dies."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import bson
import pytest
from pymongo.errors import OperationFailure

from app.auth.api_keys import new_secret
from app.batches import running, store
from app.batches.running import MOST_AT_ONCE, BatchWorker
from app.batches.store import Batches
from app.core.changes import Origin
from app.core.errors import Busy, Damaged, TooLarge
from app.core.permissions import FLAGS, Role
from app.players.store import Players
from app.storage.client import Storage
from tests.applications import service
from tests.callers import Caller
from tests.changes import deaths
from tests.factories import (
    NOW,
    gift,
    held,
    make_key,
    make_player,
    make_user,
    numbered_guid,
    with_keys,
)
from tests.mongod import on_mongodb
from tests.system.programs import wait_until

VARIABLE, KEY_ID = numbered_guid(2), numbered_guid(3)


@pytest.fixture
def plan(staff):
    """Plan a batch of these rows; return what a request about it answers."""

    def plan(rows):
        fields = {"Name": "Gifts", "Reason": "Ticket 4711", "Rows": rows}
        path = f"batches/{staff('POST batches', fields).json['Id']}"
        return lambda verb="", status=200, caller=staff: (
            caller(f"POST {path}/{verb}" if verb else f"GET {path}", status=status).json
        )

    return plan


@pytest.fixture
def batch(world, plan):
    """A batch with a gift for each of three players."""
    return plan([gift(world.add_player()["Name"]) for _ in range(3)])


@pytest.fixture
def worker(app):
    return service(app, BatchWorker)


def many(db, number):
    """Return a row for each of so many new players."""
    players = [make_player() for _ in range(number)]
    db.players.insert_many(players)
    return [gift(player["_id"], 1) for player in players]


@pytest.fixture
def carry_out(app, db, worker):
    """Carry out the batch for some seconds, as a worker that has found it; tell if it could."""

    def carry_out():
        with app.app_context():
            return worker.carry_out(db.batches.find_one(), Origin(None, "tester", "batch"))

    return carry_out


def assert_once(db):
    """Each row is done once, with its entry, and the batch has counted them."""
    rows = list(db.batch_rows.find())
    counts = Counter(row["Verdict"].capitalize() for row in rows)
    counts["Replanned"] = sum(row["Replanned"] for row in rows)
    assert Counter(db.batches.find_one()["Counts"]) == counts
    done = sorted(f"batch {row['_id']}" for row in rows if row["Verdict"] == "done")
    assert sorted(entry["IdempotencyKey"] for entry in db.history.find({"Via": "batch"})) == done


@pytest.mark.parametrize("verb", ["run", "advance"])
def test_a_batch_that_was_started_ends_without_a_caller(db, batch, worker, run_batches, verb):
    run_batches()
    assert held(db) == 0  # nobody has started it
    waits = []
    worker.sleep = lambda _: (waits.append(1), time.sleep(0.5))
    begun = batch(verb)
    assert (begun["State"], begun["Ready"]) == ("running", 3)
    assert len(waits) == (4 if verb == "advance" else 0)
    run_batches()
    assert held(db) == 15
    found = batch()
    assert (found["State"], found["Done"], found["StartedBy"]["Name"]) == ("done", 3, "Clerk")
    assert batch("run")["State"] == "done"
    entries = {(e["By"]["Name"], e["Via"], e["Reason"]) for e in db.history.find()}
    assert entries == {("Clerk", "batch", "Ticket 4711")}


def test_a_paused_batch_rests_until_it_is_run_again(db, batch, run_batches):
    assert batch("pause", 409)["Code"] == "BATCH_NOT_RUNNING"
    batch("run")
    for _ in range(2):
        assert batch("pause")["State"] == "paused"
    run_batches()
    assert held(db) == 0
    assert batch("advance", 409)["Code"] == "BATCH_PAUSED"
    assert batch("undo", 409)["Code"] == "BATCH_NOT_ENDED"
    begun_at = batch()["BegunAt"]
    assert batch("run")["State"] == "running"
    run_batches()
    assert held(db) == 15
    assert batch()["BegunAt"] == begun_at
    assert batch("pause")["State"] == "done"


def test_a_paused_batch_is_cancelled(db, batch, run_batches):
    for verb, state in (("run", "running"), ("pause", "paused"), ("cancel", "cancelled")):
        assert batch(verb)["State"] == state
    for verb in ("run", "pause"):
        assert batch(verb, 409)["Code"] == "BATCH_CANCELLED"
    run_batches()
    assert held(db) == 0


ROLE = "The account that started it no longer has the role '{}'."
GONE = "The account that started it can no longer run it: {}."
SCOPE = "The key that it was started with no longer has the scope '{}'."
KEY = f"Keys.{KEY_ID}"
# What the batch needs, what becomes of the account that has started it by a key, and the reason.
LOST = [
    ([], {"$set": {"Power.Api": False}}, ROLE.format("api")),
    (
        ["users"],
        {"$set": {f"Power.{FLAGS[Role.USERS_QUERY]}": False}},
        ROLE.format("users.query"),
    ),
    ([], {"$unset": {KEY: ""}}, GONE.format("the key no longer works")),
    ([], {"$set": {f"{KEY}.ExpiresAt": NOW}}, GONE.format("the key no longer works")),
    ([], {"$set": {f"{KEY}.Scopes": ["players.read"]}}, SCOPE.format("batches.run")),
    (["undo"], {"$pull": {f"{KEY}.Scopes": "undo.any"}}, SCOPE.format("undo.any")),
    (
        [],
        {"$set": {f"{KEY}.Budget": {"LargestQuantity": 5}}},
        "The key that it was started with has a budget now.",
    ),
    ([], {"$set": {"IsBanned": True}}, GONE.format("the account is banned")),
    ([], None, GONE.format("the account is gone")),
    # Nothing is written in that name any more.
    ([], "erased", "The account that started it is being erased."),
]


def test_a_batch_is_paused_whose_starter_could_not_start_it_any_more(
    client, world, db, batch, run_batches
):
    secret = new_secret()
    key = make_key(secret, ("players.change", "history.undo", "users.read"))
    account = with_keys(make_user(roles=(Role.API, Role.USERS_QUERY)), **{KEY_ID: key})
    tool = Caller(client, {"Authorization": f"Bearer {secret}"}, "/api/v1/")
    for needs, change, why in LOST:
        db.users.replace_one({"_id": account["_id"]}, account, upsert=True)
        db.batches.update_one({}, {"$set": {"Needs": needs}})
        batch("run", caller=tool)
        assert batch()["StartedBy"]["Key"] == "shop"
        if change == "erased":
            fence = {"_id": account["_id"], "BegunAt": NOW, "Players": [], "Bags": []}
            db.erasures.insert_one(fence)
        elif change:
            db.users.update_one({"_id": account["_id"]}, change)
        else:
            db.users.delete_one({"_id": account["_id"]})
        run_batches()
        found = batch()
        told = f"{why} Somebody else can resume it."
        assert (found["State"], found["PausedWhy"], held(db)) == ("paused", told, 0)
    batch("run")
    run_batches()
    found = batch()
    assert (found["State"], found["PausedWhy"]) == ("done", None)
    assert (found["StartedBy"]["Name"], held(db)) == ("Clerk", 15)


def test_nothing_is_planned_or_done_for_who_is_being_erased(db, plan, batch, run_batches):
    """The player may have been deleted since it was looked up."""
    first, second, third = db.players.find()
    for player in (first, second):
        fence = {"BegunAt": NOW, "Players": [player["_id"]], "Bags": []}
        db.erasures.insert_one({"_id": player["UserId"], **fence})
    planned = plan([gift(player["Name"]) for player in (first, second, third)])()
    assert (planned["Ready"], planned["Refused"]) == (1, 2)
    why = "This belongs to a person who is being erased."
    for row in db.batch_rows.find({"Batch": planned["Id"], "Subject": None}):
        assert (row["Player"], row["Arguments"], row["Why"]) == (None, {}, why)
    batch("run")
    run_batches()
    progress = batch()
    assert (progress["State"], progress["Done"], progress["Refused"]) == ("done", 1, 2)
    refused = db.batch_rows.find({"Batch": progress["Id"], "Verdict": "refused"})
    assert {row["Why"] for row in refused} == {why}


def test_rows_that_an_erasure_has_deleted_keep_no_batch_from_its_end(db, batch, run_batches):
    db.batch_rows.delete_one({})
    batch("run")
    run_batches()
    found = batch()
    assert (found["State"], found["Ready"], found["Done"]) == ("done", 0, 2)


def test_what_a_command_has_started_goes_on_in_its_name(app, db, batch, run_batches):
    service(app, Batches).start(batch()["Id"], {"UserId": None, "Name": "root"})
    run_batches()
    assert held(db) == 15
    assert {entry["By"]["Name"] for entry in db.history.find()} == {"root"}


def test_the_thread_goes_on_after_an_error_and_ends_with_its_worker(app, db, batch, worker):
    batches, calls = service(app, Batches), count()
    started = batches.find_waiting
    batches.find_waiting = lambda: started() if next(calls) else 1 / 0
    worker.is_ready = lambda: True
    batch("run")
    worker.begin()
    try:
        wait_until(lambda: db.batches.find_one()["State"] == "done")
    finally:
        worker.end()
    assert not worker.thread.is_alive()
    assert held(db) == 15


@on_mongodb
def test_killed_at_every_command_each_row_is_carried_out_once(staff, world, plan, db, run_batches):
    """At its first command, its second and so on, by one worker after another."""
    names = [world.add_player(Name=f"Player {number}")["Name"] for number in range(3)]
    world.add_player(Name="Deleted", Online=False)
    given = staff("POST players/Player 2/items/give", {"itemid": VARIABLE, "quantity": 7})
    # One of the undos, of the deletion, is carried out alone.
    undos = [
        {"Operation": "undo", "Id": answer.headers["X-History-Id"]}
        for answer in (staff("DELETE players/Deleted"), given)
    ]
    batch = plan([gift(name, 1) for name in (names[0], *names, "Nobody")] + undos)
    batch("run")
    assert max(deaths(run_batches)) > 10
    found = batch()
    assert (found["State"], found["Done"], found["Refused"]) == ("done", 6, 1)
    assert [held(db, Name=name) for name in names] == [2, 1, 1]
    assert (held(db, VARIABLE), db.players.count_documents({"Name": "Deleted"})) == (0, 1)
    assert_once(db)


@on_mongodb
@pytest.mark.parametrize("step", ["lease", "ready_rows", "is_leased", "note"])
def test_who_stands_still_while_another_worker_goes_on_makes_no_second_change(
    batch, carry_out, db, monkeypatch, step
):
    """Once it has written, the other one waits until MongoDB ends its transaction."""
    plain = getattr(Batches, step)

    def take_over():
        while db.batches.find_one()["State"] == "running":
            db.batches.update_one({}, {"$unset": {"Lease": ""}})
            with suppress(Busy):
                carry_out()

    def stand_still(*args):
        found = plain(*args)
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as others:
            others.submit(take_over).result()
        return found

    batch("run")
    monkeypatch.setattr(Batches, step, stand_still)
    # It may have stood still for longer than a transaction is repeated.
    with suppress(OperationFailure):
        carry_out()
    assert held(db) == 15
    assert_once(db)


def test_a_batch_belongs_to_the_worker_that_has_its_lease(app, batch, worker, carry_out, db):
    batches, id_ = service(app, Batches), batch()["Id"]
    batch("run")
    lease = batches.lease(id_)
    assert not carry_out()
    assert not worker.work()
    batches.release(id_, "another")
    assert not carry_out()
    # Whoever has it has not been heard of for ten seconds.
    late = batches.now() + store.LEASE
    batches.now = lambda: late
    assert carry_out()
    assert not batches.is_leased(id_, lease)
    assert held(db) == 15


@on_mongodb
def test_one_damaged_player_in_each_portion_stops_no_other(plan, db, run_batches):
    rows = many(db, 2 * MOST_AT_ONCE + 9)
    batch = plan(rows)
    damaged = [row["Player"] for row in rows[7::MOST_AT_ONCE]]
    room = 2**24 - len(bson.encode(db.players.find_one())) - 20
    for player, field, value in zip(
        damaged, ("Map", "Inventory", "Level"), ("x" * room, 5, "x"), strict=True
    ):
        set_ = {"$set": {field: value}}
        db.players.update_one({"_id": player}, set_, bypass_document_validation=True)
    # Otherwise MongoDB lets what is invalid be changed.
    db.command("collMod", "players", validationLevel="strict")
    try:
        batch("run")
        run_batches()
    finally:
        db.command("collMod", "players", validationLevel="moderate")
    refused = {row["Player"]: row["Why"] for row in db.batch_rows.find({"Verdict": "refused"})}
    whys = [str(one) for one in (TooLarge("player"), Damaged("player"), Damaged("player"))]
    assert refused == dict(zip(damaged, whys, strict=True))
    assert batch()["Done"] == len(rows) - 3
    assert_once(db)


@on_mongodb
@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_pause_is_quick_and_nothing_changes_after_its_answer(plan, db, run_batches, verb):
    rows = many(db, 1000)
    batch = plan(rows)
    batch("run")
    with ThreadPoolExecutor(1) as others:
        work = others.submit(run_batches)
        wait_until(lambda: batch()["Done"])
        began = time.monotonic()
        answer = batch(verb)
        assert time.monotonic() - began < 1
        assert held(db) == answer["Done"] < len(rows)
        work.result()
    assert held(db) == answer["Done"] == batch()["Done"]
    assert_once(db)
    if verb == "pause":
        batch("run")
        run_batches()
        assert held(db) == len(rows)


def test_a_portion_that_takes_long_is_followed_by_smaller_ones(plan, db, run_batches, monkeypatch):
    monkeypatch.setattr(running, "LONGEST_SECONDS", 0)
    change_many, sizes = Players.change_many, []

    def counted(players, wanted):
        sizes.append(len(wanted))
        return change_many(players, wanted)

    monkeypatch.setattr(Players, "change_many", counted)
    plan(many(db, 90))("run")
    run_batches()
    assert sizes[:3] == [50, 25, 12]
    assert held(db) == 90


def test_rows_of_one_player_keep_their_order(world, plan, db, run_batches):
    """They are more than are read at once, and somebody else has rows as well."""
    name, values = world.add_player()["Name"], list(range(MOST_AT_ONCE + 20))
    row = {"Player": name, "Operation": "set-variable", "VariableId": VARIABLE}
    batch = plan([*({**row, "Value": value} for value in values), *many(db, 5)])
    batch("run")
    run_batches()
    assert batch()["Done"] == len(values) + 5
    entries = db.history.find({"Operation": "set-variable"}, sort=[("Version", 1)])
    assert [entry["Arguments"]["Value"] for entry in entries] == values


@pytest.mark.parametrize("others", [0, 1])
def test_beside_others_a_worker_rests_between_portions(
    app, plan, db, worker, run_batches, monkeypatch, others
):
    plan(many(db, MOST_AT_ONCE + 1))("run")
    rests = []
    worker.sleep = rests.append
    monkeypatch.setattr(service(app, Storage).places, "in_use", others)
    run_batches()
    assert len(rests) == 2 * others
    assert held(db) == MOST_AT_ONCE + 1
