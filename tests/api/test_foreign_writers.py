"""Whoever writes beside us, careful, careless or on the other side of a split network."""

from functools import partial

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from app.changes import JOURNAL_LENGTH, Change
from app.errors import Damaged
from app.items.domain import Limits, NotEnoughItems, give, take
from app.players.domain import with_changeable_maps
from tests.factories import guid, make_bag, make_player, numbered_guid
from tests.swaps import meant, swap, swapper_of

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
def beside(db, player):
    """Apply a rule while somebody writes between its first read and its write."""

    def beside(write, rule, intent=None):
        writes = iter([write])

        def overtaken(document):
            for update in writes:
                db.players.update_one(
                    {"_id": player["_id"]}, update, bypass_document_validation=True
                )
            return rule(with_changeable_maps(document))

        change = partial(swap, db, {"_id": player["_id"]}, READS, overtaken)
        applied = change(intent or meant("change"))
        return applied.answer, db.players.find_one({"_id": player["_id"]})

    return beside


@pytest.mark.parametrize(
    ("write", "left"),
    [
        ({"$set": {"Inventory.0.Quantity": 3}}, {"0": 5}),
        ({"$set": {"Inventory.0.Quantity": 3.0}}, {"0": 5}),
        ({"$inc": {"Inventory.0.Quantity": -4}}, {"0": 3}),
        ({"$unset": {"Inventory.0": ""}}, {"0": 2}),
        ({"$set": {"Inventory": {}}}, {"0": 2}),
        ({"$set": {"Inventory": None}}, {"0": 2}),
        ({"$unset": {"Inventory": ""}}, {"0": 2}),
        ({"$unset": {"Inventory.0": ""}, "$set": {"Inventory.7": FIVE}}, {"7": 7}),
        ({"$set": {"Inventory.0": {"ItemId": OTHER, "Quantity": 1}}}, {"2": 2}),
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


def test_a_game_that_takes_first_leaves_nothing_to_take(db, player, beside):
    with pytest.raises(NotEnoughItems, match="holds 4"):
        beside({"$inc": {"Inventory.0.Quantity": -1}}, TAKE)
    assert db.players.find_one({"_id": player["_id"]})["Inventory"]["0"]["Quantity"] == 4


def test_a_slot_that_a_game_fills_is_not_given_to(db, player, beside):
    rule = partial(give, itemid=guid(), quantity=2, limits=LIMITS)
    _, after = beside({"$set": {"Inventory.2": FIVE}}, rule)
    assert after["Inventory"]["2"] == FIVE
    assert after["Inventory"]["3"]["Quantity"] == 2


@pytest.mark.parametrize("damage", ["text", [FIVE], 5])
def test_a_map_that_is_none_any_more_is_left_to_its_writer(db, player, client, as_role, damage):
    db.players.update_one(
        {"_id": player["_id"]}, {"$set": {"Inventory": damage}}, bypass_document_validation=True
    )
    answer = client.post(
        f"/api/v1/players/{player['_id']}/items/give",
        json={"itemid": ITEM, "quantity": 1},
        headers=as_role(),
    )
    assert answer.status_code == 409
    assert "db check" in answer.json["Message"]
    assert db.players.find_one({"_id": player["_id"]})["Inventory"] == damage


def test_the_version_of_another_primary_is_not_taken_for_ours(beside):
    """Two primaries count to the same number; the stamp tells their writes apart."""
    theirs = {"$set": {"Version": 1, "Stamp": "theirs", "Inventory.9": FIVE}}
    answer, after = beside(theirs, GIVE)
    assert after["Version"] == 2
    assert answer["quantity"]["total"] == 12


def test_a_stamp_alone_makes_a_difference(db, player, beside):
    """The same version, the same values, and yet another write."""
    beside({"$set": {"Unrelated": True}}, GIVE)
    decided = []

    def rule(document):
        decided.append(document["Stamp"])
        return GIVE(document)

    beside({"$set": {"Stamp": "theirs"}}, rule)
    assert len(decided) == 2
    assert decided[1] == "theirs"


def test_a_refusal_is_decided_anew_when_what_it_rests_on_is_gone(db, player, beside):
    """A primary that is cut off showed a take that was rolled back."""
    db.players.update_one({"_id": player["_id"]}, {"$unset": {"Inventory.0": ""}})
    rolled_back = {"$set": {"Inventory.0": FIVE, "Stamp": "theirs"}}
    answer, after = beside(rolled_back, TAKE)
    assert answer == {"ItemId": ITEM, "Quantity": 5}
    assert "0" not in after["Inventory"]


def test_a_refusal_changes_nothing(db, player):
    rule = partial(take, itemid=ITEM, quantity=6, is_filled=lambda _: False)
    with pytest.raises(NotEnoughItems):
        swap(db, {"_id": player["_id"]}, READS, rule, meant("take", "k", "f"))
    assert db.players.find_one({"_id": player["_id"]}) == player


def test_no_field_of_a_game_is_touched_by_what_changes_nothing(db, player):
    db.players.update_one({"_id": player["_id"]}, {"$set": {"Nothing": 1, "Guild": "Red"}})
    change = partial(swap, db, {"_id": player["_id"]}, READS)
    change(GIVE, meant("give", "k", "f"))
    before = db.players.find_one({"_id": player["_id"]})
    assert change(GIVE, meant("give", "k", "f")).replayed
    with pytest.raises(NotEnoughItems):
        change(partial(TAKE, quantity=100), meant("take"))
    assert db.players.find_one({"_id": player["_id"]}) == before


def test_a_repetition_leaves_the_version_as_it_is(db, player):
    """It once carried the higher version of an old primary over to the new one."""
    intent = meant("give", "k", "f")
    change = partial(swap, db, {"_id": player["_id"]}, READS, GIVE, intent)
    change()
    before = db.players.find_one({"_id": player["_id"]})

    class OldPrimary:
        """Shows a higher version than the server has that the update is carried to."""

        name = "players"
        update_one = staticmethod(db.players.update_one)

        @staticmethod
        def find_one(*args):
            return {**db.players.find_one(*args), "Version": 27}

    old_primary = swapper_of(db, collection=OldPrimary())
    assert old_primary.swap({"_id": player["_id"]}, READS, GIVE, intent).replayed
    assert change().replayed
    assert db.players.find_one({"_id": player["_id"]}) == before


def test_a_careful_game_makes_nobody_forget_a_key(db, player):
    change = partial(swap, db, {"_id": player["_id"]}, READS)
    change(GIVE, meant("give", "first", "f"))
    for _ in range(JOURNAL_LENGTH - 1):
        db.players.update_one({"_id": player["_id"]}, {"$inc": {"Version": 1, "Exp": 1}})
    for number in range(JOURNAL_LENGTH - 1):
        change(GIVE, meant("give", f"key {number}", "f"))
        change(GIVE, meant("give"))
    assert change(GIVE, meant("give", "first", "f")).replayed


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
    "Journal": {"a": 1},
    "Stamp": {"odd": True},
    "JournalCount": "many",
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
    db.players.update_one({"_id": player["_id"]}, {"$set": ODD}, bypass_document_validation=True)
    return f"/api/v1/players/{player['_id']}"


@pytest.mark.parametrize(("path", "body", "status"), CHANGES)
@pytest.mark.parametrize("key", [None, "a key"])
def test_whatever_a_game_stores_no_change_is_a_500(
    odd_player, client, as_role, path, body, status, key
):
    headers = {**as_role(), **({"Idempotency-Key": key} if key else {})}
    answer = client.post(f"{odd_player}/{path}", json=body, headers=headers)
    assert answer.status_code == status, answer.json


@pytest.mark.parametrize("field", ["Version", "JournalCount"])
@pytest.mark.parametrize("value", [2**63 - 1, -5, 1e300, float("inf"), "7"])
def test_no_count_that_a_game_stores_is_a_500(world, db, client, as_role, field, value):
    player = world.add_player()
    odd = {"$set": {field: value}}
    db.players.update_one({"_id": player["_id"]}, odd, bypass_document_validation=True)
    path = f"/api/v1/players/{player['_id']}/items/give"
    for key in ("a", "a", "b"):
        headers = {**as_role(), "Idempotency-Key": key}
        answer = client.post(path, json={"itemid": ITEM, "quantity": 1}, headers=headers)
        assert answer.status_code == 200, answer.json
    assert answer.json["quantity"]["total"] == 2


@pytest.mark.parametrize("path", ["", "/items", "/items/inventory", "/items/bank", "/spells"])
def test_whatever_a_game_stores_no_read_is_a_500(odd_player, client, as_role, path):
    assert client.get(odd_player + path, headers=as_role()).status_code == 200


@pytest.mark.parametrize("name", ["Inventory", "Bank", "Spells", "Variables"])
@pytest.mark.parametrize("value", [None, "text", [], 5])
def test_no_map_that_is_none_is_a_500(world, db, client, as_role, name, value):
    player = world.add_player()
    odd = {"$set": {name: value}}
    db.players.update_one({"_id": player["_id"]}, odd, bypass_document_validation=True)
    base, headers = f"/api/v1/players/{player['_id']}", as_role()
    for path in ("", "/items", "/spells", "/variables"):
        assert client.get(base + path, headers=headers).status_code == 200
    for path, body, _ in CHANGES:
        answer = client.post(f"{base}/{path}", json=body, headers=headers)
        assert answer.status_code in (200, 409), (path, answer.json)


def raw(document):
    """Return a document in which ZZZ is no text in UTF-8."""
    return RawBSONDocument(bson.encode(document).replace(b"ZZZ", b"\xff\xfeZ"))


# mongomock takes no raw documents.
@pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
@pytest.mark.parametrize("field", ["ClassName", "Guild", "Name", "NameKey", "ZZZ", "Inventory"])
def test_no_text_that_is_none_is_a_500(db, client, as_role, field):
    player = make_player(**({"Inventory": {"ZZZ": FIVE}} if field == "Inventory" else {}))
    player |= {} if field == "Inventory" else {field: "ZZZ"}
    db.players.insert_one(raw(player), bypass_document_validation=True)
    base, headers = f"/api/v1/players/{player['_id']}", as_role()
    for path in (base, f"{base}/items", "/api/v1/players", "/api/v1/players/rank"):
        assert client.get(path, headers=headers).status_code == 200, path
    for path, body, _ in CHANGES:
        answer = client.post(f"{base}/{path}", json=body, headers=headers)
        assert answer.status_code in (200, 409), (path, answer.json)
    assert client.delete(base, headers=headers).status_code == 200
    assert db.players.find_one({"_id": player["_id"]}, ["_id"]) is None


@pytest.mark.parametrize(
    "odd", [{"Slots": None}, {"Slots": []}, {"SlotCount": None}, {"SlotCount": 3.0}]
)
def test_no_bag_is_a_500(db, client, as_role, odd):
    bag = {**make_bag({"0": FIVE}), **odd}
    db.bags.insert_one(bag, bypass_document_validation=True)
    answer = client.get(f"/api/v1/players/bag/{bag['_id']}", headers=as_role())
    assert answer.status_code == 200
    assert type(answer.json["SlotCount"]) is int


def test_slots_that_are_not_to_be_understood_are_left_alone(odd_player, db, client, as_role):
    headers = as_role()
    body = {"itemid": ITEM, "quantity": 4}
    answer = client.post(f"{odd_player}/items/give", json=body, headers=headers)
    assert answer.json["quantity"]["inventory"] == 13
    client.post(f"{odd_player}/items/take", json={**body, "quantity": 13}, headers=headers)
    left = db.players.find_one({"_id": odd_player.rpartition("/")[2]})["Inventory"]
    untouched = {slot: held for slot, held in ODD_SLOTS.items() if slot not in ("0", "9")}
    assert repr(left) == repr(untouched)


def test_a_document_that_cannot_be_written_to_is_damaged(db, player):
    """Nobody changes it, and yet no try succeeds."""

    class Refusing:
        name = "players"
        find_one = staticmethod(db.players.find_one)

        @staticmethod
        def update_one(where, update):
            return db.players.update_one({**where, "Never": True}, update)

    swapper = swapper_of(db, collection=Refusing())
    rule = partial(Change, {"Bank": {}})
    with pytest.raises(Damaged):
        swapper.swap({"_id": player["_id"]}, READS, lambda _: rule(None), meant("x"))
