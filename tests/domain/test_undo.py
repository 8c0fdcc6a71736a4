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


spell_maps = st.dictionaries(
    st.integers(0, 3).map(str), st.sampled_from([ITEM, OTHER, SPELL]), max_size=3
).filter(lambda known: len(set(known.values())) == len(known))
spell_rules = st.sampled_from(
    [partial(teach, size=4, spellid=SPELL), partial(forget, spellid=SPELL)]
)
changes_of_players = st.one_of(
    st.tuples(players, rules, st.just(undo_items)),
    st.tuples(
        st.builds(lambda known: {"Spells": known}, spell_maps),
        spell_rules,
        st.just(partial(spells.undo, size=4)),
    ),
)


@given(changes_of_players)
def test_a_change_and_its_undo_leave_everything_as_it_was_and_the_undo_of_it_is_the_change(case):
    player, rule, undo = case
    made = applied(rule, player)
    if made is None or takes_a_bag(made[1]):
        return
    after, changes = made
    undone, undo_changes = applied(partial(undo, changes=changes), after)
    assert undone == player
    again, _ = applied(partial(undo, changes=undo_changes), undone)
    assert again == after


@given(players, rules, st.lists(rules, max_size=3), st.none() | slot_maps, st.booleans())
def test_what_others_changed_between_stays(player, rule, others, by_game, is_partial):
    """An undo moves what the change moved or nothing, a partial one a part, and says so.

    The undo of a partial one moves exactly that part back.
    """
    made = applied(rule, player)
    if made is None:
        return
    after, changes = made
    moved = difference(counts(player), counts(after))
    for other in others:
        after = (applied(other, after) or (after,))[0]
    after = after if by_game is None else {**after, "Inventory": by_game}
    undo = partial(undo_items, changes=changes, is_partial=is_partial)
    if not one_bag(after) or (undone := applied(undo, after)) is None:
        return
    part = difference(counts(undone[0]), counts(after))
    assert (undo(after).warning is None) == (part == moved)
    if not is_partial:
        assert part == moved
        return
    assert part
    assert all(0 < quantity / moved[item] <= 1 for item, quantity in part.items())
    redone = applied(partial(undo_items, changes=undone[1]), undone[0])
    assert takes_a_bag(undone[1]) if redone is None else counts(redone[0]) == counts(after)


def slot(path, before, after):
    return {"Path": path, "Before": before, "After": after}


def held(quantity, item=ITEM, **further):
    return {"ItemId": item, "Quantity": quantity, **further}


FIVE, OTHERS = held(5), held(1, OTHER)
GEAR = {"StatBuffs": [1, 0, 0, 0, 0]}
FILLED_BAG = held(1, BagId=BAG)
GIVEN, TAKEN = slot("Inventory.0", None, FIVE), slot("Inventory.2", FIVE, None)
FULL = {str(number): OTHERS for number in range(6)}

# The changes, the inventory before their undo, and after it.
UNDONE = {
    "what was given is taken where it lies now": ([GIVEN], {"3": FIVE}, {}),
    "what was taken goes to where it was": ([TAKEN], {}, {"2": FIVE}),
    "or to the first free slot": ([TAKEN], {"2": OTHERS}, {"2": OTHERS, "0": FIVE}),
    "or to a stack first": (
        [TAKEN],
        {"2": OTHERS, "4": held(9)},
        {"2": OTHERS, "4": held(10), "0": held(4)},
    ),
    "gear does not stack": (
        [slot("Inventory.2", held(1, **GEAR), None)],
        {"2": held(1, **GEAR), "0": held(1, **GEAR)},
        {number: held(1, **GEAR) for number in "012"},
    ),
    "a part of a stack of gear goes back to it": (
        [slot("Inventory.2", held(3, **GEAR), held(2, **GEAR))],
        {"2": held(2, **GEAR)},
        {"2": held(3, **GEAR)},
    ),
    "each slot gets its own further fields": (
        [slot("Inventory.0", held(5, Wear=1), None), slot("Inventory.3", held(5, Wear=2), None)],
        {},
        {"0": held(5, Wear=1), "3": held(5, Wear=2)},
    ),
    "an empty bag is taken back": ([slot("Inventory.2", None, FILLED_BAG)], {"2": FILLED_BAG}, {}),
    **{
        f"buffs that are {buffs} are compared": (
            *([slot("Inventory.2", held(5, StatBuffs=buffs), None)], {}),
            {"2": held(5, StatBuffs=buffs)},
        )
        for buffs in ([{"a": 1}], "text", [[1]], 7)
    },
}


@pytest.mark.parametrize(("changes", "before", "after"), UNDONE.values(), ids=UNDONE)
def test_items_go_where_they_were_or_fit(changes, before, after):
    change = undo_items({"Inventory": before, "Bank": {}}, changes=changes)
    assert (change.fields["Inventory"], change.warning) == (after, None)


REFUSED = {
    "what was spent is not taken from elsewhere": (
        *([GIVEN], {"0": held(3), "1": held(5, **GEAR)}),
        *({}, items.Spent, r"3 .* left, but 5 were given"),
    ),
    "there is no room": ([TAKEN], FULL, {}, Conflict, "no room"),
    # Somebody else may have got it since, and only the game knows.
    "a bag is not given back": (
        *([slot("Inventory.2", FILLED_BAG, None)], {}),
        *({}, items.BagIsElsewhere, None),
    ),
    "a bag is not empty": (
        *([slot("Inventory.2", None, FILLED_BAG)], {"2": FILLED_BAG}),
        *({"is_filled": lambda _: True}, Conflict, "is not empty"),
    ),
    "a part of nothing": ([GIVEN], {}, {"is_partial": True}, items.Spent, None),
    # To give back all that went, and take only a part of what came, would make items.
    "a part of both directions": (
        *([slot("Bank.0", FIVE, None), GIVEN], {"0": held(2)}),
        *({"is_partial": True}, items.Spent, None),
    ),
}


@pytest.mark.parametrize(
    ("changes", "inventory", "options", "error", "why"), REFUSED.values(), ids=REFUSED
)
def test_an_undo_of_items_is_refused(changes, inventory, options, error, why):
    player = {"Inventory": inventory, "Bank": FULL if inventory is FULL else {}}
    with pytest.raises(error, match=why):
        undo_items(player, changes=changes, **options)


@pytest.mark.parametrize(
    ("changes", "inventory", "bank", "missing"),
    [
        (GIVEN, {"0": held(2)}, {}, f"3 of 5 of the item {ITEM} cannot be taken back: the player"),
        (TAKEN, {**FULL, "0": held(8)}, FULL, "3 of 5 "),
    ],
)
def test_a_partial_undo_says_what_is_missing(changes, inventory, bank, missing):
    player = {"Inventory": inventory, "Bank": bank}
    change = undo_items(player, changes=[changes], is_partial=True)
    assert change.warning.startswith(missing)


def test_a_map_that_was_missing_is_told_entry_by_entry():
    changes = field_changes(PLAYER, {}, {"Inventory": {"0": FIVE}, "Bank": {}})
    assert changes == [GIVEN, slot("Bank", None, {})]


def test_spells_that_changed_since_are_refused():
    taught, forgotten = [slot("Spells.1", None, SPELL)], [slot("Spells.1", SPELL, None)]
    for known, changes, size, error in (
        ({}, taught, 4, SpellNotKnown),
        ({"3": SPELL}, forgotten, 4, SpellKnown),
        ({"0": ITEM, "1": OTHER}, forgotten, 2, NoSpellSlot),
    ):
        with pytest.raises(error):
            spells.undo({"Spells": known}, changes=changes, size=size)
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
