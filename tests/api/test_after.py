"""Walks through lists by cursor: GET ...?after=, and then the Next of each answer."""

import random
from datetime import datetime, timezone

import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from app.core.paging import Window
from app.core.permissions import Role
from app.http.cursors import Cursors
from app.players.store import ORDERS, Players
from tests.factories import make_player
from tests.tiers import some

PLAYERS, RANK, USERS = "/api/v1/players", "/api/v1/players/rank", "/api/v1/users"
NAMES = [
    "anna",
    "Bert",
    "Çelik",
    "dora",
    "Émile",
    "françois",
    "Gert",
    "玩家一号",
    "Ω anna",
    "😀😀😀",
]
MOMENTS = [None, *(datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3))]
DIRECTIONS = ["Ascending", "Descending"]


@pytest.fixture
def get(caller):
    send = caller("", *Role).get

    def get(path, status=200, **query):
        response = send(path, **query)
        assert response.status_code == status, response.json
        return response.json

    return get


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
        assert list(page) == ["Total", "Page", "PageSize", "Count", "Values", "Next"]
        assert page["Page"] == 0
        assert page["Count"] == len(page["Values"])
        seen += [record["Name"] for record in page["Values"]]
        if page["Next"] is None:
            return seen, calls
        after = page["Next"]
    raise AssertionError("the walk does not end")


def listed(get, path, **query):
    return [record["Name"] for record in get(path, pageSize=100, **query)["Values"]]


SORTS = [
    *((PLAYERS, {"sortBy": order}) for order in ("name", "level", "lastonline")),
    *((USERS, {"sortBy": order}) for order in ("name", "email")),
    (RANK, {}),
]


@pytest.mark.parametrize(("path", "query"), SORTS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_walk_is_the_list_by_page_numbers(get, crowd, path, query, direction):
    query = {**query, "sortDirection": direction}
    whole = listed(get, path, **query)
    assert len(whole) >= len(NAMES)
    for size in (1, 3, len(whole), 100):
        seen, calls = walk(get, path, pageSize=size, **query)
        assert seen == whole
        assert calls == -(-len(whole) // size)


@pytest.mark.parametrize("order", ["name", "level", "lastonline"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("text", some(["ann", "number", "nobody"], 2))
def test_a_walk_through_a_search_likewise(get, crowd, world, order, direction, text):
    for number in range(12):
        moment = MOMENTS[number % len(MOMENTS)]
        world.add_player(Name=f"Number {number:02}", Level=number % 3, LastOnline=moment)
    query = {"search": text, "sortBy": order, "sortDirection": direction}
    whole = listed(get, PLAYERS, **query)
    assert len(whole) == {"ann": 2, "number": 12, "nobody": 0}[text]
    assert walk(get, PLAYERS, pageSize=5, **query)[0] == whole
    assert walk(get, PLAYERS, pageSize=1, **query)[0] == whole


def test_a_limit_cuts_the_page_and_next_goes_on_right_after_it(get, crowd):
    first = get(PLAYERS, after="", pageSize=5, limit=2)
    second = get(PLAYERS, after=first["Next"], pageSize=5, limit=2)
    assert (first["PageSize"], first["Count"]) == (5, 2)
    names = [player["Name"] for player in first["Values"] + second["Values"]]
    assert names == ["anna", "Bert", "dora", "françois"]


def test_without_after_the_envelope_has_no_next(get, crowd):
    assert list(get(PLAYERS)) == ["Total", "Page", "PageSize", "Count", "Values"]


@pytest.mark.parametrize("path", [PLAYERS, RANK, USERS])
def test_a_page_number_beside_after_is_refused(get, crowd, path):
    answer = get(path, 400, after="", page=1)
    assert answer["Message"] == "The field 'page' must be 0 where 'after' is given."
    assert get(path, after="", page=0)["Page"] == 0


def test_the_ranking_and_the_list_by_level_are_the_same_order(get, crowd):
    following = get(RANK, after="", pageSize=3)["Next"]
    by_level = get(PLAYERS, after=following, sortBy="level", sortDirection="Descending")
    assert by_level["Values"] == get(RANK, after=following)["Values"]


def test_a_changed_cursor_is_refused(get, crowd):
    following = get(PLAYERS, after="")["Next"]
    for place in range(len(following) - 1):  # the last letter has bits that mean nothing
        other = "A" if following[place] != "A" else "B"
        get(PLAYERS, 400, after=following[:place] + other + following[place + 1 :])
    get(PLAYERS, 400, after=following + "A")
    get(PLAYERS, 400, after=following[:-1])


def test_a_cursor_outlives_a_change_of_the_key():
    """A walk may be under way when the key is changed, as a token may be in use."""
    old, new = Cursors(["old" * 12]), Cursors(["new" * 12, "old" * 12])
    assert new.read(old.write(b"place") or "") == b"place"
    assert new.write(None) is None
    assert old.read("") == b""


def test_a_longest_name_still_fits_into_a_path(get, world):
    for number in range(3):
        world.add_player(Name=str(number) + "\U0001f600" * 254)
    page = get(PLAYERS, after="", pageSize=1)
    assert len(page["Next"]) < 2000
    assert len(walk(get, PLAYERS, pageSize=1)[0]) == 3


# What follows is about documents and changes that only the real server shows as they are.


@pytest.fixture
def players(real_storage, real_db):
    return Players(real_storage, 0, 0.0)


def stepwise(store, order, ascending, size, between=lambda: None, search=None):
    seen, after = [], b""
    for _ in range(2000):
        page = store.list(Window(0, size, size, after), search, order, ascending)
        seen += [record["Name"] for record in page.values]
        if page.next is None:
            return seen
        after = page.next
        between()
    raise AssertionError("the walk does not end")


def in_order(collection, sort):
    return [document["Name"] for document in collection.find({}, ["Name"]).sort(list(sort))]


ODD = [
    *({"Level": value} for value in ("high", True, 1.5, MOMENTS[1], -3, 2**40)),
    *({"LastOnline": value} for value in ("2026-01-01", 5, False)),
    *({"Exp": value} for value in (None, "much", 10**15)),
]
# These are sound, though Python has no such dates; two of each are served as the same.
FAR = [{"LastOnline": DatetimeMS(when)} for far in (2**52, -(2**52)) for when in (far, far + 1)]
MISSING = [("Level",), ("Exp",), ("LastOnline",), ("LastOnline",), ("NameKey",), ("Level", "Exp")]


def stranger(changes=(), missing=()):
    player = {**make_player(), **dict(changes)}
    return {name: value for name, value in player.items() if name not in missing}


@pytest.mark.parametrize(("order", "ascending"), ORDERS)
@pytest.mark.parametrize("odd", [ODD, FAR], ids=["odd", "far"])
def test_documents_that_only_a_game_would_store_are_walked_too(
    players, real_db, order, ascending, odd
):
    crowd = [*map(stranger, odd), *(stranger(missing=names) for names in MISSING)]
    crowd += [make_player(Level=level, LastOnline=when) for level in (0, 1) for when in MOMENTS]
    real_db.players.insert_many(crowd, bypass_document_validation=True)
    expected = in_order(real_db.players, ORDERS[order, ascending].sort)
    assert stepwise(players, order, ascending, 1) == expected
    assert stepwise(players, order, ascending, 4) == expected


NOWHERE = [
    *({"Level": value} for value in (float("nan"), Decimal128("NaN"), [], [3, 9], [[1]])),
    *({"Exp": value} for value in (float("nan"), [5, 500])),
    *({"LastOnline": value} for value in (float("nan"), [MOMENTS[1], None])),
    *({"NameKey": value} for value in ({"$x": 1}, 7)),
]


@pytest.mark.parametrize(("order", "ascending"), ORDERS)
@pytest.mark.parametrize("search", [None, "sound"])
def test_what_stands_in_no_place_or_in_many_leads_nobody_astray(
    players, real_db, order, ascending, search
):
    sound = [
        make_player(Name=f"Sound {level} {n}", Level=level, Exp=n, LastOnline=MOMENTS[n])
        for level in range(6)
        for n in range(2)
    ]
    names = [{**odd, "Name": f"Unsound {n}"} for n, odd in enumerate(NOWHERE)]
    real_db.players.insert_many([*sound, *map(stranger, names)], bypass_document_validation=True)
    expected = in_order(real_db.players, ORDERS[order, ascending].sort)
    expected = [name for name in expected if name.startswith("Sound")]
    for size in (1, 4):
        seen = stepwise(players, order, ascending, size, search=search)
        assert [name for name in seen if name.startswith("Sound")] == expected


def test_a_search_walks_over_what_is_missing_too(players, real_db):
    crowd = [make_player(Name=f"Number {n:02}", Level=n % 3) for n in range(30)]
    for player in crowd[::4]:
        del player["LastOnline"]
    real_db.players.insert_many(crowd, bypass_document_validation=True)
    for order, ascending in ORDERS:
        expected = in_order(real_db.players, ORDERS[order, ascending].sort)
        assert stepwise(players, order, ascending, 4, search="number") == expected
