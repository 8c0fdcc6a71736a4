"""Every batch of a cursor takes a turn at the database, however its reader asks for it."""

from __future__ import annotations

import time

import pytest

from app.errors import Unavailable
from app.storage.bulkhead import Bulkhead, RequestBudget
from tests.factories import make_player

LONG = 60.0
READERS = {
    "a loop": lambda cursor: [document["_id"] for document in cursor],
    "next": lambda cursor: [next(cursor)["_id"] for _ in range(5)],
    "next with a default": lambda cursor: [next(cursor, None)["_id"] for _ in range(5)],
    "a list": lambda cursor: [document["_id"] for document in cursor.to_list()],
}


@pytest.fixture
def found(real_db):
    """Five players, to be read in three batches."""
    ids = sorted(player["_id"] for player in players(real_db))
    return ids, lambda: real_db.players.find({}, ["_id"], sort=[("_id", 1)], batch_size=2)


def players(db):
    made = [make_player() for _ in range(5)]
    db.players.insert_many(made)
    return made


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_cursor_is_read_within_the_visit_of_its_request(found, read):
    ids, find = found
    with RequestBudget(Bulkhead(1), LONG, time.monotonic()):
        assert read(find()) == ids


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_cursor_waits_for_its_turn(found, read):
    _, find = found
    too_old = RequestBudget(Bulkhead(0), LONG, time.monotonic() - LONG)
    with too_old, pytest.raises(Unavailable):
        read(find())


def test_the_next_batch_has_what_is_left_of_the_time(found):
    _, find = found
    with RequestBudget(Bulkhead(1), LONG, time.monotonic()):
        cursor = find()
        next(cursor), next(cursor)
    with RequestBudget(Bulkhead(1), 0.0, time.monotonic()), pytest.raises(Unavailable):
        next(cursor)
