"""The smallest update that makes one document the other."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.changes import differences
from app.storage.changes import update_of


@pytest.mark.parametrize(
    ("old", "new"), [([1], [True]), ([1], [1.0]), (1, 1.0), ([[0]], [[False]])]
)
def test_what_is_equal_in_python_alone_is_a_change(old, new):
    assert difference({"A": old}, {"A": new}) == {"$set": {"A": new}}
    assert difference({"A": new}, {"A": new}) == {}


def difference(old, new):
    return update_of(old, new, list(differences(old, new)))


values = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda children: st.dictionaries(st.sampled_from("abcd"), children, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("ABC"), values, max_size=3)


@given(documents, documents)
def test_the_difference_makes_one_document_the_other(old, new):
    after = applied(difference(old, new), old)
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
