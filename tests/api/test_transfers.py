"""Items that move from one player to another: both change or none."""

import pytest

from tests.factories import guid, make_bag, numbered_guid

POTION, SWORD, SACK, BAG = (numbered_guid(number) for number in range(1, 5))
GEAR = {"ItemId": SWORD, "Quantity": 1, "StatBuffs": [3, 0, 0, 0, 1]}
HELD = {
    "0": {"ItemId": POTION, "Quantity": 5},
    "2": GEAR,
    "4": {"ItemId": SACK, "Quantity": 1, "BagId": BAG},
    "7": {"ItemId": POTION, "Quantity": 4},
}
FULL = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(35)}
SEVEN = {"to": "Bob", "itemid": POTION, "quantity": 7}


@pytest.fixture
def ann(world):
    return world.add_player(Name="Ann", Inventory=HELD)["_id"]


@pytest.fixture
def bob(world, ann):
    return world.add_player(Name="Bob")["_id"]


@pytest.fixture
def transfer(staff, ann, bob):
    return lambda body, status=200, **headers: staff(
        "POST players/Ann/items/transfer", body, status, **headers
    )


@pytest.fixture
def stored(db, ann, bob):
    return lambda: [db.players.find_one({"_id": id_}) for id_ in (ann, bob)]


@pytest.fixture
def slots(stored):
    return lambda: [(player["Inventory"], player["Bank"]) for player in stored()]


@pytest.fixture
def entries(staff):
    return lambda name: staff(f"GET players/{name}/history").json["Values"]


def test_both_players_change_and_each_entry_names_the_other(transfer, ann, bob, slots, entries):
    answer = transfer(SEVEN)
    assert answer.json == {"ItemId": POTION, "Quantity": 7, "To": bob}
    left = {"2": HELD["2"], "4": HELD["4"], "7": {**HELD["7"], "Quantity": 2}}
    assert slots() == [(left, {}), ({"0": {"ItemId": POTION, "Quantity": 7}}, {})]
    ((sent,), (got,)) = (entries(name) for name in ("Ann", "Bob"))
    asked = {"ItemId": POTION, "Quantity": 7, "BankOverflow": False}
    assert (sent["Operation"], sent["Arguments"]) == ("transfer", {**asked, "To": bob})
    assert (got["Operation"], got["Arguments"]) == ("transfer", {**asked, "From": ann})
    assert answer.headers["X-History-Id"] == sent["Id"]
    assert [change["Path"] for change in sent["Changes"]] == ["Inventory.0", "Inventory.7"]


@pytest.mark.parametrize(
    ("which", "item", "quantity"), [("Ann", POTION, 7), ("Bob", SWORD, 1), ("Ann", SACK, 1)]
)
def test_one_undo_restores_both_exactly_and_can_be_undone(
    staff, transfer, db, slots, entries, which, item, quantity
):
    """A bag goes with what is in it, gear with its properties, and both come back."""
    before = slots()
    db.bags.insert_one(make_bag({"0": GEAR}, _id=BAG))
    transfer({**SEVEN, "itemid": item, "quantity": quantity})
    moved = slots()
    (entry,) = entries(which)
    undo = f"POST history/{entry['Id']}/undo"
    preview = staff(undo, {"DryRun": True}).json
    assert slots() == moved
    undone = staff(undo).json
    assert slots() == before
    assert (undone["Subject"], undone["Changes"]) == (entry["Subject"], preview["Changes"])
    for name in ("Ann", "Bob"):
        newest, first = entries(name)
        assert newest["Undoes"] == first["Id"]
        again = staff(f"POST history/{first['Id']}/undo", status=409)
        assert again.json["Code"] == "ALREADY_UNDONE"
    staff(f"POST history/{undone['Id']}/undo")
    assert slots() == moved


def test_what_cannot_be_is_refused_and_changes_nothing(transfer, db, bob, stored):
    # A stack has room for more of the same, but not for gear.
    inventory = {**FULL, "0": {"ItemId": SWORD, "Quantity": 1}}
    db.players.update_one({"_id": bob}, {"$set": {"Inventory": inventory}})
    before = stored()
    for more, status, code in (
        ({}, 409, "NO_ROOM"),
        ({"itemid": SWORD, "quantity": 1}, 409, "NO_ROOM"),
        ({"itemid": SWORD, "quantity": 2, "bankoverflow": True}, 409, "NOT_ENOUGH_ITEMS"),
        ({"to": "Ann"}, 400, "INVALID"),
        ({"to": "Nobody"}, 404, "NOT_FOUND"),
        ({"to": ""}, 400, "INVALID"),
        ({"quantity": 0}, 400, "INVALID"),
    ):
        assert transfer({**SEVEN, **more}, status).json["Code"] == code, more
    assert stored() == before
    transfer({**SEVEN, "bankoverflow": True})
    assert stored()[1]["Bank"] == {"0": {"ItemId": POTION, "Quantity": 7}}


def test_a_repeated_request_gets_its_answer_even_if_the_other_has_another_name(transfer, staff):
    first = transfer(SEVEN, Idempotency_Key="k")
    staff("POST players/Bob/name", {"Name": "Bert"})
    again = transfer(SEVEN, Idempotency_Key="k")
    assert (again.json, again.headers["Idempotency-Replayed"]) == (first.json, "true")
