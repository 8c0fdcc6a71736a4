"""Faults under load: nothing that was acknowledged is lost or made twice.

``make chaos`` breaks everything, for hours.
"""

import gc
from copy import deepcopy

import pytest

from tests.factories import guid, make_entry, make_player, make_user
from tests.system.chaos.__main__ import judged
from tests.system.chaos.ledger import DONE, Change, Judge, Ledger
from tests.system.chaos.machines import MISSING

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
on_network = pytest.mark.skipif(bool(MISSING), reason=str(MISSING))


@pytest.fixture(autouse=True)
def dropped():
    """Drop what nobody closes: servers that were killed, and connections to them."""
    yield
    gc.collect()


@on_network
def test_kills_and_a_split_lose_and_invent_nothing(tmp_path):
    faults = ("worker killed", "primary killed", "two-way split")
    assert judged(tmp_path, 300, 1, only="behind", faults=faults) == {}


@on_network
@pytest.mark.everything
def test_no_fault_and_no_round_breaks_a_law(tmp_path):
    assert judged(tmp_path, 1000, 1) == {}


def test_the_judge_convicts(real_db):
    player, item, person = make_player(), guid(), make_user(Name="zwq0123456789ab")
    ledger = Ledger()
    ledger.ruled.add(player["_id"])
    change = Change("give", player["_id"], {(player["_id"], item): 3}, 0.0, 1.0, DONE)
    ledger.changes["a key"] = change
    assert {"an acknowledged change has its entry", "no item is lost or made"} <= broken(
        ledger, real_db, player
    )
    player |= {"Version": 1, "Inventory": {"0": {"ItemId": item, "Quantity": 3}}}
    entry = make_entry(player, IdempotencyKey="a key")
    assert broken(ledger, real_db, player, entry) == set()
    assert "no change is made twice" in broken(ledger, real_db, player, entry, {**entry, "_id": 2})
    strange = {**entry, "_id": 2, "IdempotencyKey": "another", "Version": 2}
    assert "no entry is without its change" in broken(ledger, real_db, player, entry, strange)
    ledger.erased[person["Name"]] = [person["_id"]]
    entry = {**entry, "Reason": f"for {person['Name'].upper()}"}
    assert "nobody who was erased comes back or is named" in broken(ledger, real_db, player, entry)


def broken(ledger, db, player, *entries):
    """Return the laws that a database with a player and some entries breaks.

    It has no validators and indexes, which would refuse most of it.
    """
    db = db.client.judged
    db.client.drop_database(db)
    db.players.insert_one(deepcopy(player))
    if entries:
        db.history.insert_many(deepcopy(entries))
    return {law for law, cases in Judge(ledger, db).broken.items() if cases}
