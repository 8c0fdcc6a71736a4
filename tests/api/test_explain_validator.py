"""Our words on what does not fit a validator agree with MongoDB's verdict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.players.domain import SLOTS
from app.storage.schema import shapes
from app.storage.schema.explain_validator import faults, readable
from tests.collection_plans import PLANS
from tests.domain.test_integrity_kinds import VALID, altered_documents

SHAPES = {kind: PLANS[kind].shape for kind in dict(VALID)}


@pytest.fixture(scope="module")
def scratch(real_storage):
    """A collection that takes anything."""
    yield real_storage.client["shapes"]["scratch"]
    real_storage.client.drop_database("shapes")


def refused_of(scratch, documents):
    """Return the places of the documents that MongoDB refuses."""
    scratch.delete_many({})
    scratch.insert_many(
        {"_id": number, "Kind": kind, "Document": document}
        for number, (kind, document) in enumerate(documents)
    )
    return {
        found["_id"]
        for kind, shape in SHAPES.items()
        for found in scratch.find(
            {"Kind": kind, "$nor": [{"$jsonSchema": {"properties": {"Document": shape}}}]}
        )
    }


def test_faults_are_found_exactly_where_mongodb_refuses(scratch):
    @settings(max_examples=40)
    @given(st.lists(altered_documents(), min_size=5, max_size=25))
    def agrees(altered):
        refused = refused_of(scratch, altered)
        for number, (kind, document) in enumerate(altered):
            found = list(faults(SHAPES[kind], document))
            assert bool(found) == (number in refused), (document, found)

    agrees()


WORDS = [
    (shapes.COUNT, "5", "is a text, not a whole number"),
    (shapes.MOMENT_OR_NULL, 5, "is a whole number, not a time or null"),
    (shapes.STAMP, None, "is null, not an ObjectId"),
    (shapes.GUID, "A", "is not a lower-case guid"),
    (SLOTS, {"x": {}}, "is not allowed there"),
    (SLOTS, {"0": {"ItemId": "x"}}, "is missing"),
]


def test_a_fault_is_said_in_words():
    for shape, value, what in WORDS:
        assert what in [fault.what for fault in faults(shape, value, "Field")]


ODD = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(
    ODD | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=9,
)


@given(st.data())
def test_whatever_is_stored_is_read_as_the_validator_describes_it(data):
    shape = PLANS[data.draw(st.sampled_from(["users", "roles", "guilds", "actions"]))].shape
    fields = data.draw(st.lists(st.sampled_from([*shape["properties"]]), unique=True))
    stored = {field: data.draw(VALUES) for field in fields}
    read = readable(shape, stored, data.draw(st.lists(st.sampled_from(shape["required"]))))
    left = {fault.what for fault in faults({**shape, "required": []}, read)}
    # Flags and texts are what they are.
    assert not [what for what in left if "true or false" not in what and "guid" not in what]
    assert readable(shape, read, ()) == read
