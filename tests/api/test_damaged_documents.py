"""Documents older than their validators, or damaged by somebody, can still be changed."""

import pytest

from tests.factories import guid, make_player

ITEM = guid()
FULL = {"100000": {"ItemId": ITEM, "Quantity": 2**40}}


@pytest.mark.parametrize(
    ("missing", "damage"),
    [(["Version"], {}), ([], {"Level": "high", "Bank": FULL})],
    ids=["without a Version", "with faults in other fields"],
)
def test_a_damaged_player_can_be_changed(staff, db, missing, damage):
    player = {**make_player(), **damage}
    for field in missing:
        del player[field]
    db.players.insert_one(player, bypass_document_validation=True)
    path, gift = f"POST players/{player['_id']}/items/give", {"itemid": ITEM, "quantity": 1}
    answers = [staff(path, gift, Idempotency_Key=key) for key in ("a", "a", "b")]
    assert ["Idempotency-Replayed" in answer.headers for answer in answers] == [False, True, False]
    after = db.players.find_one()
    assert [slot["Quantity"] for slot in after["Inventory"].values()] == [2]
    assert after["Version"] == player.get("Version", 0) + 2
    assert after.items() >= damage.items()
