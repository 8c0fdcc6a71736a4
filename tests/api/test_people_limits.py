"""Limits for people: of one request, of a day and of a batch; told before, and exact."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo.client_session import ClientSession
from pymongo.errors import AutoReconnect

from app.batches.running import BatchWorker
from app.storage import transactions
from app.storage.limits import Budgets
from tests.applications import service
from tests.callers import Caller, bearer
from tests.console_visitor import PASSWORD
from tests.factories import make_key, new_secret, numbered_guid, with_keys
from tests.mongod import on_mongodb

ITEM, OTHER = numbered_guid(1), numbered_guid(2)


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric", Inventory={"0": {"ItemId": OTHER, "Quantity": 50}})


def give(caller, quantity, status=200, verb="give", item=ITEM, **headers):
    body = {"itemid": item, "quantity": quantity}
    return caller(f"POST players/Aladric/items/{verb}", body, status, **headers)


def left(caller):
    return caller("GET info/limits").json["LeftToday"]


def held(db):
    players = db.players.find()
    return sum(s["Quantity"] for p in players for s in p["Inventory"].values())


def test_limits_are_told_before_they_are_hit(person, staff, player):
    limits = {"LargestQuantity": 5, "ItemsPerDay": 8, "RowsPerBatch": 2}
    caller = person(**limits)
    assert caller("GET info/limits").json == {**limits, "LeftToday": 8}
    give(caller, 5)
    assert left(caller) == 3
    assert set(staff("GET info/limits").json.values()) == {None}


def test_what_is_over_a_limit_is_refused_with_its_numbers(person, player, db):
    caller = person(LargestQuantity=5, ItemsPerDay=8)
    refused = give(caller, 6, 403).json
    assert (refused["Code"], refused["Wanted"], refused["Left"]) == ("OVER_LIMIT", 6, 5)
    assert refused["Message"] == (
        "This is over your limit: you may move 5 of an item at once, not 6 (LargestQuantity). "
        "You can ask a colleague to approve it."
    )
    give(caller, 5)
    refused = give(caller, 4, 403, "take", OTHER).json
    assert (refused["Wanted"], refused["Left"]) == (4, 3)
    assert "3 of your 8 items are left for today, fewer than 4 (ItemsPerDay)" in refused["Message"]
    give(caller, 3, verb="take", item=OTHER)
    assert held(db) == 52


def test_what_is_refused_or_repeated_costs_nothing_and_an_undo_counts(person, player, staff):
    caller = person(ItemsPerDay=10)
    for _ in range(2):
        give(caller, 5, 409, "take", ITEM)
    for _ in range(2):
        give(caller, 4, Idempotency_Key="order-1")
    assert left(caller) == 6
    for quantity, status in ((7, 403), (6, 200)):
        entry = give(staff, quantity).headers["X-History-Id"]
        caller(f"POST history/{entry}/undo", status=status)
    assert left(caller) == 0


@pytest.mark.parametrize("limits", [{"LargestQuantity": 100}, {"ItemsPerDay": 1000}])
def test_what_moves_unknown_quantities_is_refused_by_either_limit(
    person, world, player, db, limits
):
    """A role that has only one of these permissions has its limits, too."""
    world.add_user(Name="Bob")
    saved = {"Id": player["_id"], "Level": 3}
    for permission, request, body in (
        ("game.act", f"PUT players/{player['_id']}", {"Level": 3}),
        ("game.act", "PUT players", {"Players": [saved]}),
        ("players.delete", "DELETE players/Aladric", None),
        ("privacy.erase", "POST users/Bob/erase", {"Confirm": "Bob"}),
    ):
        caller = person(request, (permission, "players.read", "users.read"), **limits)
        assert caller("GET info/limits").json.items() >= limits.items(), permission
        refused = caller(request, body, 403).json
        assert refused["Code"] == "OVER_LIMIT", request
        assert "is not for a person with a limit" in refused["Message"], request
        assert ("ask a colleague" in refused["Message"]) != request.startswith("PUT"), request
    assert db.players.find_one() == player
    person("Other", RowsPerBatch=3)("DELETE players/Aladric")


def test_a_key_counts_to_its_budget_and_to_the_person(app, client, person, player, db):
    caller, keys, own = person(ItemsPerDay=10), {}, []
    for budget in (4, 100):
        secret, key_id = new_secret(), numbered_guid(budget)
        keys[key_id] = make_key(secret, Name=str(budget), Budget={"ItemsPerDay": budget})
        own.append(Caller(client, bearer(secret), "/api/v1/"))
    db.users.replace_one({"_id": caller.user["_id"]}, with_keys(caller.user, **keys))
    small, large = own
    give(small, 3)
    assert give(small, 3, 403).json["Code"] == "OVER_BUDGET"
    give(large, 5)
    assert give(large, 3, 403).json["Code"] == "OVER_LIMIT"
    # What the person could not move was given back to the key.
    used = service(app, Budgets).used_today([*keys, caller.user["_id"]])
    assert list(used.values()) == [3, 5, 8]
    give(caller, 2)


def test_an_unreadable_limit_allows_nothing(person, player):
    give(person(ItemsPerDay="x"), 1, 403)


@on_mongodb
def test_many_at_once_move_exactly_the_limit(app, person, player, db):
    caller = person(ItemsPerDay=40)

    def one(number):
        own = Caller(app.test_client(), caller.headers, "/api/v1/")
        return give(own, 1 + number % 3, None).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(64)))
    assert set(answers) == {200, 403}
    moved = sum(1 + n % 3 for n, status in enumerate(answers) if status == 200)
    assert (held(db), left(caller)) == (50 + moved, 40 - moved)
    # Not more than one item is left: every refused request wanted two or three, or none was left.
    assert moved in (39, 40)


@pytest.fixture
def batch(staff, world):
    """The id of a batch with a gift of five items for each of three players."""
    gift = {"Operation": "give", "ItemId": ITEM, "Quantity": 5}
    rows = [{"Player": world.add_player()["Name"], **gift} for _ in range(3)]
    return staff("POST batches", {"Name": "Gifts", "Rows": rows}).json["Id"]


@pytest.mark.parametrize("verb", ["run", "advance"])
@pytest.mark.parametrize(
    ("limit", "most"), [("RowsPerBatch", 2), ("LargestQuantity", 4), ("ItemsPerDay", 14)]
)
def test_a_batch_over_a_limit_does_not_start(person, batch, db, verb, limit, most):
    caller = person(**{limit: most})
    refused = caller(f"POST batches/{batch}/{verb}", status=403).json
    assert (refused["Code"], f"({limit})" in refused["Message"]) == ("OVER_LIMIT", True)
    assert caller(f"GET batches/{batch}").json["State"] == "planned"
    assert held(db) == 0


def test_rows_count_once_and_only_if_made(person, batch, db):
    caller = person(LargestQuantity=5, ItemsPerDay=15, RowsPerBatch=3)
    full = {str(n): {"ItemId": OTHER, "Quantity": 10**6} for n in range(35)}
    db.players.update_one({}, {"$set": {"Inventory": full}})
    progress = caller(f"POST batches/{batch}/advance").json
    assert (progress["State"], progress["Done"], progress["Refused"]) == ("done", 2, 1)
    assert left(caller) == 5
    undo = caller(f"POST batches/{batch}/undo").json["Id"]
    refused = caller(f"POST batches/{undo}/run", status=403).json
    assert (refused["Wanted"], refused["Left"]) == (10, 5)


@on_mongodb
def test_rows_whose_commit_was_not_confirmed_count_once(app, person, batch, db, monkeypatch):
    caller, plain = person(ItemsPerDay=100), ClientSession.commit_transaction

    def lose(session):
        plain(session)
        if held(db):
            error = AutoReconnect("connection closed")
            error._add_error_label("UnknownTransactionCommitResult")
            raise error

    caller(f"POST batches/{batch}/run")
    with monkeypatch.context() as patched:
        patched.setattr(transactions, "PATIENCE_SECONDS", 0)
        patched.setattr(ClientSession, "commit_transaction", lose)
        with pytest.raises(AutoReconnect):
            service(app, BatchWorker).work()
    assert caller(f"POST batches/{batch}/advance").json["Done"] == 3
    assert (left(caller), held(db)) == (85, 15)


def test_a_batch_that_meets_the_limit_is_paused(app, person, player, batch, db):
    caller = person(ItemsPerDay=15)
    caller(f"POST batches/{batch}/run")
    give(caller, 1)
    worker = service(app, BatchWorker)
    while worker.work():
        pass
    found = caller(f"GET batches/{batch}").json
    assert (found["State"], found["Done"]) == ("paused", 0)
    assert found["PausedWhy"] == (
        "It is over a limit of the account that started it (ItemsPerDay). "
        "Somebody else can resume it."
    )
    assert (left(caller), held(db)) == (14, 51)


def test_a_batch_whose_starter_lost_a_permission_is_paused(app, person, batch, db):
    caller = person()
    caller(f"POST batches/{batch}/run")
    db.roles.update_one({}, {"$pull": {"Permissions": "items.move"}})
    service(app, BatchWorker).work()
    found = caller(f"GET batches/{batch}").json
    assert "no longer has 'items.move'" in found["PausedWhy"]


def test_pages_tell_what_is_left(browser, person, player):
    person(LargestQuantity=100, ItemsPerDay=1000, RowsPerBatch=50)
    browser.sign_in("Limited", PASSWORD)
    told = "You can move 100 of an item at once; 1,000 of 1,000 items left today."
    assert told in browser.read("/players/Aladric")
    page = browser.read("/batches/new")
    assert told in page
    assert "You can run batches of 50 rows. A colleague can approve more." in page
