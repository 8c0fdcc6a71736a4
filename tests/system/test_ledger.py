"""The books that are kept in a storm: every lost or doubled write or entry is noticed."""

import json
from datetime import datetime, timezone

import pytest

from tests.factories import guid, make_player
from tests.system.chaos import stored as reading
from tests.system.chaos.clients import BROKEN, Client, KeylessClient
from tests.system.chaos.ledger import Ledger, Verdict, compare
from tests.system.chaos.storm import Outcome

ITEM = guid()


def stored(quantity, version):
    slots = {"0": {"ItemId": ITEM, "Quantity": quantity}} if quantity else {}
    return {**make_player(Id="p"), "Inventory": slots, "Version": version}


def entry(quantity, key=None, item=ITEM):
    """Return an entry as the service makes it, as far as ledgers look at it."""
    changed = {"Path": "Inventory.0", "Before": slot(7, item), "After": slot(7 + quantity, item)}
    told = {
        "Subject": {"Kind": "player", "Id": "p"},
        "Operation": "give" if quantity > 0 else "take",
        "Arguments": {"ItemId": item, "Quantity": abs(quantity)},
        "Changes": [changed],
    }
    return {**told, "IdempotencyKey": key} if key else told


def slot(quantity, item):
    return {"ItemId": item, "Quantity": quantity}


BEFORE = [stored(0, version=0)]
ENTRIES = [entry(5, "a"), entry(5, "b"), entry(-2)]


@pytest.fixture
def ledger():
    """Two gifts of five, and two of it taken, without a key."""
    ledger = Ledger()
    for quantity, key in ((5, "a"), (5, "b"), (-2, None)):
        ledger.promise("p", ITEM, quantity, key=key)
    return ledger


def test_what_was_promised_and_is_stored_is_good(ledger):
    verdict = compare([ledger], BEFORE, [stored(8, version=3)], ENTRIES)
    assert verdict == Verdict(acknowledged=3)
    assert verdict.is_good


@pytest.mark.parametrize(
    ("quantity", "version", "lost", "doubled"),
    [(3, 2, 1, 0), (10, 2, 1, 0), (13, 4, 0, 1), (6, 4, 0, 1), (0, 0, 3, 0)],
    ids=["gift lost", "taking lost", "gift doubled", "taking doubled", "all lost"],
)
def test_a_lost_or_doubled_write_is_noticed(ledger, quantity, version, lost, doubled):
    verdict = compare([ledger], BEFORE, [stored(quantity, version)], ENTRIES)
    assert (verdict.lost, verdict.doubled) == (lost, doubled)
    with pytest.raises(AssertionError, match=f"{lost} writes were lost, {doubled} doubled"):
        Outcome("storm", verdict=verdict).check()


# The second: one write is lost, and another one doubled.
@pytest.mark.parametrize("quantity", [9, 1])
def test_items_are_counted_though_the_versions_are_right(ledger, quantity):
    verdict = compare([ledger], BEFORE, [stored(quantity, version=3)], ENTRIES)
    assert (verdict.lost, verdict.doubled) == (0, 0)
    with pytest.raises(AssertionError, match=f"p has {quantity} of {ITEM}, promised were 8"):
        Outcome("storm", verdict=verdict).check()


def test_a_player_that_is_gone_has_lost_everything(ledger):
    assert compare([ledger], BEFORE, [], ENTRIES).lost == 3


def test_what_players_had_before_counts(ledger):
    verdict = compare([ledger], [stored(7, version=40)], [stored(15, version=43)], ENTRIES)
    assert verdict == Verdict(acknowledged=3)


@pytest.mark.parametrize(
    ("wanted", "began", "is_just"),
    # Five were given from 1 to 2; before that, and meanwhile, there may have been none.
    [(5, 3.0, False), (5, 1.5, True), (5, 0.5, True), (6, 3.0, True)],
)
def test_a_refusal_that_was_true_at_no_moment_is_noticed(wanted, began, is_just):
    ledger = Ledger()
    ledger.promise("p", ITEM, 5, began=1.0, ended=2.0)
    ledger.refuse("p", ITEM, wanted, began=began, ended=began + 0.5)
    assert compare([ledger], BEFORE, [stored(5, version=1)], [entry(5)]).is_good == is_just


def test_what_the_service_did_is_in_history_and_what_a_game_did_is_not(ledger):
    ledger.play("p", {ITEM: 1}, version=1)
    ledger.note("p", ITEM, 1)
    assert compare([ledger], BEFORE, [stored(10, version=4)], ENTRIES) == Verdict(acknowledged=3)


def test_what_a_game_wiped_with_a_whole_document_is_neither_lost_nor_without_an_entry(ledger):
    told = [{**made, "Stamp": number} for number, made in enumerate(ENTRIES)]
    ledger.play("p", {ITEM: -3}, version=-2)
    # The first had moved to history before.
    ledger.forgotten += [told[0], told[1], told[2], told[2]]
    good = compare([ledger], BEFORE, [stored(5, version=1)], told[:1])
    assert good == Verdict(acknowledged=3)
    (invented,) = compare([ledger], BEFORE, [stored(8, version=1)], told[:1]).differences
    assert invented == f"player p has 8 of {ITEM}, promised were 5"
    assert compare([ledger], BEFORE, [stored(5, version=3)], told[:1]).doubled == 2
    ledger.forgotten.clear()
    assert compare([ledger], BEFORE, [stored(5, version=1)], told[:1]).unrecorded == 2


@pytest.mark.parametrize(
    ("entries", "unrecorded", "unexplained"),
    [
        (ENTRIES[1:], 1, 0),
        (ENTRIES[:2], 1, 0),
        ([*ENTRIES, ENTRIES[0]], 0, 1),
        ([*ENTRIES, ENTRIES[2]], 0, 1),
        ([*ENTRIES, entry(5, "c")], 0, 1),
        ([*ENTRIES, entry(5, item=guid())], 0, 1),
        ([*ENTRIES[:2], entry(-3)], 1, 1),
        ([entry(4, "a"), *ENTRIES[1:]], 1, 1),
        ([], 3, 0),
    ],
    ids=[
        *("missing", "missing, without a key", "double", "double, without a key"),
        *("foreign", "foreign, without a key", "another quantity, without a key"),
        *("another quantity than was promised", "none"),
    ],
)
def test_a_missing_double_or_foreign_entry_is_noticed(ledger, entries, unrecorded, unexplained):
    verdict = compare([ledger], BEFORE, [stored(8, version=3)], entries)
    assert (verdict.unrecorded, verdict.unexplained) == (unrecorded, unexplained)
    assert not verdict.is_good
    said = f"{unrecorded} writes have no entry, {unexplained} entries no write"
    with pytest.raises(AssertionError, match=said):
        Outcome("storm", verdict=verdict).check()


@pytest.mark.parametrize("key", [None, "doubtful"])
@pytest.mark.parametrize(
    ("times", "quantity", "version", "is_good"),
    [(0, 8, 3, True), (1, 12, 4, True), (1, 8, 3, False), (0, 12, 4, False), (2, 16, 5, False)],
    ids=["not made", "made", "told but not made", "made but not told", "made twice"],
)
def test_what_nobody_was_told_is_decided_by_history(ledger, key, times, quantity, version, is_good):
    ledger.doubt("p", ITEM, 4, key)
    entries = [*ENTRIES, *[entry(4, key)] * times]
    verdict = compare([ledger], BEFORE, [stored(quantity, version)], entries)
    assert verdict.is_good == is_good
    assert (verdict.acknowledged, verdict.unrecorded) == (3, 0)
    assert verdict.unexplained == max(0, times - 1)


def test_a_change_of_a_whole_map_of_slots_is_understood(ledger):
    whole = {"Path": "Inventory", "Before": None, "After": {"0": slot(5, ITEM)}}
    entries = [{**ENTRIES[0], "Changes": [whole]}, *ENTRIES[1:]]
    assert compare([ledger], BEFORE, [stored(8, version=3)], entries).is_good


def test_entries_are_found_in_history_and_in_journals_and_those_in_both_once():
    moved, unmoved = ({"_id": f"player:p:{n}", "Stamp": n, **journalled(n)} for n in (1, 2))
    player = {**stored(0, version=2), "Journal": [moved, unmoved]}
    found = reading._unmoved({"players": [player]}, [moved])
    assert [entry["_id"] for entry in found] == [unmoved["_id"]]


def journalled(number):
    return {**entry(number), "At": datetime(2026, 1, 1, tzinfo=timezone.utc)}


class Answers:
    """A service that gives the same answer to everything."""

    def __init__(self, status, headers=None, body=b'{"Message": "No."}'):
        self.status, self.headers, self._body = status, headers or {}, body

    def connect(self, timeout):
        return self

    def request(self, *_):
        pass

    def getresponse(self):
        return self

    def read(self):
        return self._body


def client_of(kind, *answer, **more):
    return kind(1, Answers(*answer, **more), ["p"], pace=0)


def books(client):
    """Return what a client doubts, and what it was promised."""
    return client.ledger.doubts.total(), client.ledger.marks.total()


@pytest.mark.parametrize("status", [500, 404, 409])
def test_an_answer_that_should_not_have_been_is_a_broken_law(status):
    client = client_of(Client, status)
    client._give("p")
    assert books(client) == ((1, 0) if status == 500 else (0, 0))
    with pytest.raises(AssertionError, match=f"answered with {status}"):
        Outcome("storm", complaints=client.complaints).check()


@pytest.mark.parametrize(
    ("headers", "sentence", "complaint"),
    [({}, "No.", "without Retry-After"), ({"Retry-After": "2"}, "oops", "without a sentence")],
)
def test_a_503_says_why_and_when_to_come_back(headers, sentence, complaint):
    client = client_of(Client, 503)
    client._judge(503, headers, json.dumps({"Message": sentence}).encode())
    assert complaint in client.complaints[0]


def test_a_gift_that_counts_twice_is_noticed_at_once():
    twice = b'{"id": "i", "quantity": {"total": 6, "bank": 0, "inventory": 6}}'
    client = client_of(Client, 200, body=twice)
    client._give("p", 3)
    assert "expected were 3" in client.complaints[0]


@pytest.mark.parametrize(
    ("status", "noted"), [(503, (1, 0)), (BROKEN, (1, 0)), (200, (0, 1))], ids=str
)
def test_a_client_without_keys_asks_once_and_notes_its_doubt(status, noted):
    client = client_of(KeylessClient, status, {"Retry-After": "0"})
    client._act("p")
    assert (client.answers.total(), client.complaints) == (1, [])
    assert books(client) == noted
