"""Items that move from one player to another: both change or none, whatever happens in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.changes import field_changes
from app.players.domain import SUBJECT
from app.players.items.domain import Limits, NoRoom, NotEnoughItems, receive, take
from app.players.items.undo import moves_of, undo
from tests.callers import Caller
from tests.factories import World, guid, make_bag, numbered_guid

POTION, SWORD, SACK = (numbered_guid(number) for number in range(1, 4))
BAG = numbered_guid(4)
GEAR = {"ItemId": SWORD, "Quantity": 1, "StatBuffs": [3, 0, 0, 0, 1]}
HELD = {
    "0": {"ItemId": POTION, "Quantity": 5},
    "2": GEAR,
    "4": {"ItemId": SACK, "Quantity": 1, "BagId": BAG},
    "7": {"ItemId": POTION, "Quantity": 4},
}
FULL = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(35)}
SLOTS = ("Inventory", "Bank")


def things(*players):
    """Return all that these players hold: quantities by content."""
    found = {}
    for slot in (slot for player in players for name in SLOTS for slot in player[name].values()):
        content = repr(sorted((n, v) for n, v in slot.items() if n != "Quantity"))
        found[content] = found.get(content, 0) + slot["Quantity"]
    return found


class Pair:
    """Two players, and a caller who moves items between them."""

    def __init__(self, app, **bob):
        self.app, self.world = app, World(app)
        self.db = self.world.db
        self.db.players.delete_many({})
        self.ann = self.world.add_player(Name="Ann", Inventory=HELD)["_id"]
        self.bob = self.world.add_player(Name="Bob", **bob)["_id"]
        self.staff = Caller(app.test_client(), self.world.headers(), "/api/v1/")
        self.before = self.stored()

    def send(self, item=POTION, quantity=7, status=200, key=None, **more):
        body = {"to": "Bob", "itemid": item, "quantity": quantity, **more}
        headers = {"Idempotency-Key": key} if key else {}
        return self.staff("POST players/Ann/items/transfer", body, status, **headers)

    def stored(self):
        return [self.db.players.find_one({"_id": id_}) for id_ in (self.ann, self.bob)]

    def slots(self):
        return [{name: player[name] for name in SLOTS} for player in self.stored()]

    def entries(self, name):
        return self.staff(f"GET players/{name}/history").json["Values"]

    def undo(self, entry, status=200, body=None):
        return self.staff(f"POST history/{entry['Id']}/undo", body, status)

    def require_whole(self, note=""):
        """Both or none: nothing lost, nothing made, and an entry on each."""
        ann, bob = self.stored()
        assert things(ann, bob) == things(*self.before), note
        entries = [self.entries(name) for name in ("Ann", "Bob")]
        assert len(entries[0]) == len(entries[1]), note
        return len(entries[0])


@pytest.fixture
def pair(app):
    return Pair(app)


def test_both_players_change_and_each_entry_names_the_other(pair):
    answer = pair.send()
    assert answer.json == {"ItemId": POTION, "Quantity": 7, "To": pair.bob}
    ann, bob = pair.slots()
    assert ann["Inventory"] == {"2": HELD["2"], "4": HELD["4"], "7": {**HELD["7"], "Quantity": 2}}
    assert bob["Inventory"] == {"0": {"ItemId": POTION, "Quantity": 7}}
    ((sent,), (got,)) = (pair.entries(name) for name in ("Ann", "Bob"))
    asked = {"ItemId": POTION, "Quantity": 7, "BankOverflow": False}
    assert (sent["Operation"], sent["Arguments"]) == ("transfer", {**asked, "To": pair.bob})
    assert (got["Operation"], got["Arguments"]) == ("transfer", {**asked, "From": pair.ann})
    assert answer.headers["X-History-Id"] == sent["Id"]
    assert [change["Path"] for change in sent["Changes"]] == ["Inventory.0", "Inventory.7"]
    assert pair.require_whole() == 1


@pytest.mark.parametrize("which", ["Ann", "Bob"])
@pytest.mark.parametrize("item", [POTION, SWORD, SACK])
def test_one_undo_restores_both_exactly_and_can_be_undone(pair, which, item):
    """A bag goes with what is in it, gear with its properties, and both come back."""
    before = pair.slots()
    pair.db.bags.insert_one(make_bag({"0": GEAR}, _id=BAG))
    pair.send(item, 1 if item != POTION else 7)
    moved = pair.slots()
    (entry,) = pair.entries(which)
    dry = pair.undo(entry, body={"DryRun": True}).json
    assert pair.slots() == moved
    undone = pair.undo(entry).json
    assert pair.slots() == before
    assert (undone["Subject"], undone["Changes"]) == (entry["Subject"], dry["Changes"])
    for name in ("Ann", "Bob"):
        newest, first = pair.entries(name)
        assert newest["Undoes"] == first["Id"]
        assert pair.undo(first, 409).json["Code"] == "ALREADY_UNDONE"
    pair.undo(pair.entries(which)[0])
    assert pair.slots() == moved
    assert pair.require_whole() == 3


def test_what_cannot_be_is_refused_and_changes_nothing(app):
    bank = {str(slot): GEAR for slot in range(100)}
    pair = Pair(app, Inventory=FULL, Bank={})
    cases = (
        ({"quantity": 8}, 409, "NO_ROOM"),
        ({"item": SWORD, "quantity": 2, "bankoverflow": True}, 409, "NOT_ENOUGH_ITEMS"),
        ({"to": "Ann"}, 400, "INVALID"),
        ({"to": "Nobody"}, 404, "NOT_FOUND"),
        ({"to": ""}, 400, "INVALID"),
        ({"quantity": 0}, 400, "INVALID"),
    )
    before = pair.stored()
    for more, status, code in cases:
        assert pair.send(**{"status": status, **more}).json["Code"] == code, more
    assert pair.stored() == before
    assert pair.send(bankoverflow=True).json["Quantity"] == 7
    pair.db.players.update_one({"_id": pair.bob}, {"$set": {"Bank": bank}})
    assert pair.send(quantity=2, status=409, bankoverflow=True).json["Code"] == "NO_ROOM"


def test_gear_without_an_empty_slot_comes_back_to_its_own(app):
    """A stack has room for potions, but not for potions with properties."""
    stack = {"ItemId": SWORD, "Quantity": 1}
    pair = Pair(app, Inventory={**FULL, "0": stack})
    before = pair.slots()
    assert pair.send(SWORD, 1, 409).json["Code"] == "NO_ROOM"
    assert pair.slots() == before
    assert pair.require_whole() == 0


def test_a_repeated_request_changes_nothing_even_if_the_other_is_renamed_or_full(pair):
    first = pair.send(key="k")
    pair.staff("POST players/Bob/name", {"Name": "Bert"})
    pair.db.players.update_one({"_id": pair.bob}, {"$set": {"Inventory": FULL}})
    again = pair.send(key="k")
    assert again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    assert pair.send(key="k", quantity=1, status=409).json["Code"] == "KEY_REUSED"


def test_an_undo_is_refused_if_the_items_are_spent(pair):
    pair.send()
    pair.staff("POST players/Bob/items/take", {"itemid": POTION, "quantity": 1})
    before = pair.stored()
    (entry,) = pair.entries("Ann")
    assert pair.undo(entry, 409).json["Code"] == "ITEMS_SPENT"
    assert pair.stored() == before


slots = st.dictionaries(
    st.integers(0, 5).map(str),
    st.builds(
        lambda item, quantity, buff: {
            "ItemId": item,
            "Quantity": quantity,
            **({"StatBuffs": [buff, 0, 0, 0, 0]} if buff else {}),
        },
        st.sampled_from([POTION, SWORD]),
        st.integers(1, 9),
        st.integers(0, 2),
    ),
)


@given(slots, slots, slots, slots, st.integers(1, 20), st.booleans())
def test_no_rule_loses_or_makes_items(ann, ann_bank, bob, bob_bank, quantity, bank):
    """Sending, receiving and moving back, whatever both hold."""

    def limits_of(_):
        return Limits(6, 6, 9)

    sender = {"_id": "a", "Inventory": ann, "Bank": ann_bank}
    receiver = {"_id": "b", "Inventory": bob, "Bank": bob_bank}
    try:
        sent = take(sender, itemid=POTION, quantity=quantity)
    except NotEnoughItems:
        return
    changes = field_changes(SUBJECT, sender, sent.fields)
    held = [{**move.held, "Quantity": -move.quantity} for move in moves_of(changes)]
    try:
        got = receive(receiver, held=held, bankoverflow=bank, limits_of=limits_of)
    except NoRoom:
        return
    gone = {**sender, **sent.fields}
    has = {**receiver, **got.fields}
    assert things(gone, has) == things(sender, receiver)
    came = field_changes(SUBJECT, receiver, got.fields)
    assert undo(has, changes=came, limits_of=limits_of, has_bags=True).fields == {
        name: receiver[name] for name in SLOTS
    }
