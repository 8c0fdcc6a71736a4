"""Invalid documents are found, and a repair is idempotent and changes nothing else."""

from copy import deepcopy
from datetime import datetime, timezone

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from app.maintenance.demo.world import World
from app.maintenance.integrity.kinds import faults, repair_document
from app.maintenance.transfer.records import RECORDS
from app.players.items.domain import is_empty
from config.base import Testing
from tests.broken_documents import APPLE, EMPTY, ITEM, NIL
from tests.factories import NOW

SIZES = {name: getattr(Testing, name) for name in dir(Testing) if name.isupper()}
KINDS = ("players", "users", "bags")
RECORD = {name: RECORDS[name](SIZES) for name in KINDS}
UNEXPECTED_VALUES = [
    *(None, "", "x", "A" * 8, -1, 0, 2**31, 2**40, 1.5, 5.0, float("nan"), True, [], [1], ["x"]),
    *({}, {"a": 1}, {"0": 1}, EMPTY, APPLE, {"0": EMPTY}, NIL, NOW, b"bytes"),
    *(ObjectId(), Int64(3), Decimal128("1.5")),
]
DERIVED = {"NameKey", "NameTails", "EmailKey"}
PLACES = ("Inventory", "Bank", "Slots")


def valid_documents():
    world = World(3, datetime(2026, 1, 1, tzinfo=timezone.utc), None)
    found = {"players": world.players(14), "users": world.users(), "bags": world.bags(14)}
    return [(kind, document) for kind, documents in found.items() for document in documents]


VALID = valid_documents()


def paths_of(value, path=()):
    """Yield the path of every value in a document, the document itself included."""
    yield path
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from paths_of(inner, (*path, name))


@st.composite
def altered_documents(draw):
    """A valid document in which up to three values were replaced, removed or added."""
    kind, document = draw(st.sampled_from(VALID))
    document = deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from([path for path in paths_of(document) if path]))
        parent = document
        for name in parents:
            parent = parent[name]
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "remove":
            del parent[last]
        else:
            name = last if action == "replace" else draw(st.sampled_from(["0", "36", "x", "a.b"]))
            parent[name] = deepcopy(draw(st.sampled_from(UNEXPECTED_VALUES)))
    document.setdefault("_id", "x")
    return kind, document


@pytest.mark.parametrize(("kind", "document"), VALID)
def test_a_valid_document_has_no_fault_and_its_repair_changes_nothing(kind, document):
    assert faults(kind, document, RECORD[kind]) == []
    assert repair_document(kind, document) == document


@given(altered_documents())
def test_a_repair_loses_no_item_breaks_no_shape_and_is_idempotent(kind_and_document):
    kind, document = kind_and_document
    after = repair_document(kind, deepcopy(document))
    assert repr(repair_document(kind, deepcopy(after))) == repr(after)
    # Not an exception, whatever is stored.
    faults(kind, document, RECORD[kind])
    faulty = {fault.where.split(".")[0] for fault in faults(kind, document, None)}
    assert {fault.where.split(".")[0] for fault in faults(kind, after, None)} <= faulty
    for field in PLACES:
        if isinstance(document.get(field), dict):
            assert repr(filled_slots(after[field])) == repr(filled_slots(document[field]))
    for name in document.keys() - DERIVED - set(PLACES):
        assert repr(after[name]) == repr(document[name])


def filled_slots(slots):
    """Return the slots that are not empty."""
    return {
        number: slot
        for number, slot in slots.items()
        if not (isinstance(slot, dict) and slot.items() >= EMPTY.items())
    }


def test_a_slot_with_any_further_value_is_not_empty():
    assert is_empty({**EMPTY, "BagId": NIL, "StatBuffs": [0] * 5})
    for further in ({"BagId": ITEM}, {"StatBuffs": [1, 0, 0, 0, 0]}, {"Colour": "red"}):
        assert not is_empty({**EMPTY, **further})
