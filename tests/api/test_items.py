"""Endpoints 10 to 15: slots, giving, taking (contract-slots, contract-give, contract-take)."""

import pytest
from bson import Decimal128, Int64

from app.players.items.schemas import BagSchema, SlotSchema
from tests.factories import guid, make_bag

NIL = "00000000-0000-0000-0000-000000000000"
SWORD, POTION = guid(), guid()
EMPTY = {"BagId": None, "ItemId": NIL, "Quantity": 0, "StatBuffs": [0, 0, 0, 0, 0]}


@pytest.fixture
def bob(world):
    inventory = {
        "0": {"ItemId": POTION, "Quantity": 5},
        "2": {"ItemId": SWORD, "Quantity": 1, "StatBuffs": [3, 0, 0, 0, 1]},
    }
    return world.add_player(
        Name="Bob", Inventory=inventory, Bank={"7": {"ItemId": POTION, "Quantity": 2}}
    )


@pytest.fixture
def get(caller):
    return caller("/api/v1/players").get


@pytest.fixture
def post(caller):
    return caller("/api/v1/players/Bob/items/").post


def test_all_slots_are_served_in_order_with_the_empty_ones(get, bob):
    inventory = get("/Bob/items/inventory").json
    assert len(inventory) == 35
    assert inventory[0] == {**EMPTY, "Slot": 0, "ItemId": POTION, "Quantity": 5}
    assert inventory[1] == {**EMPTY, "Slot": 1}
    assert inventory[2]["StatBuffs"] == [3, 0, 0, 0, 1]
    assert list(inventory[0]) == ["Slot", "BagId", "ItemId", "Quantity", "StatBuffs"]
    bank = get("/Bob/items/bank").json
    assert [slot["Slot"] for slot in bank] == list(range(100))
    assert get("/Bob/items").json == {"inventory": inventory, "bank": bank}
    assert SlotSchema(many=True).validate(inventory + bank) == {}


def test_a_bag_is_served_with_all_its_slots(get, db):
    bag = guid()
    slots = {"1": {"ItemId": SWORD, "Quantity": 1}}
    db.bags.insert_one(make_bag(slots, _id=bag))
    body = get(f"/bag/{bag.upper()}").json
    assert (body["Id"], body["SlotCount"]) == (bag, 3)
    assert [slot["ItemId"] for slot in body["Slots"]] == [NIL, SWORD, NIL]
    assert BagSchema().validate(body) == {}
    for unknown in (guid(), NIL):
        assert get(f"/bag/{unknown}").status_code == 404
    bad = get("/bag/mine")
    assert (bad.status_code, list(bad.json["Errors"])) == (400, ["bagId"])


def test_both_are_all_or_nothing(post, bob, db):
    before = db.players.find_one()
    for verb, item, quantity, message in (
        ("give", SWORD, 33_000_001, "no room for 1 of 33000001"),
        ("take", POTION, 6, f"The inventory holds 5 of the item {POTION}, not 6."),
    ):
        refused = post(verb, itemid=item, quantity=quantity)
        assert (refused.status_code, message in refused.json["Message"]) == (409, True)
    assert db.players.find_one() == before
    assert post("give", itemid=SWORD, quantity=33_000_000).status_code == 200


def test_the_catalogue_can_say_less_by_any_number_from_1_on(post, get, world, db):
    """A game may be written in a language whose every number is a double."""
    all_in_one = (1e300, float("inf"), float("nan"), 0.5, 0, -20, True, "20", Decimal128("20"), [5])
    stacks = {"by 20": (20, 20.0, 20.5, Int64(20)), "in one": all_in_one}
    expected = {"by 20": [20, 20, 10], "in one": [50]}
    for name, limits in stacks.items():
        for limit in limits:
            db.players.delete_many({})
            world.add_player(Name="Bob")
            arrow = world.add_object(StackLimit=limit)["_id"]
            assert post("give", itemid=arrow, quantity=50).status_code == 200
            inventory = get("/Bob/items/inventory").json
            found = [slot["Quantity"] for slot in inventory if slot["ItemId"] == arrow]
            assert found == expected[name], limit


def test_a_bag_that_still_holds_something_is_not_taken(post, world, db):
    bag, satchel = guid(), guid()
    held = {"0": {"ItemId": satchel, "Quantity": 1, "BagId": bag}}
    world.add_player(Name="Bob", Inventory=held)
    filled = {"0": {"ItemId": SWORD, "Quantity": 1}}
    db.bags.insert_one(make_bag(filled, _id=bag))
    refused = post("take", itemid=satchel, quantity=1)
    assert refused.status_code == 409
    assert "is not empty" in refused.json["Message"]
    db.bags.update_one({"_id": bag}, {"$set": {"Slots": {}}})
    assert post("take", itemid=satchel, quantity=1).status_code == 200
