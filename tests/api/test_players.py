"""Endpoints 1 to 5 and 19: lists, rank, who is online (contract-lists, contract-online)."""

from datetime import datetime, timedelta, timezone

import pytest

from app.players.schemas import PlayerSchema
from app.players.store import Players
from app.storage.client import Storage
from tests.applications import replace_service, service
from tests.factories import guid, make_player

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
        *(
            ("100% Real", "0% r"),
            ("a.b.c", ".b."),
            ("x[y]z", "[y]"),
            ("$(rm)", "$(r"),
            ("ÉLAN", "éla"),
        ),
        *(
            ("Straße", "SSE"),
            ("玩家一号", "玩家一"),
            ("aaaa", "aaa"),
            ("a\\d+b", "\\d+"),
            ("q^w$e", "^w$"),
        ),
    ],
)
def test_search_takes_every_character_as_itself(get, world, name, search):
    world.add_player(Name=name)
    world.add_player(Name="somebody else")
    assert names(get(search=search)) == [name]


def test_search_pages_like_any_list(get, world):
    for number in range(12):
        world.add_player(Name=f"Guard {number:02}")
    world.add_player(Name="Intruder")
    seen = [names(get(search="uard", page=page, pageSize=5)) for page in range(4)]
    assert [len(page) for page in seen] == [5, 5, 2, 0]
    assert [name for page in seen for name in page] == [
        f"Guard {number:02}" for number in range(12)
    ]
    assert get(search="uard", page=3).json["Total"] == 12


def test_rank_goes_by_level_then_experience_then_name(get, heroes):
    response = get("/rank")
    assert list(response.json) == ["Total", "Page", "PageSize", "Count", "Values"]
    assert names(response) == ["anna", "Bert", "Carl", "Dora"]
    assert names(get("/rank", sortDirection="Ascending")) == ["Carl", "Dora", "Bert", "anna"]
    assert names(get("/rank", pageSize=2, page=1, limit=1)) == ["Carl"]


def test_the_former_list_answers_in_the_former_envelope(post, heroes):
    response = post()
    assert list(response.json) == ["total", "Page", "count", "entries"]
    assert [response.json[k] for k in ("total", "Page", "count")] == [4, 0, 4]
    assert names(response) == ["anna", "Bert", "Carl", "Dora"]
    second = post(json={"page": 1, "count": 3})
    assert (names(second), second.json["count"]) == (["Dora"], 1)
    assert names(post(data="")) == names(post(json={})) == names(response)


def test_a_deprecated_endpoint_says_so(post, get, client):
    response = post()
    assert response.headers["Deprecation"].startswith("@")
    assert response.headers["Link"] == '</api/v1/players>; rel="successor-version"'
    assert "Deprecation" not in get().headers
    paths = client.get("/api/openapi.json").json["paths"]
    assert paths["/api/v1/players"]["post"]["deprecated"] is True
    assert "deprecated" not in paths["/api/v1/players"]["get"]


@pytest.fixture
def crowd(world):
    """Somebody fresh, somebody stale, somebody away, and a second one fresh."""
    now = datetime.now(timezone.utc)
    world.add_player(Name="Zed", Online=True, LastSeen=now)
    world.add_player(Name="Stale", Online=True, LastSeen=now - timedelta(seconds=400))
    world.add_player(Name="Never", Online=True, LastSeen=None)
    world.add_player(Name="Away", Online=False, LastSeen=now)
    world.add_player(Name="abe", Online=True, LastSeen=now - timedelta(seconds=200))


def test_only_the_fresh_are_online(get, post, crowd):
    response = post("/online")
    assert list(response.json) == ["total", "Page", "count", "entries"]
    assert names(response) == ["abe", "Zed"]
    assert response.json["total"] == 2
    assert names(post("/online", json={"page": 1, "count": 1})) == ["Zed"]
    assert get("/online/count").json == {"onlineCount": 2}
    assert [get(f"/{name}").json["Online"] for name in ("Zed", "Stale", "Never", "Away")] == [
        *(True, False, False, False)
    ]


def test_a_ttl_of_0_trusts_the_flag_alone(app, get, crowd):
    replace_service(app, Players(service(app, Storage), 0, 0.0))
    assert get("/online/count").json == {"onlineCount": 4}
    assert get("/Stale").json["Online"] is True


def test_paths_come_before_names(get, post, world):
    reserved = {name: world.add_player(Name=name) for name in ("rank", "online", "bag")}
    assert "Values" in get("/rank").json
    assert "Values" in get("/online").json
    assert get("/bag").status_code == 404
    assert get("/bag/items").status_code == 400
    assert get("/rank/items").status_code == 404
    for name, player in reserved.items():
        assert get(f"/{player['_id']}").json["Name"] == name
    world.add_player(Name="Banker")
    assert get("/banker").json["Name"] == "Banker"


def test_what_is_served_fits_its_schema(get, world):
    world.add_player(Name="Bob", LastOnline=datetime.now(timezone.utc), Vitals=[1, 2])
    assert PlayerSchema().validate(get("/Bob").json) == {}


def test_a_document_from_before_our_time_is_served_as_far_as_it_goes(client, world, as_role):
    player = world.add_player(Name="Old")
    gone = dict.fromkeys(("Online", "LastSeen", "Inventory", "Bank", "Spells", "Variables"), "")
    update = {"$unset": gone}
    world.db.players.update_one({"_id": player["_id"]}, update, bypass_document_validation=True)
    headers = as_role()
    for path in ("", "/Old", "/Old/items", "/Old/items/bank", "/Old/spells", "/Old/variables"):
        assert client.get(PLAYERS + path, headers=headers).status_code == 200, path


def test_players_are_counted_by_level(app, world):
    for level in (0, 3, 3):
        world.add_player(Level=level)
    assert service(app, Players).count_by_level() == {0: 1, 3: 2}


@pytest.mark.parametrize("level", ["x", None, 1.5])
def test_what_is_no_level_is_not_counted(app, db, world, level):
    db.players.insert_one({**make_player(), "Level": level}, bypass_document_validation=True)
    world.add_player(Level=3)
    assert service(app, Players).count_by_level() == {3: 1}


def test_the_leaderboard_has_names_levels_and_ranks_and_nothing_else(client, world):
    for name, level, exp in (("Cid", 3, 0), ("Abe", 9, 5), ("Bea", 9, 7), ("Odd", 1, 0)):
        world.add_player(Name=name, Level=level, Exp=exp, Secret="hidden")
    headers = world.headers()
    first = client.get("/api/v1/leaderboard?pageSize=3", headers=headers).json
    assert first == {
        **{"Total": 4, "Page": 0, "PageSize": 3, "Count": 3},
        "Values": [
            {"Rank": 1, "Name": "Bea", "Level": 9},
            {"Rank": 2, "Name": "Abe", "Level": 9},
            {"Rank": 3, "Name": "Cid", "Level": 3},
        ],
    }
    last = client.get("/api/v1/leaderboard?pageSize=3&page=1", headers=headers).json
    assert last["Values"] == [{"Rank": 4, "Name": "Odd", "Level": 1}]


LEVEL = ("level", {"level": 4}, {"Level": 4, "Exp": 0}, {"Level": 3, "Exp": 70})
RANGER, BARD = guid(), guid()
CLASS = (
    *("class", {"Id": BARD}, {"ClassId": BARD, "ClassName": "Bard"}),
    {"ClassId": RANGER, "ClassName": "Ranger"},
)


@pytest.mark.parametrize(("path", "body", "after", "before"), [LEVEL, CLASS])
def test_a_level_and_a_class_are_set_and_undone(client, world, as_role, path, body, after, before):
    world.add_object(Id=BARD, Type="class", Name="Bard")
    player = world.add_player(Name="Bob", **before)
    headers = as_role()
    answer = client.post(f"{PLAYERS}/Bob/{path}", json=body, headers=headers)
    assert (answer.status_code, answer.json) == (200, {"Id": player["_id"], **after})
    undo = f"/api/v1/history/{answer.headers['X-History-Id']}/undo"
    record = client.get(f"{PLAYERS}/Bob", headers=headers).json
    assert {name: record[name] for name in after} == after
    name = next(iter(after))
    world.db.players.update_one({"Name": "Bob"}, {"$set": {name: before[name]}})
    refused = client.post(undo, headers=headers)
    assert (refused.status_code, refused.json["Code"]) == (409, "CHARACTER_CHANGED")
    world.db.players.update_one({"Name": "Bob"}, {"$set": {name: after[name]}})
    assert client.post(undo, headers=headers).status_code == 200
    record = client.get(f"{PLAYERS}/Bob", headers=headers).json
    assert {name: record[name] for name in before} == before


def test_a_class_that_the_catalogue_lacks_is_set_with_a_warning(client, world, as_role):
    world.add_object(Type="class", Name="Bard")
    world.add_player(Name="Bob")
    sent = {"json": {"Id": RANGER}, "headers": as_role()}
    answer = client.post(f"{PLAYERS}/Bob/class", **sent)
    assert (answer.status_code, answer.json["ClassName"]) == (200, "")
    assert RANGER in answer.headers["Warning"]
