"""Whoever dies at any command of a change leaves all documents as they were."""

import contextlib

import pytest
from pymongo.collection import Collection
from pymongo.database import Database

from tests.factories import numbered_guid
from tests.mongod import on_mongodb

ITEM = numbered_guid(1)
COMMANDS = (
    *("find", "insert_one", "insert_many", "update_one", "replace_one", "delete_one"),
    "bulk_write",
    "find_one_and_update",
)
STORED = ("players", "deleted_players", "bags", "users", "roles", "history")


class Killed(BaseException):
    """The process dies here."""


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
    for number in range(100):
        with pytest.MonkeyPatch.context() as patch:
            has_died = die_at(patch, number)
            with contextlib.suppress(Killed):
                act()
        if not has_died:
            break
        assert stored(db) == before, f"died at command {number}"
    assert number > 1
    after = stored(db)
    assert after != before
    # Nothing is left that the next request would meet, and repeating it changes nothing.
    assert act().headers["Idempotency-Replayed"] == "true"
    assert stored(db) == after


def stored(db):
    return {name: list(db[name].find(sort=[("_id", 1)])) for name in STORED}


def die_at(patch, number):
    """Raise Killed at a command of a transaction; the list that is returned is then not empty."""
    done, has_died = [], []

    def dying(plain):
        def command(collection, *args, **options):
            if options.get("session") is None:
                return plain(collection, *args, **options)
            done.append(collection.name)
            if len(done) == number + 1:
                has_died.append(number)
                raise Killed
            return plain(collection, *args, **options)

        return command

    for name in COMMANDS:
        patch.setattr(Collection, name, dying(getattr(Collection, name)))
    patch.setattr(Database, "command", dying(Database.command))
    return has_died
