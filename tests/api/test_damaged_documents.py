"""Documents older than their validators, or damaged by somebody, can still be changed."""

import pytest

from tests.factories import guid, make_player

ITEM = guid()


@pytest.fixture
def give(caller):
    post = caller("/api/v1/players/").post
    return lambda player, key=None: post(
        f"{player['_id']}/items/give", key, itemid=ITEM, quantity=1
    )


def stored(db, without=(), **damage):
    """Store a player as no validator would let it be."""
    player = {**make_player(), **damage}
    for field in without:
        del player[field]
    db.players.insert_one(player, bypass_document_validation=True)
    return player


def held(db, player):
    slots = db.players.find_one({"_id": player["_id"]})["Inventory"].values()
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == ITEM)


def test_a_player_without_a_version_can_be_changed(db, give):
    player = stored(db, without=["Version"])
    answers = [give(player, key) for key in ("a", "a", "b")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert ["Idempotency-Replayed" in answer.headers for answer in answers] == [False, True, False]
    assert held(db, player) == 2
    assert db.players.find_one({"_id": player["_id"]})["Version"] == 2


def test_a_fault_in_one_field_does_not_keep_others_from_being_changed(db, give):
    player = stored(db, Level="high", Bank={"100000": {"ItemId": guid(), "Quantity": 2**40}})
    assert give(player).status_code == 200
    after = db.players.find_one({"_id": player["_id"]})
    assert (after["Level"], after["Bank"]) == (player["Level"], player["Bank"])
