"""The books that are kept in a storm: every lost or doubled write is noticed."""

from __future__ import annotations

import pytest

from tests.factories import guid, make_player
from tests.system.chaos.clients import Client
from tests.system.chaos.ledger import Ledger, Verdict, compare
from tests.system.chaos.storm import Outcome

ITEM = guid()


def stored(quantity, version):
    slots = {"0": {"ItemId": ITEM, "Quantity": quantity}} if quantity else {}
    return {**make_player(Id="p"), "Inventory": slots, "Version": version}


BEFORE = [stored(0, version=0)]


@pytest.fixture
def ledger():
    """Two gifts of five, and two of it taken."""
    ledger = Ledger()
    for quantity in (5, 5, -2):
        ledger.promise("p", ITEM, quantity)
    return ledger


def test_what_was_promised_and_is_stored_is_good(ledger):
    verdict = compare([ledger], BEFORE, [stored(8, version=3)])
    assert verdict == Verdict(acknowledged=3)
    assert verdict.is_good


@pytest.mark.parametrize(
    ("quantity", "version", "lost", "doubled"),
    [(3, 2, 1, 0), (10, 2, 1, 0), (13, 4, 0, 1), (6, 4, 0, 1), (0, 0, 3, 0)],
    ids=["gift lost", "taking lost", "gift doubled", "taking doubled", "all lost"],
)
def test_a_lost_or_doubled_write_is_noticed(ledger, quantity, version, lost, doubled):
    verdict = compare([ledger], BEFORE, [stored(quantity, version)])
    assert (verdict.lost, verdict.doubled) == (lost, doubled)
    assert len(verdict.differences) == 1
    with pytest.raises(AssertionError, match=f"{lost} were lost, {doubled} doubled"):
        Outcome("storm", verdict=verdict).check()


def test_one_lost_and_another_doubled_do_not_make_up_for_each_other(ledger):
    verdict = compare([ledger], BEFORE, [stored(1, version=3)])
    assert not verdict.is_good
    with pytest.raises(AssertionError, match="promised were 8"):
        Outcome("storm", verdict=verdict).check()


def test_a_player_that_is_gone_has_lost_everything(ledger):
    assert compare([ledger], BEFORE, []).lost == 3


def test_what_players_had_before_counts(ledger):
    verdict = compare([ledger], [stored(7, version=40)], [stored(15, version=43)])
    assert verdict == Verdict(acknowledged=3)


def test_items_out_of_nothing_are_noticed_though_the_versions_are_right(ledger):
    verdict = compare([ledger], BEFORE, [stored(9, version=3)])
    assert (verdict.missing, verdict.invented, verdict.wrong_versions) == (0, 1, 0)
    assert not verdict.is_good


def test_a_game_that_counts_no_version_has_its_items_counted(ledger):
    ledger.note("p", ITEM, 4)
    assert compare([ledger], BEFORE, [stored(12, version=3)]) == Verdict(acknowledged=3)


@pytest.mark.parametrize(
    ("wanted", "began", "is_just"),
    # Five were given from 1 to 2; before that, and meanwhile, there may have been none.
    [(5, 3.0, False), (5, 1.5, True), (5, 0.5, True), (6, 3.0, True)],
)
def test_a_refusal_that_was_true_at_no_moment_is_noticed(wanted, began, is_just):
    ledger = Ledger()
    ledger.promise("p", ITEM, 5, began=1.0, ended=2.0)
    ledger.refuse("p", ITEM, wanted, began=began, ended=began + 0.5)
    assert compare([ledger], BEFORE, [stored(5, version=1)]).is_good == is_just


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


@pytest.mark.parametrize("status", [500, 404, 409])
def test_an_answer_that_should_not_have_been_is_a_broken_law(status):
    client = Client(1, Answers(status), ["p"], pace=0)
    client._give("p")
    outcome = Outcome("storm", complaints=client.complaints)
    with pytest.raises(AssertionError, match=f"answered with {status}"):
        outcome.check()


def test_a_503_without_retry_after_is_a_broken_law():
    client = Client(1, Answers(503), ["p"], pace=0)
    client._judge(503, {}, b'{"Message": "No."}')
    assert client.complaints == ["a 503 came without Retry-After"]


def test_a_503_without_a_sentence_is_a_broken_law():
    client = Client(1, Answers(503), ["p"], pace=0)
    client._judge(503, {"Retry-After": "2"}, b'{"Message": "oops"}')
    assert "without a sentence" in client.complaints[0]


def test_a_gift_that_counts_twice_is_noticed_at_once():
    twice = b'{"id": "i", "quantity": {"total": 6, "bank": 0, "inventory": 6}}'
    client = Client(1, Answers(200, body=twice), ["p"], pace=0)
    client._give("p", 3)
    assert "expected were 3" in client.complaints[0]
