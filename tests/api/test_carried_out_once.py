"""Rows of batches and undos are carried out once, whoever is erased meanwhile."""

import pytest

from app.core.permissions import Permission
from tests.factories import numbered_guid
from tests.mongod import on_mongodb

ITEM = numbered_guid(0)
pytestmark = on_mongodb


def item_counts(db):
    return sorted(
        sum(slot["Quantity"] for slot in player["Inventory"].values())
        for player in db.players.find()
    )


def test_an_erasure_of_who_ran_a_batch_lets_no_row_run_again(staff, person, world, db):
    names = [world.add_player(Inventory={})["Name"] for _ in range(3)]
    rows = [{"Player": name, "Operation": "give", "ItemId": ITEM, "Quantity": 7} for name in names]
    batch = staff("POST batches", {"Rows": rows}).json["Id"]
    staff(f"POST batches/{batch}/cancel")
    again = staff(f"POST batches/{batch}/retry").json["Id"]
    colleague = person(
        "Leaver", [Permission.BATCHES_RUN, Permission.PLAYERS_READ, Permission.ITEMS_MOVE]
    )
    assert colleague(f"POST batches/{again}/advance").json["Done"] == 3
    staff("POST users/Leaver/erase", {"Confirm": "Leaver"})
    third = staff(f"POST batches/{batch}/retry").json
    assert third["Ready"] == 0 or staff(f"POST batches/{third['Id']}/advance").json["Done"] == 0
    assert item_counts(db) == [7, 7, 7]


def test_a_plan_undoes_a_transfer_once(staff, world):
    for name in ("Ann", "Bob"):
        world.add_player(Name=name, Inventory={"0": {"ItemId": ITEM, "Quantity": 9}})
    transfer = {"itemid": ITEM, "quantity": 2, "to": "Bob"}
    staff("POST players/Ann/items/transfer", transfer)
    plan = staff("POST batches", {"Undo": {"Operation": "transfer"}}).json
    assert (plan["Ready"], plan["Refused"]) == (1, 1)
    assert staff(f"POST batches/{plan['Id']}/advance").json["Done"] == 1


@pytest.mark.parametrize("name", [500, None])
def test_a_name_that_was_no_text_is_not_restored(staff, db, world, name):
    player = world.add_player(Name="Ann")
    odd = {"$set": {"Name": name}}
    db.players.update_one({"_id": player["_id"]}, odd, bypass_document_validation=True)
    path = f"players/{player['_id']}/name"
    entry = staff(f"POST {path}", {"Name": "Anna"}).headers["X-History-Id"]
    for body in ({"DryRun": True}, {}):
        assert staff(f"POST history/{entry}/undo", body, 409).json["Code"] == "DAMAGED"
    assert staff("GET players/Anna").json["Name"] == "Anna"
