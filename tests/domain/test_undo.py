"""The inverses of changes: what they restore, what they leave alone, and what they refuse."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.changes import SubjectKind, field_changes
from app.core.errors import Conflict
from app.core.operations import find_operation
from app.history.domain import CannotUndo, inverse_of
from app.players import spells
from app.players.domain import restore_fields
from app.players.items import undo as items
from app.players.items.domain import Limits, give, quantity_of, take
from app.players.spells import NoSpellSlot, SpellKnown, SpellNotKnown, forget, teach
from app.players.variables import domain as variables
from app.players.variables.domain import assign
from tests.factories import numbered_guid

ITEM, OTHER, BAG, SPELL = map(numbered_guid, range(1, 5))
LIMITS = Limits(inventory=6, bank=6, stack=10)
PLAYER = SubjectKind("player")
ENTRY = {"_id": "player:x:1", "Subject": {"Kind": "player"}}
undo_items = partial(items.undo, limits_of=lambda _: LIMITS, is_filled=lambda _: False)

contents = st.one_of(
    st.builds(
        lambda item, quantity: {"ItemId": item, "Quantity": quantity},
        st.sampled_from([ITEM, OTHER]),
        st.integers(1, 10),
    ),
    st.just({"ItemId": ITEM, "Quantity": 1, "StatBuffs": [1, 0, 0, 0, 0]}),
    st.just({"ItemId": ITEM, "Quantity": 1, "BagId": BAG}),
    st.just("nothing that can be read"),
)


def one_bag(player):
    bags = [
        held
        for slots in player.values()
        for held in slots.values()
        if isinstance(held, dict) and "BagId" in held
    ]
    return len(bags) < 2


slot_maps = st.dictionaries(st.integers(0, 5).map(str), contents, max_size=6)
players = st.builds(lambda i, b: {"Inventory": i, "Bank": b}, slot_maps, slot_maps).filter(one_bag)
rules = st.one_of(
    st.builds(
        lambda item, quantity, bank: partial(
            give, itemid=item, quantity=quantity, bankoverflow=bank, limits=LIMITS
        ),
        st.sampled_from([ITEM, OTHER]),
        st.integers(1, 40),
        st.booleans(),
    ),
    st.builds(
        lambda item, quantity: partial(
            take, itemid=item, quantity=quantity, is_filled=lambda _: False
        ),
        st.sampled_from([ITEM, OTHER]),
        st.integers(1, 20),
    ),
)


def applied(rule, player):
    """Return what a rule makes of a player, and the changes of its entry; None if it refuses."""
    try:
        change = rule(player)
    except Conflict:
        return None
    return {**player, **change.fields}, field_changes(PLAYER, player, change.fields)


def counts(player):
    """Count each item in inventory and bank together."""
    found = Counter()
    for slots in (player["Inventory"], player["Bank"]):
        for held in slots.values():
            if isinstance(held, dict):
                found[held["ItemId"]] += quantity_of(held)
    return found


def difference(one, other):
    """Return by item how many more the other has."""
    return {item: n for item in {*one, *other} if (n := other[item] - one[item])}


def takes_a_bag(changes):
    """Tell whether a bag was taken, which is not given back."""
    return any("BagId" in (change["Before"] or {}) for change in changes)


@given(players, rules)
def test_a_change_and_its_undo_leave_everything_as_it_was_and_the_undo_of_it_is_the_change(
    player, rule
):
    made = applied(rule, player)
    if made is None or takes_a_bag(made[1]):
        return
    after, changes = made
    undone, undo_changes = applied(partial(undo_items, changes=changes), after)
    assert undone == player
    again, _ = applied(partial(undo_items, changes=undo_changes), undone)
    assert again == after


@given(players, rules, st.lists(rules, max_size=3), st.none() | slot_maps)
def test_what_others_changed_between_stays(player, rule, others, by_game):
    """The undo changes the counts by exactly what the change had changed, or nothing at all."""
    made = applied(rule, player)
    if made is None:
        return
    after, changes = made
    moved = difference(counts(player), counts(after))
    for other in others:
        after = (applied(other, after) or (after,))[0]
    after = after if by_game is None else {**after, "Inventory": by_game}
    if one_bag(after) and (undone := applied(partial(undo_items, changes=changes), after)):
        assert difference(counts(undone[0]), counts(after)) == moved


@given(players, rules, st.lists(rules, max_size=3), st.none() | slot_maps)
def test_a_partial_undo_moves_what_it_can_and_tells_the_rest(player, rule, others, by_game):
    """It moves a part of what the change moved, and its own undo moves exactly that part back."""
    made = applied(rule, player)
    if made is None:
        return
    after, changes = made
    moved = difference(counts(player), counts(after))
    for other in others:
        after = (applied(other, after) or (after,))[0]
    after = after if by_game is None else {**after, "Inventory": by_game}
    undo = partial(undo_items, changes=changes, is_partial=True)
    if not one_bag(after) or (undone := applied(undo, after)) is None:
        return
    part = difference(counts(undone[0]), counts(after))
    assert part
    for item, quantity in part.items():
        assert 0 < quantity / moved[item] <= 1
    assert (undo(after).warning is None) == (part == moved)
    redone = applied(partial(undo_items, changes=undone[1]), undone[0])
    assert takes_a_bag(undone[1]) if redone is None else counts(redone[0]) == counts(after)


def slot(path, before, after):
    return {"Path": path, "Before": before, "After": after}


FIVE = {"ItemId": ITEM, "Quantity": 5}
GIFT = [slot("Inventory.0", None, FIVE)]


def undone_items(changes, inventory, bank=None, **options):
    player = {"Inventory": inventory, "Bank": bank or {}}
    return undo_items(player, changes=changes, **options).fields


def test_what_was_given_is_taken_where_it_lies_now():
    assert undone_items(GIFT, {"3": FIVE})["Inventory"] == {}
    assert undone_items(GIFT, {}, {"4": {**FIVE, "Quantity": 7}})["Bank"]["4"]["Quantity"] == 2


def test_what_was_spent_is_not_taken_from_somewhere_else():
    marked = {**FIVE, "StatBuffs": [1, 0, 0, 0, 0]}
    with pytest.raises(items.Spent, match=r"3 .* left, but 5 were given"):
        undone_items(GIFT, {"0": {**FIVE, "Quantity": 3}, "1": marked})


def test_what_was_taken_goes_to_where_it_was_or_the_first_place_that_fits():
    taken = [slot("Inventory.2", FIVE, None)]
    assert undone_items(taken, {})["Inventory"] == {"2": FIVE}
    full = {"2": {"ItemId": OTHER, "Quantity": 1}}
    assert undone_items(taken, full)["Inventory"]["0"] == FIVE
    stack = {**full, "4": {**FIVE, "Quantity": 9}}
    after = undone_items(taken, stack)["Inventory"]
    assert (after["4"]["Quantity"], after["0"]["Quantity"]) == (10, 4)


def test_without_room_nothing_is_given_back():
    full = {str(number): {"ItemId": OTHER, "Quantity": 1} for number in range(6)}
    with pytest.raises(Conflict, match="no room"):
        undone_items([slot("Inventory.2", FIVE, None)], full, full)


def test_a_partial_undo_says_what_is_missing():
    left = {"0": {**FIVE, "Quantity": 2}}
    for changes, inventory, bank, after, missing in (
        (GIFT, left, {}, {}, "3 of 5 of the item {} cannot be taken back: the player no longer"),
        ([slot("Inventory.0", {**FIVE, "Quantity": 9}, left["0"])], left, {}, None, ""),
        ([slot("Inventory.0", FIVE, None)], {"0": {**FIVE, "Quantity": 8}}, None, None, "3 of 5 "),
    ):
        full = {str(n): {"ItemId": OTHER, "Quantity": 1} for n in range(1, 6)}
        bank = {**full, "0": {"ItemId": OTHER, "Quantity": 1}} if bank is None else bank
        player = {"Inventory": {**inventory, **(full if bank else {})}, "Bank": bank}
        change = undo_items(player, changes=changes, is_partial=True)
        assert (change.warning or "").startswith(missing.format(ITEM))
        assert after is None or change.fields["Inventory"] == after
        assert bool(change.warning) == bool(missing)


def test_a_partial_undo_of_nothing_or_of_both_directions_is_refused():
    """To give back all that went, and take only a part of what came, would make items."""
    moved = [slot("Inventory.0", FIVE, None), slot("Bank.0", None, FIVE)]
    for changes, inventory, bank in (
        (GIFT, {}, {}),
        (moved, {}, {"0": {**FIVE, "Quantity": 2}}),
    ):
        with pytest.raises(items.Spent):
            undone_items(changes, inventory, bank, is_partial=True)


def test_a_bag_is_not_given_back():
    """Somebody else may have got it since, and only the game knows."""
    bag = {"ItemId": ITEM, "Quantity": 1, "BagId": BAG}
    with pytest.raises(items.BagIsElsewhere):
        undone_items([slot("Inventory.2", bag, None)], {})


def test_a_bag_that_holds_something_is_not_taken_back():
    bag = {"ItemId": ITEM, "Quantity": 1, "BagId": BAG}
    given = [slot("Inventory.2", None, bag)]
    assert undone_items(given, {"2": bag})["Inventory"] == {}
    with pytest.raises(Conflict, match="is not empty"):
        undone_items(given, {"2": bag}, is_filled=lambda _: True)


GEAR = {"ItemId": ITEM, "Quantity": 1, "StatBuffs": [1, 0, 0, 0, 0]}


def test_gear_does_not_stack_when_it_comes_back():
    taken = [slot("Inventory.2", GEAR, None)]
    after = undone_items(taken, {"2": GEAR, "0": GEAR})["Inventory"]
    assert after == {"2": GEAR, "0": GEAR, "1": GEAR}


def test_a_part_of_a_stack_of_gear_goes_back_to_it():
    three, two = {**GEAR, "Quantity": 3}, {**GEAR, "Quantity": 2}
    assert undone_items([slot("Inventory.2", three, two)], {"2": two})["Inventory"] == {"2": three}


def test_each_slot_gets_its_own_further_fields_back():
    first, second = {**FIVE, "Wear": 1}, {**FIVE, "Wear": 2}
    taken = [slot("Inventory.0", first, None), slot("Inventory.3", second, None)]
    assert undone_items(taken, {})["Inventory"] == {"0": first, "3": second}


@pytest.mark.parametrize("buffs", [[{"a": 1}], "text", [[1]], 7])
def test_buffs_of_any_shape_are_compared(buffs):
    odd = {**FIVE, "StatBuffs": buffs}
    assert undone_items([slot("Inventory.2", odd, None)], {})["Inventory"] == {"2": odd}


def test_a_map_that_was_missing_is_told_entry_by_entry():
    changes = field_changes(PLAYER, {}, {"Inventory": {"0": FIVE}, "Bank": {}})
    assert changes == [slot("Inventory.0", None, FIVE), slot("Bank", None, {})]


spell_maps = st.dictionaries(
    st.integers(0, 3).map(str), st.sampled_from([ITEM, OTHER, SPELL]), max_size=3
).filter(lambda known: len(set(known.values())) == len(known))


@given(spell_maps, st.sampled_from([partial(teach, size=4), forget]))
def test_a_spell_and_its_undo(known, rule):
    made = applied(partial(rule, spellid=SPELL), {"Spells": known})
    if made is None:
        return
    after, changes = made
    undone, undo_changes = applied(partial(spells.undo, changes=changes, size=4), after)
    assert undone == {"Spells": known}
    again, _ = applied(partial(spells.undo, changes=undo_changes, size=4), undone)
    assert again == after


def test_spells_that_changed_since_are_refused():
    taught, forgotten = [slot("Spells.1", None, SPELL)], [slot("Spells.1", SPELL, None)]
    with pytest.raises(SpellNotKnown):
        spells.undo({"Spells": {}}, changes=taught, size=4)
    with pytest.raises(SpellKnown):
        spells.undo({"Spells": {"3": SPELL}}, changes=forgotten, size=4)
    with pytest.raises(NoSpellSlot):
        spells.undo({"Spells": {"0": ITEM, "1": OTHER}}, changes=forgotten, size=2)
    moved = spells.undo({"Spells": {"1": OTHER}}, changes=forgotten, size=4)
    assert moved.fields["Spells"] == {"1": OTHER, "0": SPELL}


values = st.one_of(st.booleans(), st.integers(-2, 2))


@given(st.dictionaries(st.sampled_from([ITEM, OTHER]), values), values, values)
def test_a_variable_gets_its_former_value_unless_it_was_changed_since(before, value, since):
    player = {"Variables": before}
    after, changes = applied(partial(assign, variable_id=ITEM, value=value), player)
    undo = partial(restore_fields, changes=changes, changed=variables.ChangedSince)
    undone, _ = applied(undo, after)
    assert undone["Variables"] == before
    later = {"Variables": {**after["Variables"], ITEM: since}}
    is_other = (type(since), since) != (type(value), value)
    if changes and is_other:
        with pytest.raises(variables.ChangedSince):
            undo(later)


@pytest.mark.parametrize("operation", ["give", "undo", "of-an-earlier-release"])
def test_an_entry_has_the_inverse_of_its_operation_or_else_of_its_fields(operation):
    entry = {**ENTRY, "Operation": operation, "Changes": [slot("Inventory.0", None, FIVE)]}
    assert inverse_of(entry) is find_operation("give", "player").inverse


@pytest.mark.parametrize(
    ("operation", "changes", "why"),
    [
        ("register", [], "never undone"),
        ("change-password", [slot("Password", None, None)], "not kept"),
        ("grant-role", [slot("Power.Api", False, True)], "api revoke"),
        ("give", [], "not recorded"),
        ("dance", [slot("Sprite", 1, 2)], "fields that its undo does not cover"),
        ("set-level", [slot("Spells.0", None, SPELL)], "fields that its undo does not cover"),
        ("undo", [slot("Sprite", 1, 2)], "fields that its undo does not cover"),
    ],
)
def test_what_has_no_inverse_says_why(operation, changes, why):
    with pytest.raises(CannotUndo, match=why):
        inverse_of({**ENTRY, "Operation": operation, "Changes": changes})
