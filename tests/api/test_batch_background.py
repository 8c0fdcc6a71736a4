"""A batch that was started runs to its end without a caller, unless it is paused."""

from __future__ import annotations

import atexit
import time
from datetime import timedelta

import pytest

from app.auth.api_keys import new_secret
from app.batches.running import BatchWorker
from app.batches.store import Batches
from app.core.permissions import FLAGS, Role
from tests.applications import service
from tests.factories import NOW, make_key, numbered_guid, with_keys
from tests.system.programs import wait_until

ITEM = numbered_guid(1)
KEY, KEY_ID = new_secret(), numbered_guid(2)
RUN_SCOPES = ("players.change", "history.undo", "users.read")


@pytest.fixture
def send(staff):
    return lambda path, body=None, status=200, method="POST", **headers: (
        staff(f"{method} batches{path}", body, status, **headers).json
    )


@pytest.fixture
def batch(world, send):
    """A batch with a gift for each of three players."""
    return gifts(world, send, 3)


@pytest.fixture
def worker(app):
    return service(app, BatchWorker)


def gifts(world, send, count):
    players = [world.add_player() for _ in range(count)]
    give = {"Operation": "give", "ItemId": ITEM, "Quantity": 5}
    rows = [{"Player": player["Name"], **give} for player in players]
    return send("", {"Name": "Gifts", "Reason": "Ticket 4711", "Rows": rows})


def held(db):
    return [
        sum(slot["Quantity"] for slot in player["Inventory"].values())
        for player in db.players.find()
    ]


def run_out(worker):
    while worker.work():
        pass


@pytest.mark.parametrize("verb", ["run", "advance"])
def test_a_batch_that_was_started_ends_without_a_caller(app, db, batch, send, worker, verb):
    path = f"/{batch['Id']}"
    run_out(worker)
    assert held(db) == [0, 0, 0]  # nobody has started it
    waits = []
    service(app, BatchWorker).sleep = lambda _: (waits.append(1), time.sleep(0.5))
    begun = send(f"{path}/{verb}")
    assert (begun["State"], begun["Ready"]) == ("running", 3)
    assert len(waits) == (4 if verb == "advance" else 0)
    run_out(worker)
    assert held(db) == [5, 5, 5]
    found = send(path, method="GET")
    assert (found["State"], found["Done"]) == ("done", 3)
    assert found["StartedBy"]["Name"] == "Clerk"
    assert send(f"{path}/run")["State"] == "done"
    entries = {(e["By"]["Name"], e["Via"], e["Reason"]) for e in db.history.find()}
    assert entries == {("Clerk", "batch", "Ticket 4711")}


def test_a_paused_batch_rests_until_it_is_run_again(db, batch, send, worker):
    path = f"/{batch['Id']}"
    refused = send(f"{path}/pause", status=409)
    assert refused["Message"] == "The batch is not running: there is nothing to pause."
    send(f"{path}/run")
    for _ in range(2):
        assert send(f"{path}/pause")["State"] == "paused"
    run_out(worker)
    assert held(db) == [0, 0, 0]
    refused = send(f"{path}/advance", status=409)
    assert refused["Message"] == ("The batch is paused: nothing changes until it is run again.")
    refused = send(f"{path}/undo", status=409)
    assert refused["Message"].startswith("The batch is not finished")
    begun_at = send(path, method="GET")["BegunAt"]
    assert send(f"{path}/run")["State"] == "running"
    run_out(worker)
    assert held(db) == [5, 5, 5]
    assert send(path, method="GET")["BegunAt"] == begun_at
    assert send(f"{path}/pause")["State"] == "done"


def test_a_paused_batch_is_cancelled(db, batch, send, worker):
    send(f"/{batch['Id']}/run")
    send(f"/{batch['Id']}/pause")
    assert send(f"/{batch['Id']}/cancel")["State"] == "cancelled"
    for verb in ("run", "pause"):
        refused = send(f"/{batch['Id']}/{verb}", status=409)
        assert refused["Message"].startswith("The batch was cancelled")
    run_out(worker)
    assert held(db) == [0, 0, 0]


@pytest.fixture
def tool(world):
    """An account whose key runs batches, and the headers of the key."""
    account = world.add_user(roles=(Role.API, Role.USERS_QUERY), Name="Tool")
    account = with_keys(account, **{KEY_ID: make_key(KEY, RUN_SCOPES)})
    world.db.users.replace_one({"_id": account["_id"]}, account)
    return account, {"Authorization": f"Bearer {KEY}"}


ROLE = "The account that started it no longer has the role '{}'. Somebody else can resume it."
GONE = "The account that started it can no longer run it: {}. Somebody else can resume it."
SCOPE = (
    "The key that it was started with no longer has the scope '{}'. Somebody else can resume it."
)
BUDGET = "The key that it was started with has a budget now. Somebody else can resume it."
PAST = NOW - timedelta(days=1)


@pytest.mark.parametrize(
    ("needs", "change", "why"),
    [
        ([], {"$set": {"Power.Api": False}}, ROLE.format("api")),
        (
            ["users"],
            {"$set": {f"Power.{FLAGS[Role.USERS_QUERY]}": False}},
            ROLE.format("users.query"),
        ),
        ([], {"$unset": {f"Keys.{KEY_ID}": ""}}, GONE.format("the key no longer works")),
        ([], {"$set": {f"Keys.{KEY_ID}.ExpiresAt": PAST}}, GONE.format("the key no longer works")),
        ([], {"$set": {f"Keys.{KEY_ID}.Scopes": ["players.read"]}}, SCOPE.format("batches.run")),
        (
            ["undo"],
            {"$pull": {f"Keys.{KEY_ID}.Scopes": "undo.any"}},
            SCOPE.format("undo.any"),
        ),
        ([], {"$set": {f"Keys.{KEY_ID}.Budget": {"LargestQuantity": 5}}}, BUDGET),
        ([], None, GONE.format("the account is gone")),
    ],
)
def test_a_batch_is_paused_whose_starter_could_not_start_it_any_more(
    db, batch, send, worker, tool, needs, change, why
):
    account, headers = tool
    db.batches.update_one({}, {"$set": {"Needs": needs}})
    send(f"/{batch['Id']}/run", **headers)
    assert send(f"/{batch['Id']}", method="GET")["StartedBy"]["Key"] == "shop"
    if change:
        db.users.update_one({"_id": account["_id"]}, change)
    else:
        db.users.delete_one({"_id": account["_id"]})
    run_out(worker)
    found = send(f"/{batch['Id']}", method="GET")
    assert (found["State"], found["PausedWhy"]) == ("paused", why)
    assert held(db) == [0, 0, 0]
    # Somebody else goes on, in the own name.
    send(f"/{batch['Id']}/run")
    run_out(worker)
    found = send(f"/{batch['Id']}", method="GET")
    assert (found["State"], found["PausedWhy"], found["StartedBy"]["Name"]) == (
        *("done", None),
        "Clerk",
    )
    assert held(db) == [5, 5, 5]


def test_a_batch_is_paused_whose_starter_was_banned(staff, db, batch, send, worker, tool):
    send(f"/{batch['Id']}/run", **tool[1])
    staff(f"POST users/{tool[0]['_id']}/admin/ban", {"duration": 1})
    run_out(worker)
    found = send(f"/{batch['Id']}", method="GET")
    assert found["PausedWhy"] == GONE.format("the account is banned")
    assert held(db) == [0, 0, 0]


def begin_erasure(db, user_id, *player_ids):
    fence = {"_id": user_id, "BegunAt": NOW, "Players": [*player_ids], "Bags": []}
    db.erasures.insert_one(fence)


def test_a_batch_is_paused_whose_starter_is_being_erased(db, batch, send, worker, tool):
    """Nothing is written in that name any more."""
    account, headers = tool
    send(f"/{batch['Id']}/run", **headers)
    begin_erasure(db, account["_id"])
    run_out(worker)
    found = send(f"/{batch['Id']}", method="GET")
    why = "The account that started it is being erased. Somebody else can resume it."
    assert (found["State"], found["PausedWhy"]) == ("paused", why)
    assert held(db) == [0, 0, 0]


def test_nothing_is_planned_or_done_for_who_is_being_erased(world, db, batch, send, worker):
    """The player may have been deleted since it was looked up."""
    first, second, third = db.players.find()
    begin_erasure(db, first["UserId"], first["_id"])
    begin_erasure(db, second["UserId"], second["_id"])
    why = "This belongs to a person who is being erased."
    give = {"Operation": "give", "ItemId": ITEM, "Quantity": 5}
    rows = [{"Player": player["Name"], **give} for player in (first, second, third)]
    planned = send("", {"Rows": rows})
    assert (planned["Ready"], planned["Refused"]) == (1, 2)
    nobody, found = ({"Batch": planned["Id"], "Subject": None}, batch["Id"])
    for row in db.batch_rows.find(nobody):
        assert (row["Player"], row["Arguments"], row["Why"]) == (None, {}, why)
    send(f"/{found}/run")
    run_out(worker)
    progress = send(f"/{found}", method="GET")
    assert (progress["State"], progress["Done"], progress["Refused"]) == ("done", 1, 2)
    refused = db.batch_rows.find({"Batch": found, "Verdict": "refused"})
    assert {row["Why"] for row in refused} == {why}


def test_what_a_command_has_started_goes_on_in_its_name(app, db, batch, send, worker):
    service(app, Batches).start(batch["Id"], {"UserId": None, "Name": "root"})
    run_out(worker)
    assert held(db) == [5, 5, 5]
    assert {entry["By"]["Name"] for entry in db.history.find()} == {"root"}


def test_the_thread_goes_on_after_an_error_and_ends_with_its_worker(app, db, batch, send, worker):
    batches, calls = service(app, Batches), []
    started = batches.find_waiting

    def fail_once():
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return started()

    batches.find_waiting = fail_once
    worker.is_ready = lambda: True
    send(f"/{batch['Id']}/run")
    worker.begin()
    try:
        wait_until(lambda: db.batches.find_one()["State"] == "done")
    finally:
        worker.end()
        atexit.unregister(worker.end)
    assert not worker.thread.is_alive()
    assert held(db) == [5, 5, 5]
