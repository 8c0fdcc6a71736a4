"""What is unsound is found, and what is mended stays what it was."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timezone

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from app.demo.world import World
from app.integrity import kinds, repairs
from app.integrity.rules import Limits
from app.items.domain import is_empty
from app.storage.schema.explain_validator import faults
from tests import broken_documents
from tests.collection_plans import PLANS
from tests.factories import NOW

LIMITS = Limits(35, 100, 35, lambda _: 1_000_000)
VERSION = 64_000
KINDS = {
    "players": (kinds.PLAYER, repairs.mended_player),
    "users": (kinds.USER, repairs.mended_user),
    "bags": (kinds.BAG, repairs.mended_bag),
}
ODD = [
    *(None, "", "x", "A" * 8, -1, 0, 2**31, 2**40, 1.5, 5.0, float("nan"), True, [], [1], ["x"]),
    *(
        {},
        {"a": 1},
        {"0": 1},
        broken_documents.EMPTY,
        broken_documents.APPLE,
        {"0": broken_documents.EMPTY},
        broken_documents.NIL,
        NOW,
    ),
    *(ObjectId(), Int64(3), Decimal128("1.5"), b"bytes"),
]


def sound_documents():
    world = World(3, datetime(2026, 1, 1, tzinfo=timezone.utc), None)
    found = {"players": world.players(14), "users": world.users(), "bags": world.bags(14)}
    return [(kind, document) for kind, documents in found.items() for document in documents]


SOUND = sound_documents()


def paths_of(value, path=()):
    """Yield the ways to everything in a document."""
    yield path
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from paths_of(inner, (*path, name))


@st.composite
def spoilt_documents(draw):
    """A sound document in which a few things were replaced, removed or added."""
    kind, document = draw(st.sampled_from(SOUND))
    document = deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from([path for path in paths_of(document) if path]))
        place = document
        for name in way:
            place = place[name]
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "remove":
            del place[last]
        else:
            name = last if action == "replace" else draw(st.sampled_from(["0", "36", "x", "a.b"]))
            place[name] = deepcopy(draw(st.sampled_from(ODD)))
    document.setdefault("_id", "x")
    return kind, document


@pytest.mark.parametrize(("kind", "document"), SOUND)
def test_a_sound_document_has_no_fault_and_is_left_as_it_is(kind, document):
    held_to, mend = KINDS[kind]
    assert kinds.findings(held_to, document, LIMITS) == []
    assert mend(document, VERSION) == document


@given(spoilt_documents())
def test_mending_makes_no_fault_and_once_is_enough(spoilt):
    kind, document = spoilt
    held_to, mend = KINDS[kind]
    mended = mend(deepcopy(document), VERSION)
    assert repr(mend(deepcopy(mended), VERSION)) == repr(mended)
    before = kinds.findings(held_to, document, LIMITS)
    about = {fault.where.split(".")[0] for fault in before}
    for fault in kinds.findings(held_to, mended, LIMITS):
        assert fault.where.split(".")[0] in about


@given(spoilt_documents())
def test_mending_keeps_every_item_and_all_that_it_does_not_derive(spoilt):
    kind, document = spoilt
    mended = KINDS[kind][1](deepcopy(document), VERSION)
    for field in ("Inventory", "Bank", "Slots"):
        if isinstance(document.get(field), dict):
            assert repr(held_in(mended[field])) == repr(held_in(document[field]))
    derived = {
        *("NameKey", "NameTails", "EmailKey", "Journal", "Version", "PasswordVersion", "Power")
    }
    for name in document.keys() - derived - {"Inventory", "Bank", "Slots"}:
        assert repr(mended[name]) == repr(document[name])


def held_in(slots):
    """Return all that lies in slots, but for nulls, which say nothing."""
    return {
        number: {k: v for k, v in held.items() if v is not None} if isinstance(held, dict) else held
        for number, held in slots.items()
        if not (isinstance(held, dict) and held.items() >= broken_documents.EMPTY.items())
    }


@pytest.mark.parametrize(
    "more", [{"BagId": broken_documents.ITEM}, {"StatBuffs": [1, 0, 0, 0, 0]}, {"Colour": "red"}]
)
def test_a_slot_of_which_anything_can_be_said_is_not_empty(more):
    assert is_empty({**broken_documents.EMPTY, "BagId": broken_documents.NIL, "StatBuffs": [0] * 5})
    assert not is_empty({**broken_documents.EMPTY, **more})


SHAPES = {kind: PLANS[kind].shape for kind in ("players", "users", "bags")}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_what_cannot_be_judged_is_a_fault_and_no_accident(name):
    for odd in ODD:
        if not isinstance(odd, dict):
            assert list(faults(SHAPES[name], odd))
