"""Pages by number far down a long list, on the real server: what a fresh count gives, always."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from itertools import product

import pymongo
import pytest

from app.core.paging import Window
from app.players.store import ORDERS, Players
from app.storage.client import LONG_WORK_SECONDS
from app.storage.paging.pages import Pages
from tests.factories import make_player
from tests.tiers import some

SIZE = 100


@pytest.fixture
def players(real_storage, real_db):
    return Players(real_storage, 0, 0.0)


def add_players(db, count):
    rng = random.Random(1)
    moments = [None, *(datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3))]
    made = [
        make_player(
            Name=f"Player {number:05}",
            Level=rng.randrange(1, 40),
            Exp=rng.randrange(1000),
            LastOnline=rng.choice(moments),
        )
        for number in range(count)
    ]
    # The time of a request is not enough for so many on a busy machine.
    with pymongo.timeout(LONG_WORK_SECONDS):
        db.players.insert_many(made)


def expected(collection, sort):
    return [document["Name"] for document in collection.find({}, ["Name"]).sort(list(sort))]


def page_of(players, page, order="level", ascending=False):
    values = players.list(Window(page, SIZE, SIZE), None, order, ascending).values
    return [player["Name"] for player in values]


def pages_of(names):
    return [names[start : start + SIZE] for start in range(0, len(names), SIZE)]


@pytest.mark.parametrize(("order", "ascending"), some(ORDERS, 2))
def test_all_pages_together_are_the_whole_list(players, real_db, order, ascending):
    add_players(real_db, 2500)
    right = pages_of(expected(real_db.players, ORDERS[order, ascending].sort))
    assert [page_of(players, page, order, ascending) for page in range(25)] == right
    assert page_of(players, 25, order, ascending) == []


def test_a_player_whom_mongodb_meets_twice_on_a_page_is_served_once(players, real_db, monkeypatch):
    """As it does with one that is moved on during the read, if it is at the right moment."""
    add_players(real_db, 120)
    right, find = expected(real_db.players, ORDERS["level", False].sort), Pages._find

    def meet_one_twice(*args):
        found = find(*args)
        return [*found[:-1], found[0]]

    monkeypatch.setattr(Pages, "_find", meet_one_twice)
    assert page_of(players, 0) == right[: SIZE - 1]


RISE = ({"$set": {"Level": 50}}, [0, 2, 3, 50])
GO = (None, [0, 2, 3])


@pytest.mark.parametrize("after", [None, b""])
@pytest.mark.parametrize(("update", "served"), [RISE, GO])
def test_who_moves_or_goes_between_choosing_and_reading_is_served_once_or_not(
    players, real_db, monkeypatch, after, update, served
):
    real_db.players.insert_many(make_player(Name=f"Number {n}", Level=n) for n in range(10))
    find, first = Pages._find, {"Name": "Number 1"}

    def find_and_change(pages, collection, where, fields, *args):
        found = find(pages, collection, where, fields, *args)
        # Only the read that chooses the keys of a page leaves the ids out.
        if fields.get("_id") == 0:
            real_db.players.update_one(first, update) if update else real_db.players.delete_one(
                first
            )
        return found

    monkeypatch.setattr(Pages, "_find", find_and_change)
    page = players.list(Window(0, 4, 4, after), "number", "level", True)
    assert [player["Level"] for player in page.values] == served


# Spread over the names, at their end, and too rare to look for among all of them.
@pytest.mark.parametrize(
    ("text", "ascending"), some(product(["x 1", "zoe", "aax 99"], [True, False]), 2)
)
def test_a_search_by_name_finds_the_same_by_either_index(players, real_db, text, ascending):
    names = [f"{kind} {number:03}" for kind in ("Abax", "Baax", "Zoex") for number in range(200)]
    real_db.players.insert_many(make_player(Name=name) for name in names)
    wanted = sorted((name for name in names if text in name.lower()), reverse=not ascending)
    by_number = [
        player["Name"]
        for page in range(len(wanted) // 3 + 1)
        for player in players.list(Window(page, 3, 3), text, "name", ascending).values
    ]
    by_cursor, after = [], b""
    while after is not None:
        page = players.list(Window(0, 3, 3, after), text, "name", ascending)
        assert page.total == len(wanted)
        by_cursor += [player["Name"] for player in page.values]
        after = page.next
    assert by_number == by_cursor == wanted
