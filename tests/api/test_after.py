"""Walks through lists by cursor: GET ...?after=, and then the Next of each answer."""

import random
from datetime import datetime, timezone

import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from app.core.errors import Invalid
from app.core.paging import Window
from app.core.permissions import Role
from app.http.cursors import Cursors
from app.players.store import ORDERS, Players
from tests.factories import make_player

PLAYERS, RANK, USERS = "/api/v1/players", "/api/v1/players/rank", "/api/v1/users"
NAMES = ["anna", "Bert", "Çelik", "dora", "Émile", "françois", "玩家一号", "Ω anna", "😀😀😀"]
MOMENTS = [None, *(datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3))]


@pytest.fixture
def get(caller):
    send = caller("", *Role).get
    return lambda path, **query: send(path, **query).json


@pytest.fixture
def crowd(world):
    """Players of any script, level and last time, some of whom were never online."""
    rng = random.Random(1)
    for name in NAMES:
        level, moment = rng.randrange(3), rng.choice(MOMENTS)
        world.add_player(Name=name, Level=level, Exp=rng.randrange(2), LastOnline=moment)
        world.add_user(Name=name.replace(" ", ""))


def walk(get, path, **query):
    """Return the names that a walk sees, and how many calls that took."""
    seen, after = [], ""
    for calls in range(1, 1000):
        page = get(path, after=after, **query)
        assert (page["Page"], page["Count"]) == (0, len(page["Values"]))
        seen += [record["Name"] for record in page["Values"]]
        if page["Next"] is None:
            return seen, calls
        after = page["Next"]
    raise AssertionError("the walk does not end")


LISTS = [
    *((PLAYERS, {"sortBy": order}) for order in ("name", "level", "lastonline")),
    *((USERS, {"sortBy": order}) for order in ("name", "email")),
    (PLAYERS, {"sortBy": "level", "search": "ann"}),
    (RANK, {}),
]


@pytest.mark.parametrize(("path", "query"), LISTS)
@pytest.mark.parametrize("direction", ["Ascending", "Descending"])
def test_a_walk_is_the_list_by_page_numbers(get, crowd, path, query, direction):
    query = {**query, "sortDirection": direction}
    whole = [record["Name"] for record in get(path, pageSize=100, **query)["Values"]]
    assert len(whole) >= (2 if "search" in query else len(NAMES))
    for size in (1, 4, len(whole)):
        assert walk(get, path, pageSize=size, **query) == (whole, -(-len(whole) // size))


def test_a_limit_cuts_the_page_and_next_goes_on_right_after_it(get, crowd):
    first = get(PLAYERS, after="", pageSize=5, limit=2)
    second = get(PLAYERS, after=first["Next"], pageSize=5, limit=2)
    assert (first["PageSize"], first["Count"]) == (5, 2)
    names = [player["Name"] for player in first["Values"] + second["Values"]]
    assert names == ["anna", "Bert", "dora", "françois"]


def test_a_longest_name_still_fits_into_a_path(get, world):
    for number in range(3):
        world.add_player(Name=str(number) + "\U0001f600" * 254)
    assert len(get(PLAYERS, after="", pageSize=1)["Next"]) < 2000
    assert len(walk(get, PLAYERS, pageSize=1)[0]) == 3


def test_a_cursor_outlives_a_change_of_the_key_and_no_edit():
    """A walk may be under way when the key is changed, as a token may be in use."""
    old, new = Cursors(["old" * 12]), Cursors(["new" * 12, "old" * 12])
    cursor = old.write(b"places")
    assert new.read(cursor) == b"places"
    assert (new.write(None), old.read("")) == (None, b"")
    edits = [
        cursor[:place] + ("A" if letter != "A" else "B") + cursor[place + 1 :]
        for place, letter in enumerate(cursor)
    ]
    for edited in (*edits, cursor + "A", cursor[:-1]):
        with pytest.raises(Invalid):
            new.read(edited)


# What follows is about documents that only the real server sorts as they are.


@pytest.fixture
def players(real_storage, real_db):
    return Players(real_storage, 0, 0.0)


def stepwise(players, order, ascending, size, search=None):
    """Return the names that a walk through a store sees."""
    seen, after = [], b""
    for _ in range(2000):
        page = players.list(Window(0, size, size, after), search, order, ascending)
        seen += [record["Name"] for record in page.values]
        if page.next is None:
            return seen
        after = page.next
    raise AssertionError("the walk does not end")


def in_order(db, order, ascending):
    sort = list(ORDERS[order, ascending].sort)
    return [document["Name"] for document in db.players.find({}, ["Name"]).sort(sort)]


ODD = [
    *({"Level": value} for value in ("high", True, 1.5, MOMENTS[1], -3, 2**40)),
    *({"LastOnline": value} for value in ("2026-01-01", 5, False)),
    *({"Exp": value} for value in (None, "much", 10**15)),
    # These are sound, though Python has no such dates; two of each are served as the same.
    *({"LastOnline": DatetimeMS(far + n)} for far in (2**52, -(2**52)) for n in (0, 0, 1)),
]
MISSING = [("Level",), ("Exp",), ("LastOnline",), ("LastOnline",), ("NameKey",), ("Level", "Exp")]


def lacking(fields, **known):
    return {name: value for name, value in make_player(**known).items() if name not in fields}


@pytest.mark.parametrize(("order", "ascending"), ORDERS)
def test_documents_that_only_a_game_would_store_are_walked_too(players, real_db, order, ascending):
    crowd = [*({**make_player(), **odd} for odd in ODD), *map(lacking, MISSING)]
    crowd += [make_player(Level=level, LastOnline=when) for level in (0, 1) for when in MOMENTS]
    real_db.players.insert_many(crowd, bypass_document_validation=True)
    for size in (1, 4):
        assert stepwise(players, order, ascending, size) == in_order(real_db, order, ascending)


NOWHERE = [
    *({"Level": value} for value in (float("nan"), Decimal128("NaN"), [], [3, 9], [[1]])),
    *({"Exp": value} for value in (float("nan"), [5, 500])),
    *({"LastOnline": value} for value in (float("nan"), [MOMENTS[1], None])),
    *({"NameKey": value} for value in ({"$x": 1}, 7)),
]


@pytest.mark.parametrize(("order", "ascending"), ORDERS)
def test_what_stands_in_no_place_or_in_many_leads_nobody_astray(players, real_db, order, ascending):
    sound = [
        make_player(Name=f"Sound {level} {n}", Level=level, Exp=n, LastOnline=MOMENTS[n])
        for level in range(6)
        for n in range(2)
    ]
    odd = [{**make_player(), **values, "Name": f"Unsound {n}"} for n, values in enumerate(NOWHERE)]
    real_db.players.insert_many([*sound, *odd], bypass_document_validation=True)
    expected = [name for name in in_order(real_db, order, ascending) if name.startswith("Sound")]
    for search in (None, "sound"):
        for size in (1, 4):
            seen = stepwise(players, order, ascending, size, search)
            assert [name for name in seen if name.startswith("Sound")] == expected


def test_a_search_walks_over_what_is_missing_too(players, real_db):
    crowd = [
        lacking(() if n % 4 else ("LastOnline",), Name=f"Number {n:02}", Level=n % 3)
        for n in range(30)
    ]
    real_db.players.insert_many(crowd, bypass_document_validation=True)
    for order, ascending in ORDERS:
        seen = stepwise(players, order, ascending, 4, search="number")
        assert seen == in_order(real_db, order, ascending)
