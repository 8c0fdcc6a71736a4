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


def given_to(player, item, quantity, overflow):
    """Give, and return the player afterwards with the answer; None where there is no room."""
    before = deepcopy(player)
    try:
        change = give(player, itemid=item, quantity=quantity, limits=LIMITS, bankoverflow=overflow)
    except NoRoom:
        return None
    finally:
        assert player == before, "a rule does not touch what it is given"
    return {**player, **change.fields}, change.answer


def taken_from(player, item, quantity):
    before = deepcopy(player)
    try:
        change = take(player, itemid=item, quantity=quantity, is_filled=is_filled)
    except (NotEnoughItems, BagNotEmpty):
        return None
    finally:
        assert player == before, "a rule does not touch what it is given"
    return {**player, **change.fields}, change.answer


def everything(player):
    kinds = (SWORD, POTION, BAG)
    return {kind: count(player["Inventory"], kind) + count(player["Bank"], kind) for kind in kinds}


def special(player):
    """Return what never merges: improved gear and bags, each in its slot."""
    return {
        (place, slot): held
        for place in ("Inventory", "Bank")
        for slot, held in player[place].items()
        if is_special(held)
    }


def is_special(held):
    """Tell what a stack never is, as the issue says it and not as the rule does."""
    return any(held.get("StatBuffs", ())) or held.get("BagId") not in (None, NIL)


def plain_slots(part, item):
    """Return the slots of plain stacks of an item, in slot order."""
    found = [int(slot) for slot, h in part.items() if h["ItemId"] == item and not is_special(h)]
    return [str(slot) for slot in sorted(found)]


@given(players, items, st.integers(1, 260), st.booleans())
def test_a_give_adds_exactly_what_was_given_or_changes_nothing(player, item, quantity, overflow):
    result = given_to(player, item, quantity, overflow)
    if result is None:
        return
    after, answer = result
    expected = {**everything(player), item: everything(player)[item] + quantity}
    assert everything(after) == expected
    assert answer == {
        "id": item,
        "quantity": {
            "total": expected[item],
            "bank": count(after["Bank"], item),
            "inventory": count(after["Inventory"], item),
        },
    }


@given(players, items, st.integers(1, 260), st.booleans())
def test_a_give_is_refused_only_if_there_is_no_room(player, item, quantity, overflow):
    room = 0
    for place in ("Inventory", "Bank")[: 1 + overflow]:
        part = player[place]
        stacks = [part[slot]["Quantity"] for slot in plain_slots(part, item)]
        room += sum(LIMITS.stack - quantity for quantity in stacks)
        room += LIMITS.stack * (SIZES[place] - len(part))
    assert (given_to(player, item, quantity, overflow) is None) == (room < quantity)


@given(players, items, st.integers(1, 260), st.booleans())
def test_stacks_stay_within_their_limit_and_gear_and_bags_are_never_merged(
    player, item, quantity, overflow
):
    result = given_to(player, item, quantity, overflow)
    if result is None:
        return
    after, _ = result
    assert special(after) == special(player)
    for place, size in SIZES.items():
        assert all(0 <= int(slot) < size for slot in after[place])
        assert all(1 <= held["Quantity"] <= LIMITS.stack for held in after[place].values())


@given(players, items, st.integers(1, 260))
def test_the_bank_is_touched_only_when_wanted_and_only_after_the_inventory(player, item, quantity):
    without = given_to(player, item, quantity, False)
    with_bank = given_to(player, item, quantity, True)
    if without is not None:
        assert without == with_bank
        assert without[0]["Bank"] == player["Bank"]
    elif with_bank is not None:
        after = with_bank[0]["Inventory"]
        assert len(after) == LIMITS.inventory
        assert {after[slot]["Quantity"] for slot in plain_slots(after, item)} <= {LIMITS.stack}


@given(players, items, st.integers(1, 25))
def test_a_take_removes_exactly_what_was_taken_or_changes_nothing(player, item, quantity):
    result = taken_from(player, item, quantity)
    if result is None:
        return
    after, answer = result
    assert answer == {"ItemId": item, "Quantity": quantity}
    assert everything(after) == {**everything(player), item: everything(player)[item] - quantity}
    assert after["Bank"] == player["Bank"]
    assert all(held["Quantity"] >= 1 for held in after["Inventory"].values())


@given(players, items, st.integers(1, 25))
def test_a_take_is_refused_only_if_the_inventory_holds_too_little(player, item, quantity):
    free = sum(
        held["Quantity"]
        for held in player["Inventory"].values()
        if held["ItemId"] == item and held.get("BagId") != "b"
    )
    assert (taken_from(player, item, quantity) is None) == (free < quantity)


@given(players, items, st.integers(1, 25))
def test_a_take_goes_in_slot_order(player, item, quantity):
    result = taken_from(player, item, quantity)
    if result is None:
        return
    before, after = player["Inventory"], result[0]["Inventory"]
    touched = sorted(int(slot) for slot in before if before[slot] != after.get(slot))
    emptied = [slot for slot in touched if str(slot) not in after]
    assert touched[: len(touched) - 1] == emptied[: len(touched) - 1]
    passed_over = [
        int(slot)
        for slot, held in before.items()
        if held["ItemId"] == item and int(slot) < touched[-1] and int(slot) not in touched
    ]
    assert all(before[str(slot)].get("BagId") == "b" for slot in passed_over)


@given(players, st.sampled_from([SWORD, POTION]), st.integers(1, 25))
def test_a_give_followed_by_a_take_of_the_same_restores_the_counts(player, item, quantity):
    result = given_to(player, item, quantity, False)
    if result is not None:
        assert everything(taken_from(result[0], item, quantity)[0]) == everything(player)


@given(players, items, st.integers(1, 260))
def test_filling_starts_with_stacks_and_goes_on_with_the_first_empty_slots(player, item, quantity):
    result = given_to(player, item, quantity, False)
    if result is None:
        return
    before, after = player["Inventory"], result[0]["Inventory"]
    new = sorted(int(slot) for slot in after if slot not in before)
    empty = [slot for slot in range(LIMITS.inventory) if str(slot) not in before]
    assert new == empty[: len(new)]
    stacks = plain_slots(before, item)
    if new:
        assert {after[slot]["Quantity"] for slot in stacks} <= {LIMITS.stack}
    grown = [slot for slot in stacks if after[slot] != before[slot]]
    # All that come before the last one that grew are full: they were filled in slot order.
    if grown:
        earlier = stacks[: stacks.index(grown[-1])]
        assert {after[slot]["Quantity"] for slot in earlier} <= {LIMITS.stack}


def test_slots_are_ordered_by_number_and_not_by_text():
    stack = {"ItemId": POTION, "Quantity": 5}
    player = {"Inventory": {"10": stack, "2": stack}, "Bank": {}}
    given = give(player, itemid=POTION, quantity=1, limits=LIMITS).fields["Inventory"]
    assert (given["2"]["Quantity"], given["10"]["Quantity"]) == (6, 5)
    taken = take(player, itemid=POTION, quantity=1, is_filled=is_filled).fields["Inventory"]
    assert (taken["2"]["Quantity"], taken["10"]["Quantity"]) == (4, 5)


def test_a_slot_that_is_no_number_is_not_read():
    """int() would raise for the first, and take some of the others."""
    held = {"ItemId": "an item", "Quantity": 1}
    odd = ("9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", "-1", "01", "None")
    assert [slot for slot in (*odd, "7") if is_readable(slot, held)] == ["7"]


def test_what_has_no_room_is_told_in_numbers():
    swords = {str(slot): {"ItemId": SWORD, "Quantity": 1} for slot in range(LIMITS.inventory)}
    full = {"Inventory": swords, "Bank": {}}
    with pytest.raises(NoRoom, match="inventory has no room for 5 of 5 of the item potion"):
        give(full, itemid=POTION, quantity=5, limits=LIMITS)
    with pytest.raises(NoRoom, match="inventory and the bank have no room for 1 of 111"):
        give(full, itemid=POTION, quantity=111, limits=LIMITS, bankoverflow=True)


def test_a_bag_that_holds_something_is_not_taken_and_an_empty_one_is():
    bag = {"ItemId": BAG, "Quantity": 1}
    player = {"Inventory": {"0": {**bag, "BagId": "b"}, "1": {**bag, "BagId": "a"}}}
    after = take(player, itemid=BAG, quantity=1, is_filled=is_filled).fields["Inventory"]
    assert list(after) == ["0"]
    with pytest.raises(BagNotEmpty, match=r"bag b .* is not empty"):
        take(player, itemid=BAG, quantity=2, is_filled=is_filled)
    with pytest.raises(NotEnoughItems, match="holds 2 of the item bag, not 3"):
        take(player, itemid=BAG, quantity=3, is_filled=is_filled)


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


@given(inventories)
def test_all_slots_are_served_in_order_with_the_empty_ones(slots):
    records = slot_records(slots, 35)
    assert [record["Slot"] for record in records] == list(range(35))
    empty = [r["Slot"] for r in records if r["ItemId"] == NIL and r["Quantity"] == 0]
    assert len(empty) == 35 - len(slots)
    assert all(len(record["StatBuffs"]) == 5 for record in records)


def test_a_slot_beyond_a_lowered_size_is_not_hidden():
    slots = slot_records({"4000": {"ItemId": "x", "Quantity": 1}}, 35)
    assert [slot["Slot"] for slot in slots] == [*range(35), 4000]
