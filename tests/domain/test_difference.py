"""The smallest update that makes one document the other, and what it is based on."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.update_from_difference import difference

APPLE = {"ItemId": "apple", "Quantity": 5}
PEAR = {"ItemId": "pear", "Quantity": 5}


@pytest.mark.parametrize(
    ("old", "new"), [([1], [True]), ([1], [1.0]), (1, 1.0), ([[0]], [[False]])]
)
def test_what_is_equal_in_python_alone_is_a_change(old, new):
    assert difference({"A": old}, {"A": new})[0] == {"$set": {"A": new}}
    assert difference({"A": new}, {"A": new})[0] == {}


values = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda children: st.dictionaries(st.sampled_from("abcd"), children, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("ABC"), values, max_size=3)


@given(documents, documents)
def test_the_difference_makes_one_document_the_other(old, new):
    after = applied(difference(old, new)[0], old)
    assert exactly({name: after[name] for name in new}) == exactly(new)


def applied(update, document):
    """Do what MongoDB does with $set and $unset."""
    document = deepcopy(document)
    for path, value in update.get("$set", {}).items():
        parent, last = descend(document, path)
        parent[last] = value
    for path in update.get("$unset", {}):
        parent, last = descend(document, path)
        del parent[last]
    return document


def descend(document, path):
    *parents, last = path.split(".")
    for parent in parents:
        document = document[parent]
    return document, last


def exactly(value):
    """Return a value's text, in which True is not 1 and the order of names does not matter."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize(
    ("old", "new", "based_on"),
    [
        # The quantity alone is written, and the whole slot must still be what it was.
        (
            {"0": APPLE, "1": PEAR},
            {"0": {**APPLE, "Quantity": 6}, "1": PEAR},
            {"Inventory.0": {"$eq": APPLE}},
        ),
        ({"0": APPLE}, {}, {"Inventory.0": {"$eq": APPLE}}),
        (
            {"0": APPLE},
            {"0": APPLE, "1": PEAR},
            {"Inventory.1": {"$exists": False}, "Inventory": {"$type": "object"}},
        ),
        (None, {"0": APPLE}, {"Inventory": {"$eq": None}}),
    ],
)
def test_a_change_of_slots_is_based_on_those_slots(old, new, based_on):
    assert difference({"Inventory": old}, {"Inventory": new})[1] == based_on


def test_a_map_that_is_missing_must_still_be_missing():
    assert difference({}, {"Bank": {}}) == ({"$set": {"Bank": {}}}, {"Bank": {"$exists": False}})


@given(documents, documents, documents)
def test_whatever_others_changed_of_the_same_is_noticed(old, new, theirs):
    """An update never touches what is not as it was read, entry by entry."""
    update, based_on = difference(old, new)
    if all(holds(condition, theirs, path) for path, condition in based_on.items()):
        for path in (*update.get("$set", {}), *update.get("$unset", {})):
            entry = path.split(".")[:2]
            assert exactly(found(theirs, entry)) == exactly(found(old, entry))


def holds(condition, document, path):
    """Judge a condition as MongoDB does."""
    value = found(document, path.split("."))
    ((operator, wanted),) = condition.items()
    if operator == "$exists":
        return (value is not None) == wanted
    if operator == "$type":
        return isinstance(value, dict)
    return exactly(value) == exactly(wanted)


def found(document, names):
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
