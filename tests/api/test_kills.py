"""Whoever dies at any command of a change leaves all documents as they were."""

import pytest

from tests.changes import deaths
from tests.factories import numbered_guid
from tests.mongod import on_mongodb

ITEM = numbered_guid(1)
STORED = ("players", "deleted_players", "bags", "users", "roles", "history")


def transfer(staff):
    body = {"to": "Bob", "itemid": ITEM, "quantity": 3}
    return lambda: staff("POST players/Ann/items/transfer", body, Idempotency_Key="k")


def undo_transfer(staff):
    made = transfer(staff)().headers["X-History-Id"]
    return lambda: staff(f"POST history/{made}/undo", Idempotency_Key="u")


def delete(staff):
    return lambda: staff("DELETE players/Ann", Idempotency_Key="k")


def undo_deletion(staff):
    made = delete(staff)().headers["X-History-Id"]
    return lambda: staff(f"POST history/{made}/undo", Idempotency_Key="u")


def give(staff):
    body = {"itemid": ITEM, "quantity": 3}
    return lambda: staff("POST players/Ann/items/give", body, Idempotency_Key="k")


@on_mongodb
@pytest.mark.parametrize("begin", [transfer, undo_transfer, delete, undo_deletion, give])
def test_whoever_dies_at_any_command_has_done_nothing(staff, world, db, begin):
    world.add_player(Name="Ann", Inventory={"0": {"ItemId": ITEM, "Quantity": 5}})
    world.add_player(Name="Bob")
    act = begin(staff)
    before = stored(db)
    for number in deaths(act):
        assert stored(db) == before, f"died at command {number}"
    assert number > 0
    after = stored(db)
    assert after != before
    # Nothing is left that the next request would meet, and repeating it changes nothing.
    assert act().headers["Idempotency-Replayed"] == "true"
    assert stored(db) == after


def stored(db):
    return {name: list(db[name].find(sort=[("_id", 1)])) for name in STORED}
