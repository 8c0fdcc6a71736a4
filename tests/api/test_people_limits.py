"""Limits for people: of one request, of a day and of a batch; told before, and exact."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo.client_session import ClientSession
from pymongo.errors import AutoReconnect

from app.batches.running import BatchWorker
from app.core.permissions import NAMES, Permission
from app.storage import transactions
from app.storage.limits import Budgets
from tests.applications import service
from tests.callers import Caller
from tests.console_visitor import PASSWORD, Visitor, page_of
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
    caller = person(LargestQuantity=5, ItemsPerDay=8, RowsPerBatch=2)
    limits = {"LargestQuantity": 5, "ItemsPerDay": 8, "RowsPerBatch": 2}
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


def test_what_is_refused_or_repeated_costs_nothing(person, player):
    caller = person(ItemsPerDay=10)
    for _ in range(2):
        give(caller, 5, 409, "take", ITEM)
    for _ in range(2):
        give(caller, 10, Idempotency_Key="order-1")
    give(caller, 1, 403)
    assert left(caller) == 0


def test_an_undo_counts_too(person, player, staff):
    caller = person(ItemsPerDay=6)
    entry = give(staff, 7).headers["X-History-Id"]
    caller(f"POST history/{entry}/undo", status=403)
    entry = give(staff, 6).headers["X-History-Id"]
    caller(f"POST history/{entry}/undo")
    assert left(caller) == 0


def test_unknown_quantities_are_refused(person, world, player, db):
    caller = person(LargestQuantity=5)
    world.add_user(Name="Bob")
    for request, body in (
        ("DELETE players/Aladric", None),
        ("POST users/Bob/erase", {"Confirm": "Bob"}),
        (f"PUT players/{player['_id']}", {"Level": 3}),
    ):
        refused = caller(request, body, 403).json
        assert refused["Code"] == "OVER_LIMIT", request
        assert "is not for a person with a limit" in refused["Message"], request
        is_saved = request.startswith("PUT")
        assert ("ask a colleague" in refused["Message"]) != is_saved, request
    assert db.players.find_one() == player
    person("Other", RowsPerBatch=3)("DELETE players/Aladric")


def test_the_limits_bind_every_permission_that_moves_items(person, world, player, db):
    """A role that has only one of them has its limits, too."""
    world.add_user(Name="Bob")
    for permission, request, body in (
        ("game.act", f"PUT players/{player['_id']}", {"Level": 3}),
        ("game.act", "PUT players", {"Players": [{"Id": player["_id"], "Level": 3}]}),
        ("players.delete", "DELETE players/Aladric", None),
        ("privacy.erase", "POST users/Bob/erase", {"Confirm": "Bob"}),
    ):
        for number, limits in enumerate(({"LargestQuantity": 100}, {"ItemsPerDay": 1000})):
            needed = (NAMES[permission], Permission.PLAYERS_READ, Permission.USERS_READ)
            caller = person(f"{request} {number}", needed, **limits)
            told = caller("GET info/limits").json
            assert {name: told[name] for name in limits} == limits, permission
            assert caller(request, body, 403).json["Code"] == "OVER_LIMIT", request
    assert db.players.find_one() == player


def test_a_key_counts_to_its_budget_and_to_the_person(client, person, player, world):
    caller = person(ItemsPerDay=10)
    secrets = [new_secret() for _ in range(2)]
    budgets = ({"ItemsPerDay": 4}, {"ItemsPerDay": 100})
    keys = {
        numbered_guid(n): make_key(secret, Name=str(n), Budget=budget)
        for n, (secret, budget) in enumerate(zip(secrets, budgets, strict=True), 5)
    }
    world.db.users.replace_one({"_id": caller.user["_id"]}, with_keys(caller.user, **keys))
    small, large = (
        Caller(client, {"Authorization": f"Bearer {secret}"}, "/api/v1/") for secret in secrets
    )
    give(small, 3)
    assert give(small, 3, 403).json["Code"] == "OVER_BUDGET"
    give(large, 5)
    assert give(large, 3, 403).json["Code"] == "OVER_LIMIT"
    # What the person could not move was given back to the key.
    used = service(client.application, Budgets).used_today([*keys, caller.user["_id"]])
    assert list(used.values()) == [3, 5, 8]
    give(caller, 2)


def test_an_unreadable_limit_allows_nothing(person, player, db):
    caller = person(ItemsPerDay="x")
    give(caller, 1, 403)


@on_mongodb
def test_many_at_once_move_exactly_the_limit(app, world, person, player, db):
    caller = person(ItemsPerDay=40)

    def one(number):
        own = Caller(app.test_client(), caller.headers, "/api/v1/")
        return give(own, 1 + number % 3, None).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(64)))
    assert set(answers) == {200, 403}
    moved = sum(1 + n % 3 for n, status in enumerate(answers) if status == 200)
    assert held(db) == 50 + moved
    assert left(caller) == 40 - moved
    # Not more than one item is left: every refused request wanted two or three, or none was left.
    assert moved in (39, 40)


class TestBatches:
    @pytest.fixture
    def plan(self, staff, world):
        """Return a maker of batches with a gift for each of so many players."""

        def plan(rows, quantity=5):
            give = {"Operation": "give", "ItemId": ITEM, "Quantity": quantity}
            named = [{"Player": world.add_player()["Name"], **give} for _ in range(rows)]
            return staff("POST batches", {"Name": "Gifts", "Rows": named}).json["Id"]

        return plan

    @pytest.mark.parametrize("verb", ["run", "advance"])
    def test_a_batch_over_a_limit_does_not_start(self, person, plan, db, verb):
        for number, (limits, field) in enumerate(
            (
                ({"RowsPerBatch": 2}, "RowsPerBatch"),
                ({"LargestQuantity": 4}, "LargestQuantity"),
                ({"ItemsPerDay": 14}, "ItemsPerDay"),
            )
        ):
            caller, batch = person(f"P{number}", **limits), plan(3)
            refused = caller(f"POST batches/{batch}/{verb}", status=403).json
            assert (refused["Code"], f"({field})" in refused["Message"]) == ("OVER_LIMIT", True)
            assert caller(f"GET batches/{batch}").json["State"] == "planned"
        assert held(db) == 0

    def test_rows_count_once_and_only_if_made(self, app, person, plan, db, monkeypatch):
        caller, batch = person(LargestQuantity=5, ItemsPerDay=15, RowsPerBatch=3), plan(3)
        full = {str(n): {"ItemId": OTHER, "Quantity": 10**6} for n in range(35)}
        one = db.players.find_one({"Name": {"$ne": "Aladric"}})
        db.players.update_one({"_id": one["_id"]}, {"$set": {"Inventory": full}})
        progress = caller(f"POST batches/{batch}/advance").json
        assert (progress["State"], progress["Done"], progress["Refused"]) == ("done", 2, 1)
        assert left(caller) == 5
        undo = caller(f"POST batches/{batch}/undo").json["Id"]
        refused = caller(f"POST batches/{undo}/run", status=403).json
        assert (refused["Wanted"], refused["Left"]) == (10, 5)

    @on_mongodb
    def test_rows_whose_commit_was_not_confirmed_count_once(
        self, app, person, plan, db, monkeypatch
    ):
        caller, batch = person(ItemsPerDay=100), plan(3)
        plain = ClientSession.commit_transaction

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

    def test_a_batch_that_meets_the_limit_is_paused(self, app, person, player, plan, db):
        caller, batch = person(ItemsPerDay=15), plan(3)
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

    def test_a_batch_whose_starter_lost_a_permission_is_paused(self, app, person, plan, db):
        caller, batch = person(), plan(1)
        caller(f"POST batches/{batch}/run")
        db.roles.update_one({}, {"$pull": {"Permissions": "items.move"}})
        service(app, BatchWorker).work()
        found = caller(f"GET batches/{batch}").json
        assert "no longer has 'items.move'" in found["PausedWhy"]


def test_pages_tell_what_is_left(app, person, player):
    person(LargestQuantity=100, ItemsPerDay=1000, RowsPerBatch=50)
    visitor = Visitor(app)
    visitor.sign_in("Limited", PASSWORD)
    told = "You can move 100 of an item at once; 1,000 of 1,000 items left today."
    assert told in page_of(visitor.get("/players/Aladric"))
    page = page_of(visitor.get("/batches/new"))
    assert told in page
    assert "You can run batches of 50 rows. A colleague can approve more." in page
    refused = visitor.submit("/players/Aladric/give", 403, itemid=ITEM, quantity="200")
    assert "not 200." in page_of(refused)
    refused = visitor.submit("/players/Aladric/delete", 403, confirm="Aladric")
    assert "deleting a player is not for a person with a limit" in page_of(refused)
