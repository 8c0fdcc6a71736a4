"""Items that move from one player to another: both change or none, whatever happens in between."""

import contextlib
import itertools

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from app.changes import field_changes
from app.items.domain import Limits, NoRoom, NotEnoughItems
from app.items.transfers.domain import receive, take_any, take_back, withdraw
from app.items.undo import moves_of
from app.players.domain import SUBJECT, TRANSFER
from app.storage.unfinished import UnfinishedWork
from tests.api.test_stalled_workers import READS, WRITES, at_every_step, finish
from tests.applications import service
from tests.callers import Caller
from tests.factories import World, guid, make_bag, numbered_guid
from tests.mongod import on_mongodb

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
    """Return all that these players hold, and what is on its way: quantities by content."""
    found = {}
    for player in players:
        held = [slot for name in SLOTS for slot in player[name].values()]
        mark = player.get(TRANSFER)
        moves = moves_of(mark["Changes"]) if mark else []
        amounts = [(slot, slot["Quantity"]) for slot in held]
        amounts += [(move.thing.content, -move.quantity) for move in moves]
        for slot, quantity in amounts:
            content = repr(sorted((n, v) for n, v in slot.items() if n != "Quantity"))
            found[content] = found.get(content, 0) + quantity
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
        """Both or none: nothing lost, nothing made, no mark left, and an entry on each."""
        ann, bob = self.stored()
        assert things(ann, bob) == things(*self.before), note
        assert (ann.get(TRANSFER), bob.get(TRANSFER)) == (None, None), note
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
        ({"quantity": 10}, 409, "NO_ROOM"),
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


def test_a_player_is_not_deleted_while_its_items_are_on_their_way(pair):
    mark = {"Id": ObjectId(), "Changes": []}
    pair.db.players.update_one({"_id": pair.ann}, {"$set": {TRANSFER: mark}})
    assert pair.staff("DELETE players/Ann", None, 503).json["Code"] == "BEING_TRANSFERRED"


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
    """Sending, receiving, moving back and withdrawing, whatever both hold."""

    def limits_of(_):
        return Limits(6, 6, 9)

    sender = {"_id": "a", "Inventory": ann, "Bank": ann_bank}
    receiver = {"_id": "b", "Inventory": bob, "Bank": bob_bank}
    try:
        sent = take_any(sender, itemid=POTION, quantity=quantity)
    except NotEnoughItems:
        return
    changes = field_changes(SUBJECT, sender, sent.fields)
    marked = {**sender, **sent.fields, TRANSFER: {"Id": 1, "Changes": changes}}
    back = withdraw(marked, mark_id=1, limits_of=limits_of)
    assert {name: back.fields[name] for name in SLOTS} == {n: sender[n] for n in SLOTS}
    crowded = {**marked, "Inventory": FULL, "Bank": FULL}
    returned = {**crowded, **withdraw(crowded, mark_id=1, limits_of=limits_of).fields}
    assert things(returned) == things(crowded)
    try:
        got = receive(receiver, changes=changes, bankoverflow=bank, limits_of=limits_of)
    except NoRoom:
        return
    gone = {**sender, **sent.fields}
    has = {**receiver, **got.fields}
    assert things(gone, has) == things(sender, receiver)
    came = field_changes(SUBJECT, receiver, got.fields)
    assert take_back(has, changes=came, limits_of=limits_of).fields == {
        name: receiver[name] for name in SLOTS
    }


class Killed(BaseException):
    """The process dies here."""


def at_every_kill(begin, check):
    """Let a worker die at each of its writes in turn, before it and after it."""
    for is_written in (False, True):
        for number in range(1, 100):
            act, pair = begin()
            with pytest.MonkeyPatch.context() as patch:
                has_died = die_at(patch, number, is_written)
                with contextlib.suppress(Killed):
                    act()
            if not has_died:
                break
            check(pair, f"killed at write {number}, written: {is_written}")
        assert number > 3


def die_at(patch, number, is_written):
    """Raise Killed at a write to players; the list that is returned then has an element."""
    writes, has_died = itertools.count(1), []

    def dying(plain):
        def write(collection, *args, **kw):
            if collection.name != "players" or next(writes) != number:
                return plain(collection, *args, **kw)
            has_died.append(number)
            if is_written:
                plain(collection, *args, **kw)
            raise Killed

        return write

    for name in WRITES:
        patch.setattr(Collection, name, dying(getattr(Collection, name)))
    return has_died


@on_mongodb
@pytest.mark.parametrize("is_undo", [False, True])
def test_a_worker_may_die_at_any_step_and_others_finish_it(app, is_undo):
    def begin():
        pair = Pair(app)
        if not is_undo:
            return lambda: pair.send(key="k"), pair
        pair.send()
        (entry,) = pair.entries("Ann")
        return lambda: pair.undo(entry), pair

    def check(pair, note):
        # Until it is finished, the items are in the mark, or with one of them.
        visible = things(*({**player, TRANSFER: None} for player in pair.stored()))
        whole = things(*pair.before)
        assert all(visible[content] <= whole[content] for content in visible), note
        service(app, UnfinishedWork).finish_all()
        pair.require_whole(note)
        if is_undo:
            (*_, entry) = pair.entries("Ann")
            pair.undo(entry, None)
            assert pair.slots()[0]["Inventory"] == HELD, note
        else:
            pair.send(key="k")
        assert pair.require_whole(note) == 1 + is_undo, note

    at_every_kill(begin, check)


def fill(pair):
    pair.db.players.update_one({"_id": pair.bob}, {"$set": {"Inventory": FULL}})
    finish(pair.app)


def fill_and_empty(pair):
    """Others meet a full inventory, and the game makes room again."""
    fill(pair)
    pair.db.players.update_one({"_id": pair.bob}, {"$set": {"Inventory": {}}})


@on_mongodb
@pytest.mark.parametrize("operations", [WRITES, READS])
@pytest.mark.parametrize("meanwhile", ["finish", "fill", "fill_and_empty", "again", "delete"])
def test_a_worker_may_stand_still_while_others_go_on(app, meanwhile, operations):
    """Nothing is doubled: whoever reads before a refusal cannot give after it."""

    def begin():
        pair = Pair(app)
        return lambda: pair.send(key="k", status=None), pair

    def others(pair):
        if meanwhile == "finish":
            finish(app)
        elif meanwhile == "again":
            pair.send(key="k", status=None)
        elif meanwhile == "delete":
            pair.staff("DELETE players/Bob", None, None)
        else:
            {"fill": fill, "fill_and_empty": fill_and_empty}[meanwhile](pair)

    def check(pair, answer, note):
        finish(app)
        ann, bob = pair.stored()
        assert not ann.get(TRANSFER), note
        potion = repr([("ItemId", POTION)])
        kept = things(ann).get(potion, 0)
        got = 0 if meanwhile == "delete" and bob is None else len(pair.entries("Bob"))
        sent = len(pair.entries("Ann"))
        assert kept == 9 - 7 * sent, note
        if bob is not None:
            assert got == sent, note
        if answer.status_code == 200:
            assert sent == 1, note
        if meanwhile in ("finish", "again"):
            assert things(ann, bob) == things(*pair.before), note

    at_every_step(begin, others, check, operations, stride=2 if operations is WRITES else 7)


@on_mongodb
def test_an_interruption_of_the_network_leaves_both_or_none(app, monkeypatch):
    """Without an Idempotency-Key, the answer tells that the outcome is unknown."""
    pair = Pair(app)
    plain = Collection.update_one
    calls = []

    def cut(collection, *args, **kw):
        calls.append(collection.name)
        if calls.count("players") == 4:
            raise AutoReconnect("cut")
        return plain(collection, *args, **kw)

    monkeypatch.setattr(Collection, "update_one", cut)
    assert pair.send(status=503).json["Code"] == "OUTCOME_UNKNOWN"
    service(app, UnfinishedWork).finish_all()
    assert pair.require_whole() == 1
