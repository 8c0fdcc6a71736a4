"""Whoever writes beside us, careful or careless."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from app.players.domain import with_changeable_maps
from app.players.items.domain import Limits, NotEnoughItems, give, take
from app.storage.client import Storage
from tests.applications import service
from tests.changes import change, meant
from tests.factories import guid, make_player, numbered_guid
from tests.mongod import on_mongodb

ITEM, OTHER, SPELL, VARIABLE, NEW_VARIABLE = map(numbered_guid, range(5))
LIMITS = Limits(35, 100, 1000)
READS = ("Inventory", "Bank")
FIVE = {"ItemId": ITEM, "Quantity": 5}
GIVE = partial(give, itemid=ITEM, quantity=2, limits=LIMITS)
TAKE = partial(take, itemid=ITEM, quantity=5, is_filled=lambda _: False)


@pytest.fixture
def player(world):
    return world.add_player(Inventory={"0": FIVE, "1": {"ItemId": OTHER, "Quantity": 9}})


@pytest.fixture
def apply(app, player):
    """Apply a rule to the player."""
    return partial(change, service(app, Storage), {"_id": player["_id"]}, READS)


@pytest.fixture
def beside(db, player, apply):
    """Apply a rule while somebody writes between its first read and its write."""

    def beside(write, rule):
        writes = iter([write])

        def overtaken(document):
            for update in writes:
                with ThreadPoolExecutor(1) as game:
                    update_one = partial(db.players.update_one, bypass_document_validation=True)
                    game.submit(update_one, {"_id": player["_id"]}, update).result()
            return rule(with_changeable_maps(document))

        applied = apply(overtaken, meant("change"))
        return applied.answer, db.players.find_one({"_id": player["_id"]})

    return beside


@on_mongodb
@pytest.mark.parametrize(
    ("write", "left"),
    [
        ({"$set": {"Inventory.0.Quantity": 3}}, {"0": 5}),
        ({"$inc": {"Inventory.0.Quantity": -4}}, {"0": 3}),
        ({"$unset": {"Inventory.0": ""}}, {"0": 2}),
        ({"$set": {"Inventory": None}}, {"0": 2}),
        ({"$unset": {"Inventory.0": ""}, "$set": {"Inventory.7": FIVE}}, {"7": 7}),
        ({"$set": {"Inventory.0.BagId": guid()}}, {"0": 5, "2": 2}),
        ({"$unset": {"Inventory.0.Quantity": ""}}, {"2": 2}),
    ],
)
def test_a_game_that_counts_no_version_makes_nothing_out_of_nothing(beside, write, left):
    answer, after = beside(write, GIVE)
    held = {
        slot: held["Quantity"]
        for slot, held in after["Inventory"].items()
        if held["ItemId"] == ITEM and "Quantity" in held
    }
    assert held == left
    assert answer["quantity"]["total"] == sum(left.values())


@on_mongodb
def test_a_game_that_takes_first_or_fills_a_slot_is_respected(db, player, beside):
    with pytest.raises(NotEnoughItems, match="holds 4"):
        beside({"$inc": {"Inventory.0.Quantity": -1}}, TAKE)
    assert db.players.find_one({"_id": player["_id"]})["Inventory"]["0"]["Quantity"] == 4
    rule = partial(give, itemid=guid(), quantity=2, limits=LIMITS)
    _, after = beside({"$set": {"Inventory.2": FIVE}}, rule)
    assert after["Inventory"]["2"] == FIVE
    assert after["Inventory"]["3"]["Quantity"] == 2


def test_a_map_that_is_none_any_more_is_left_to_its_writer(db, player, staff):
    for damage in ("text", [FIVE]):
        spoil(db, player, Inventory=damage)
        gift = {"itemid": ITEM, "quantity": 1}
        refused = staff(f"POST players/{player['_id']}/items/give", gift, 409).json
        assert "db check" in refused["Message"]
        assert db.players.find_one({"_id": player["_id"]})["Inventory"] == damage


def spoil(db, player, **fields):
    """Store what the validator would refuse."""
    where = {"_id": player["_id"]}
    db.players.update_one(where, {"$set": fields}, bypass_document_validation=True)


ODD_SLOTS = {
    "0": {"ItemId": ITEM, "Quantity": 5.0},
    "1": {"ItemId": ITEM},
    "2": {"Quantity": 5},
    "3": None,
    "4": "text",
    "5": {"ItemId": ITEM, "Quantity": "5"},
    "6": {"ItemId": ITEM, "Quantity": 2.5},
    "7": {"ItemId": 7, "Quantity": 1},
    "8": {"ItemId": ITEM, "Quantity": 1, "BagId": 8},
    "9": {"ItemId": ITEM, "Quantity": 4, "StatBuffs": 9},
    "first": {"ItemId": ITEM, "Quantity": 1},
    "007": {"ItemId": ITEM, "Quantity": 1},
    "10": {"ItemId": ITEM, "Quantity": float("nan")},
    "11": {"ItemId": ITEM, "Quantity": -3},
    "12": {"ItemId": ITEM, "Quantity": True},
    "13": {"ItemId": ITEM, "Quantity": 2**63 - 1},
}
ODD = {
    "Inventory": ODD_SLOTS,
    "Bank": None,
    "Spells": {"0": SPELL, "1": 5, "x": SPELL, "2": None},
    "Variables": {VARIABLE: "text", guid(): 5.0},
    "Version": "7",
    "ChangedAt": {"odd": True},
    "UserId": ["odd"],
}
CHANGES = [
    ("items/give", {"itemid": ITEM, "quantity": 2, "bankoverflow": True}, 200),
    ("items/take", {"itemid": ITEM, "quantity": 5}, 200),
    ("items/take", {"itemid": ITEM, "quantity": 100}, 409),
    ("spells/teach", {"spellid": guid()}, 200),
    ("spells/forget", {"spellid": SPELL}, 200),
    (f"variables/{VARIABLE}", {"value": 1}, 200),
    (f"variables/{NEW_VARIABLE}", {"value": True}, 200),
]


@pytest.fixture
def odd_player(world, db):
    player = world.add_player()
    spoil(db, player, **ODD)
    return player


def test_whatever_a_game_stores_no_change_is_a_500(odd_player, db, staff):
    for has_key, (path, body, status) in product((False, True), CHANGES):
        db.players.replace_one({"_id": odd_player["_id"]}, odd_player)
        spoil(db, odd_player, **ODD)
        key = {"Idempotency_Key": f"{path} {status}"} if has_key else {}
        staff(f"POST players/{odd_player['_id']}/{path}", body, status, **key)


def test_no_count_and_no_map_that_is_none_is_a_500(world, db, staff):
    for version in (2**63 - 1, -5, 1e300, float("inf"), "7"):
        player = world.add_player()
        spoil(db, player, Version=version)
        path = f"POST players/{player['_id']}/items/give"
        for key in ("a", "a", "b"):
            given = staff(path, {"itemid": ITEM, "quantity": 1}, Idempotency_Key=key)
        assert given.json["quantity"]["total"] == 2
    names = ("Inventory", "Bank", "Spells", "Variables")
    for name, value in product(names, (None, "text", [])):
        player = world.add_player()
        spoil(db, player, **{name: value})
        change_all(staff, f"players/{player['_id']}")


def change_all(staff, base):
    for path, body, _ in CHANGES:
        answer = staff(f"POST {base}/{path}", body, None)
        assert answer.status_code in (200, 409), (path, answer.json)


def raw(document):
    """Return a document in which ZZZ is no text in UTF-8."""
    return RawBSONDocument(bson.encode(document).replace(b"ZZZ", b"\xff\xfeZ"))


# mongomock takes no raw documents.
@on_mongodb
def test_no_text_that_is_none_is_a_500(db, staff):
    for field in ("ClassName", "Guild", "Name", "NameKey", "ZZZ", "Inventory"):
        player = {**make_player(), field: {"ZZZ": FIVE} if field == "Inventory" else "ZZZ"}
        db.players.insert_one(raw(player), bypass_document_validation=True)
        base = f"players/{player['_id']}"
        for path in (base, f"{base}/items", "players", "players/rank"):
            staff(f"GET {path}")
        change_all(staff, base)
        staff(f"DELETE {base}")
        assert db.players.find_one({"_id": player["_id"]}, ["_id"]) is None


def test_slots_that_are_not_to_be_understood_are_left_alone(odd_player, db, staff):
    path = f"POST players/{odd_player['_id']}/items"
    given = staff(f"{path}/give", {"itemid": ITEM, "quantity": 4}).json
    assert given["quantity"]["inventory"] == 13
    staff(f"{path}/take", {"itemid": ITEM, "quantity": 13})
    left = db.players.find_one({"_id": odd_player["_id"]})["Inventory"]
    untouched = {slot: held for slot, held in ODD_SLOTS.items() if slot not in ("0", "9")}
    assert repr(left) == repr(untouched)
