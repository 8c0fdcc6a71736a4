"""The laws of giving and taking, and how slots are stored and served."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.naming import NIL
from app.players.items.domain import (
    BagNotEmpty,
    Limits,
    NoRoom,
    NotEnoughItems,
    count,
    filled,
    give,
    is_readable,
    slot_records,
    take,
)
from app.players.items.schemas import SlotMap
from app.players.spells import known_spells

SWORD, POTION, BAG = "sword", "potion", "bag"
SIZES = {"Inventory": 12, "Bank": 11}
LIMITS = Limits(inventory=12, bank=11, stack=10)
BUFFS = [1, 0, 0, 0, 0]

items = st.sampled_from([SWORD, POTION, BAG])
quantities = st.integers(1, 10)
held = st.one_of(
    st.fixed_dictionaries({"ItemId": items, "Quantity": quantities}),
    st.fixed_dictionaries({"ItemId": items, "Quantity": quantities, "StatBuffs": st.just([0] * 5)}),
    st.fixed_dictionaries({"ItemId": items, "Quantity": quantities, "StatBuffs": st.just(BUFFS)}),
    st.fixed_dictionaries(
        {"ItemId": st.just(BAG), "Quantity": st.just(1), "BagId": st.sampled_from("ab")}
    ),
)


def slots(size):
    return st.dictionaries(st.integers(0, size - 1).map(str), held)


players = st.fixed_dictionaries({place: slots(size) for place, size in SIZES.items()})


def is_filled(bag):
    return bag == "b"


def is_special(held):
    """Tell what is never merged: improved gear and bags."""
    return any(held.get("StatBuffs", ())) or held.get("BagId") not in (None, NIL)


def in_order(slots, item):
    """Return the slots of an item, by their numbers."""
    return sorted((slot for slot, held in slots.items() if held["ItemId"] == item), key=int)


def put_one(player, item, places):
    """Put one item on the first stack with room, else into the first empty slot; tell whether."""
    for place in places:
        slots = player[place]
        stacks = [s for s in in_order(slots, item) if not is_special(slots[s])]
        stacks = [slot for slot in stacks if slots[slot]["Quantity"] < LIMITS.stack]
        empty = [str(n) for n in range(SIZES[place]) if str(n) not in slots]
        for slot in [*stacks, *empty]:
            slots.setdefault(slot, {"ItemId": item, "Quantity": 0})["Quantity"] += 1
            return True
    return False


def take_one(player, item):
    """Take one item out of the first slot that has it, but no filled bag; tell whether."""
    slots = player["Inventory"]
    for slot in in_order(slots, item):
        if not is_filled(slots[slot].get("BagId")):
            slots[slot]["Quantity"] -= 1
            if not slots[slot]["Quantity"]:
                del slots[slot]
            return True
    return False


@given(players, items, st.integers(1, 260), st.booleans())
def test_a_give_is_to_put_one_item_after_the_other_if_all_have_room(
    player, item, quantity, overflow
):
    before, after = deepcopy(player), deepcopy(player)
    places = ("Inventory", "Bank")[: 1 + overflow]
    has_room = all(put_one(after, item, places) for _ in range(quantity))
    options = {"itemid": item, "quantity": quantity, "bankoverflow": overflow}
    try:
        change = give(player, **options, limits=LIMITS)
    except NoRoom:
        assert not has_room
    else:
        assert has_room
        assert {**player, **change.fields} == after
        counts = {place.lower(): count(after[place], item) for place in SIZES}
        told = {"total": sum(counts.values()), **counts}
        assert change.answer == {"id": item, "quantity": told}
    assert player == before, "a rule does not touch what it is given"


@given(players, items, st.integers(1, 25))
def test_a_take_is_to_take_one_item_after_the_other_if_there_are_as_many(player, item, quantity):
    before, after = deepcopy(player), deepcopy(player)
    are_enough = all(take_one(after, item) for _ in range(quantity))
    try:
        change = take(player, itemid=item, quantity=quantity, is_filled=is_filled)
    except (NotEnoughItems, BagNotEmpty):
        assert not are_enough
    else:
        assert are_enough
        assert {**player, **change.fields} == after
        assert change.answer == {"ItemId": item, "Quantity": quantity}
    assert player == before, "a rule does not touch what it is given"


def test_slots_are_ordered_by_number_and_not_by_text():
    stack = {"ItemId": POTION, "Quantity": 5}
    player = {"Inventory": {"10": stack, "2": stack}, "Bank": {}}
    more = give(player, itemid=POTION, quantity=1, limits=LIMITS).fields["Inventory"]
    fewer = take(player, itemid=POTION, quantity=1).fields["Inventory"]
    quantities = [(slots["2"]["Quantity"], slots["10"]["Quantity"]) for slots in (more, fewer)]
    assert quantities == [(6, 5), (4, 5)]


def test_a_slot_that_is_no_number_is_not_read():
    """int() would raise for the first, and take some of the others; neither is a spell in one."""
    held = {"ItemId": "an item", "Quantity": 1}
    odd = ("9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", "-1", "01", "None")
    assert [slot for slot in (*odd, "7") if is_readable(slot, held)] == ["7"]
    assert known_spells(dict.fromkeys(("9" * 5000, "-1", " 2", "7"), "a spell")) == [
        {"Slot": 7, "SpellId": "a spell"}
    ]


def test_what_has_no_room_is_told_in_numbers():
    swords = {str(slot): {"ItemId": SWORD, "Quantity": 1} for slot in range(LIMITS.inventory)}
    full = {"Inventory": swords, "Bank": {}}
    with pytest.raises(NoRoom, match="inventory has no room for 5 of 5 of the item potion"):
        give(full, itemid=POTION, quantity=5, limits=LIMITS)
    with pytest.raises(NoRoom, match="inventory and the bank have no room for 1 of 111"):
        give(full, itemid=POTION, quantity=111, limits=LIMITS, bankoverflow=True)


@pytest.mark.parametrize("written", [{"StatBuffs": [0] * 5}, {"BagId": NIL}, {"BagId": None}])
def test_a_stack_that_a_game_wrote_with_empty_parts_is_plain(written):
    player = {"Inventory": {"0": {"ItemId": POTION, "Quantity": 5, **written}}, "Bank": {}}
    after = give(player, itemid=POTION, quantity=1, limits=LIMITS).fields["Inventory"]
    assert after == {"0": {"ItemId": POTION, "Quantity": 6, **written}}
    assert slot_records(player["Inventory"], 1)[0]["BagId"] is None
    left = take(player, itemid=POTION, quantity=1, is_filled=lambda _: True).fields["Inventory"]
    assert left["0"]["Quantity"] == 4


def test_a_stack_over_a_lowered_limit_is_left_as_it_is():
    player = {"Inventory": {"0": {"ItemId": SWORD, "Quantity": 50}}, "Bank": {}}
    after = give(player, itemid=SWORD, quantity=1, limits=LIMITS).fields["Inventory"]
    assert after == {"0": {"ItemId": SWORD, "Quantity": 50}, "1": {"ItemId": SWORD, "Quantity": 1}}


# How slots are stored and served

guids = st.uuids().map(str).filter(lambda guid: guid != NIL)
stored_slots = st.fixed_dictionaries(
    {"ItemId": guids, "Quantity": st.integers(1, 1_000_000)},
    optional={
        "BagId": guids,
        "StatBuffs": st.lists(st.integers(-9, 9), min_size=5, max_size=5).filter(any),
    },
)
inventories = st.dictionaries(st.integers(0, 34).map(str), stored_slots)


@given(inventories)
def test_what_is_stored_comes_back_from_what_is_served(slots):
    field = SlotMap(35, 1_000_000)
    assert field.deserialize(slot_records(slots, 35)) == slots
    assert field.deserialize(filled(slots)) == slots


def test_a_slot_beyond_a_lowered_size_is_not_hidden():
    slots = slot_records({"4000": {"ItemId": "x", "Quantity": 1}}, 35)
    assert [slot["Slot"] for slot in slots] == [*range(35), 4000]
