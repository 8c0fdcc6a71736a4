from hypothesis import given
from hypothesis import strategies as st

from app.items.domain import filled, served, stored
from app.naming import NIL

guids = st.uuids().map(str).filter(lambda guid: guid != NIL)
held = st.fixed_dictionaries(
    {"ItemId": guids, "Quantity": st.integers(1, 1_000_000)},
    optional={
        "BagId": guids,
        "StatBuffs": st.lists(st.integers(-9, 9), min_size=5, max_size=5).filter(any),
    },
)
inventories = st.dictionaries(st.integers(0, 34).map(str), held)


@given(inventories)
def test_what_is_stored_comes_back_from_what_is_served(slots):
    assert stored(served(slots, 35)) == slots
    assert stored(filled(slots)) == slots


@given(inventories)
def test_all_slots_are_served_in_order_with_the_empty_ones(slots):
    records = served(slots, 35)
    assert [record["Slot"] for record in records] == list(range(35))
    empty = [r["Slot"] for r in records if r["ItemId"] == NIL and r["Quantity"] == 0]
    assert len(empty) == 35 - len(slots)
    assert all(len(record["StatBuffs"]) == 5 for record in records)


def test_a_slot_beyond_a_lowered_size_is_not_hidden():
    slots = served({"4000": {"ItemId": "x", "Quantity": 1}}, 35)
    assert [slot["Slot"] for slot in slots] == [*range(35), 4000]
