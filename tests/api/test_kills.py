"""Whoever dies at any command of a change leaves all documents as they were."""

import pytest

from tests.changes import deaths
from tests.factories import numbered_guid
from tests.mongod import on_mongodb

ITEM = numbered_guid(1)
STORED = ("players", "deleted_players", "bags", "users", "roles", "history")


MOVE = ("POST players/Ann/items/transfer", {"to": "Bob", "itemid": ITEM, "quantity": 3})
GIVE = ("POST players/Ann/items/give", {"itemid": ITEM, "quantity": 3})
DELETE = ("DELETE players/Ann", None)


def stored(db):
    return {name: list(db[name].find(sort=[("_id", 1)])) for name in STORED}


@on_mongodb
@pytest.mark.parametrize("is_undo", [False, True])
@pytest.mark.parametrize(("request_", "body"), [MOVE, GIVE, DELETE])
def test_whoever_dies_at_any_command_has_done_nothing(staff, world, db, request_, body, is_undo):
    world.add_player(Name="Ann", Inventory={"0": {"ItemId": ITEM, "Quantity": 5}})
    world.add_player(Name="Bob")
    if is_undo:
        made = staff(request_, body).headers["X-History-Id"]
        request_, body = f"POST history/{made}/undo", None

    def act():
        return staff(request_, body, Idempotency_Key="k")

    before = stored(db)
    for number in deaths(act):
        assert stored(db) == before, f"died at command {number}"
    assert number > 0
    after = stored(db)
    assert after != before
    # Nothing is left that the next request would meet, and repeating it changes nothing.
    assert act().headers["Idempotency-Replayed"] == "true"
    assert stored(db) == after
