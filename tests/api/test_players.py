"""Endpoints 1 to 5 and 19: lists, rank, who is online (contract-lists, contract-online)."""

from datetime import datetime, timedelta, timezone

import pytest

from app.players.store import Players
from app.storage.client import Storage
from tests.applications import replace_service, service
from tests.factories import guid

PLAYERS = "/api/v1/players"


@pytest.fixture
def get(caller):
    return caller(PLAYERS).get


@pytest.fixture
def post(caller):
    return caller(PLAYERS).send


def names(response):
    body = response.json
    return [player["Name"] for player in body.get("Values", body.get("entries"))]


@pytest.fixture
def heroes(world):
    """Four heroes: two of a level, told apart by experience and by name."""
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for name, level, exp, days in [
        *(("Dora", 5, 10, 3), ("anna", 9, 0, 1), ("Bert", 5, 70, 2), ("Carl", 5, 10, 4))
    ]:
        world.add_player(Name=name, Level=level, Exp=exp, LastOnline=moment + timedelta(days=days))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["anna", "Bert", "Carl", "Dora"]),
        ({"sortDirection": "Descending"}, ["Dora", "Carl", "Bert", "anna"]),
        ({"sortBy": "level"}, ["Carl", "Dora", "Bert", "anna"]),
        ({"sortBy": "Level", "sortDirection": "descending"}, ["anna", "Bert", "Carl", "Dora"]),
        ({"sortBy": "lastonline"}, ["anna", "Bert", "Dora", "Carl"]),
        ({"sortBy": "lastonline", "sortDirection": "Descending"}, ["Carl", "Dora", "Bert", "anna"]),
        ({"search": "ert"}, ["Bert"]),
        ({"search": "NNA"}, ["anna"]),
        ({"search": "dora"}, ["Dora"]),
        ({"search": "xyz"}, []),
        ({"search": "a\u2028\u200bb"}, []),
    ],
)
def test_the_list_is_sorted_and_searched(get, heroes, query, expected):
    response = get(**query)
    assert response.status_code == 200
    assert names(response) == expected
    assert response.json["Total"] == len(expected)


@pytest.mark.parametrize(
    ("name", "search"),
    [
        *(("100% Real", "0% r"), ("a.b.c", ".b."), ("x[y]z", "[y]"), ("$(rm)", "$(r")),
        *(("ÉLAN", "éla"), ("Straße", "SSE"), ("玩家一号", "玩家一"), ("aaaa", "aaa")),
        *(("a\\d+b", "\\d+"), ("q^w$e", "^w$")),
    ],
)
def test_search_takes_every_character_as_itself(get, world, name, search):
    world.add_player(Name=name)
    world.add_player(Name="somebody else")
    assert names(get(search=search)) == [name]


def test_rank_goes_by_level_then_experience_then_name(get, heroes):
    response = get("/rank")
    assert list(response.json) == ["Total", "Page", "PageSize", "Count", "Values"]
    assert names(response) == ["anna", "Bert", "Carl", "Dora"]
    assert names(get("/rank", sortDirection="Ascending")) == ["Carl", "Dora", "Bert", "anna"]
    assert names(get("/rank", pageSize=2, page=1, limit=1)) == ["Carl"]


def test_the_former_list_answers_in_the_former_envelope_and_says_that_it_is_deprecated(
    get, post, heroes
):
    response = post()
    assert list(response.json) == ["total", "Page", "count", "entries"]
    assert [response.json[k] for k in ("total", "Page", "count")] == [4, 0, 4]
    assert names(response) == ["anna", "Bert", "Carl", "Dora"]
    second = post(json={"page": 1, "count": 3})
    assert (names(second), second.json["count"]) == (["Dora"], 1)
    assert names(post(data="")) == names(post(json={})) == names(response)
    assert response.headers["Deprecation"].startswith("@")
    assert response.headers["Link"] == '</api/v1/players>; rel="successor-version"'
    assert "Deprecation" not in get().headers


@pytest.fixture
def crowd(world):
    """Somebody fresh, somebody stale, somebody away, and a second one fresh."""
    now = datetime.now(timezone.utc)
    world.add_player(Name="Zed", Online=True, LastSeen=now)
    world.add_player(Name="Stale", Online=True, LastSeen=now - timedelta(seconds=400))
    world.add_player(Name="Never", Online=True, LastSeen=None)
    world.add_player(Name="Away", Online=False, LastSeen=now)
    world.add_player(Name="abe", Online=True, LastSeen=now - timedelta(seconds=200))


def test_only_the_fresh_are_online_unless_the_flag_alone_is_trusted(app, get, post, crowd):
    response = post("/online")
    assert list(response.json) == ["total", "Page", "count", "entries"]
    assert (names(response), response.json["total"]) == (["abe", "Zed"], 2)
    assert names(post("/online", json={"page": 1, "count": 1})) == ["Zed"]
    assert get("/online/count").json == {"onlineCount": 2}
    online = [get(f"/{name}").json["Online"] for name in ("Zed", "Stale", "Never", "Away")]
    assert online == [True, False, False, False]
    replace_service(app, Players(service(app, Storage), 0, 0.0))
    assert get("/online/count").json == {"onlineCount": 4}
    assert get("/Stale").json["Online"] is True


def test_paths_come_before_names(get, world):
    reserved = {name: world.add_player(Name=name) for name in ("rank", "online", "bag")}
    assert "Values" in get("/rank").json
    assert "Values" in get("/online").json
    found = [get(path).status_code for path in ("/bag", "/bag/items", "/rank/items")]
    assert found == [404, 400, 404]
    for name, player in reserved.items():
        assert get(f"/{player['_id']}").json["Name"] == name


def test_a_document_from_before_our_time_is_served_as_far_as_it_goes(staff, world):
    player = world.add_player(Name="Old")
    gone = dict.fromkeys(("Online", "LastSeen", "Inventory", "Bank", "Spells", "Variables"), "")
    update = {"$unset": gone}
    world.db.players.update_one({"_id": player["_id"]}, update, bypass_document_validation=True)
    for path in ("", "/Old", "/Old/items", "/Old/items/bank", "/Old/spells", "/Old/variables"):
        staff(f"GET players{path}")


def test_the_leaderboard_has_names_levels_and_ranks_and_nothing_else(staff, world):
    for name, level, exp in (("Cid", 3, 0), ("Abe", 9, 5), ("Bea", 9, 7), ("Odd", 1, 0)):
        world.add_player(Name=name, Level=level, Exp=exp, Secret="hidden")
    assert staff("GET leaderboard?pageSize=3").json == {
        **{"Total": 4, "Page": 0, "PageSize": 3, "Count": 3},
        "Values": [
            {"Rank": 1, "Name": "Bea", "Level": 9},
            {"Rank": 2, "Name": "Abe", "Level": 9},
            {"Rank": 3, "Name": "Cid", "Level": 3},
        ],
    }
    last = staff("GET leaderboard?pageSize=3&page=1").json["Values"]
    assert last == [{"Rank": 4, "Name": "Odd", "Level": 1}]


LEVEL = ("level", {"level": 4}, {"Level": 4, "Exp": 0}, {"Level": 3, "Exp": 70})
RANGER, BARD = guid(), guid()
CLASS = (
    *("class", {"Id": BARD}, {"ClassId": BARD, "ClassName": "Bard"}),
    {"ClassId": RANGER, "ClassName": "Ranger"},
)


@pytest.mark.parametrize(("path", "body", "after", "before"), [LEVEL, CLASS])
def test_a_level_and_a_class_are_set_and_undone_unless_changed_since(
    staff, world, path, body, after, before
):
    world.add_object(Id=BARD, Type="class", Name="Bard")
    player = world.add_player(Name="Bob", **before)
    answer = staff(f"POST players/Bob/{path}", body)
    assert answer.json == {"Id": player["_id"], **after}
    undo = f"POST history/{answer.headers['X-History-Id']}/undo"
    assert after.items() <= staff("GET players/Bob").json.items()
    name = next(iter(after))
    world.db.players.update_one({"Name": "Bob"}, {"$set": {name: before[name]}})
    assert staff(undo, status=409).json["Code"] == "CHARACTER_CHANGED"
    world.db.players.update_one({"Name": "Bob"}, {"$set": {name: after[name]}})
    staff(undo)
    assert before.items() <= staff("GET players/Bob").json.items()


def test_a_class_that_the_catalogue_lacks_is_set_with_a_warning(staff, world):
    world.add_object(Type="class", Name="Bard")
    world.add_player(Name="Bob")
    answer = staff("POST players/Bob/class", {"Id": RANGER})
    assert answer.json["ClassName"] == ""
    assert RANGER in answer.headers["Warning"]
