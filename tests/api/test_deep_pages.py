"""Pages far down a long list, on the real server: found from a known start, not by counting."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.paging import Window
from app.players.store import ORDERS, Players
from app.storage import page_starts
from app.users.store import ORDERS as USER_ORDERS
from app.users.store import Users
from tests.factories import make_player, make_user

SIZE = 7


@pytest.fixture
def deep(monkeypatch):
    """Every page is far down."""
    monkeypatch.setattr("app.storage.pages.DEEP", 0)


@pytest.fixture
def workers(deep, real_storage, real_db):
    """Two workers, which know nothing of each other but what the database holds."""
    return [Players(real_storage, 0, 0.0) for _ in range(2)]


def add_players(db, names):
    rng = random.Random(1)
    moments = [None, *(datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3))]
    players = [
        make_player(
            Name=name,
            Level=rng.randrange(4),
            Exp=rng.randrange(3),
            LastOnline=rng.choice(moments),
        )
        for name in names
    ]
    db.players.insert_many(players)
    return players


def walk(workers, order, ascending, size=SIZE, between=lambda: None):
    seen = []
    for page in range(1000):
        worker = random.choice(workers)
        found = worker.list(Window(page, size, size), None, order, ascending)
        if not found.values:
            return seen
        seen += [player["Name"] for player in found.values]
        between()
    raise AssertionError("the walk does not end")


@pytest.mark.parametrize(("order", "ascending"), ORDERS)
def test_a_walk_sees_each_record_once_and_in_order(workers, real_db, order, ascending):
    add_players(real_db, [f"Player {number:03}" for number in range(60)])
    sort = ORDERS[order, ascending].sort
    expected = [player["Name"] for player in real_db.players.find().sort(list(sort))]
    assert walk(workers, order, ascending) == expected
    assert walk(workers, order, ascending, size=11) == expected


@pytest.mark.parametrize(("order", "ascending"), USER_ORDERS)
def test_a_walk_over_users_likewise(deep, real_storage, real_db, order, ascending):
    real_db.users.insert_many([make_user() for _ in range(30)])
    users = Users(real_storage)
    sort = USER_ORDERS[order, ascending].sort
    expected = [user["Name"] for user in real_db.users.find().sort(list(sort))]
    pages = [users.list(Window(page, 4, 4), None, order, ascending) for page in range(8)]
    assert [user["Name"] for page in pages for user in page.values] == expected
    assert all("EmailKey" not in user for page in pages for user in page.values)


def test_what_is_read_to_find_the_next_start_is_not_served(workers, real_db):
    add_players(real_db, [f"Player {number:03}" for number in range(20)])
    for player in workers[0].list(Window(1, SIZE, SIZE)).values:
        assert "NameKey" not in player
        assert "Level" in player


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), ascending=st.booleans())
def test_who_stays_is_seen_once_while_others_come_and_go(workers, real_db, seed, ascending):
    rng = random.Random(seed)
    for name in ("players", "page_starts"):
        real_db[name].delete_many({})
    staying = {f"stays {rng.random()}" for _ in range(60)}
    add_players(real_db, [*staying, *(f"goes {rng.random()}" for _ in range(20))])

    def come_and_go():
        if rng.random() < 0.5:
            add_players(real_db, [f"{rng.choice('asz')} comes {rng.random()}"])
        if rng.random() < 0.3:
            real_db.players.delete_one({"NameKey": {"$regex": "^goes"}})

    seen = walk(workers, "name", ascending, between=come_and_go)
    assert sorted(name for name in seen if name in staying) == sorted(staying)


def test_a_page_from_elsewhere_is_counted_anew_when_something_has_come(workers, real_db):
    add_players(real_db, [f"Player {number:03}" for number in range(60)])
    walk(workers, "name", True)
    add_players(real_db, ["A first"])
    later = datetime.now(timezone.utc) - page_starts.WALK - timedelta(seconds=1)
    real_db.page_starts.update_many({}, {"$set": {"At": later}})
    names = [player["Name"] for player in workers[1].list(Window(3, SIZE, SIZE)).values]
    assert names == [f"Player {number:03}" for number in range(20, 27)]


def test_a_page_that_a_limit_cuts_is_followed_by_the_right_one(workers, real_db):
    add_players(real_db, [f"Player {number:03}" for number in range(60)])
    cut = workers[0].list(Window(2, SIZE, 3)).values
    whole = workers[0].list(Window(3, SIZE, SIZE)).values
    assert [player["Name"] for player in cut] == ["Player 014", "Player 015", "Player 016"]
    assert whole[0]["Name"] == "Player 021"


def test_pages_are_read_also_where_their_starts_cannot_be_kept(workers, real_db, caplog):
    add_players(real_db, [f"Player {number:03}" for number in range(20)])
    real_db.command("collMod", "page_starts", validator={"never": "true"})
    try:
        names = walk(workers, "name", True)
    finally:
        real_db.command("collMod", "page_starts", validator={})
    assert names == [f"Player {number:03}" for number in range(20)]
    assert "cannot be remembered" in caplog.text
