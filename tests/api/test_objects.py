"""The catalogue, through HTTP."""

import pytest

from app.catalogue.domain import TYPES
from tests.factories import numbered_guid

OBJECTS = "/api/v1/gameobjects"


@pytest.fixture
def get(client, as_role):
    headers = as_role()
    return lambda path, **query: client.get(OBJECTS + path, headers=headers, query_string=query)


@pytest.fixture
def post(client, as_role):
    headers = as_role()
    return lambda path, **body: client.post(OBJECTS + path, headers=headers, json=body)


@pytest.fixture
def potions(world):
    """Five items, two of the same name, and what must not be among them."""
    world.add_object(Type="spell", Name="Potion Rain")
    names = ["Mana Potion", "health potion", "Arrow", "Potion", "Potion"]
    return [
        world.add_object(Id=numbered_guid(number), Name=name, Price=number, Icon="i.png")
        for number, name in enumerate(names)
    ]


def test_an_object_is_served_with_all_that_the_game_stores_on_it(get, world):
    sword = world.add_object(Name="Sword", Price=12, Stats={"Attack": [1, 2]})
    world.db.objects.update_one({"_id": sword["_id"]}, {"$set": {"Id": "hides nothing"}})
    about = {"Name": "Sword", "Price": 12, "Stats": {"Attack": [1, 2]}}
    served = get(f"/item/{sword['_id'].upper()}").json
    assert served == {"Id": sword["_id"], "Type": "item", **about}


def test_a_list_by_page_numbers_has_each_object_under_its_id_by_name(post, potions):
    answer = post("/item", page=0, count=3).json
    assert {name: answer[name] for name in ("total", "Page", "count")} == {
        **{"total": 5, "Page": 0, "count": 3},
    }
    assert [entry["Value"]["Name"] for entry in answer["entries"]] == [
        *("Arrow", "health potion", "Mana Potion"),
    ]
    assert all(entry["Key"] == entry["Value"]["Id"] for entry in answer["entries"])
    assert [e["Value"]["Price"] for e in post("/item", page=1, count=3).json["entries"]] == [3, 4]
    assert post("/item", page=7).json["entries"] == []


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_walk_meets_each_object_once_by_name(get, potions, size):
    for search, expected in (
        (None, ["Arrow", "health potion", "Mana Potion", "Potion", "Potion"]),
        ("POTI", ["health potion", "Mana Potion", "Potion", "Potion"]),
        ("lth p", ["health potion"]),
        ("nothing", []),
    ):
        found, after = [], ""
        while after is not None and len(found) < 9:
            query = {"search": search} if search else {}
            page = get("/item", pageSize=size, after=after, **query).json
            assert len(page["Values"]) <= size
            found, after = [*found, *page["Values"]], page["Next"]
        assert [record["Name"] for record in found] == expected
        assert len({record["Id"] for record in found}) == len(expected)


def test_the_names_of_all_objects_of_a_type_are_one_answer(get, potions):
    assert get("/item/names").json == {potion["_id"]: potion["Name"] for potion in potions}
    assert get("/quest/names").json == {}


def test_every_type_is_known_in_any_case_and_no_other(get, post):
    for type_ in TYPES:
        assert post(f"/{type_.upper()}").json["entries"] == []
        assert get(f"/{type_}").json == {"Values": [], "Next": None}
    for path in ("/weapon", "/weapon/names", f"/weapon/{numbered_guid(9)}"):
        answer = get(path)
        assert answer.status_code == 404
        message = answer.json["Message"]
        assert message.startswith("There is no object type 'weapon'; the types are ")
        assert all(type_ in message for type_ in TYPES)


def test_an_object_of_another_type_is_not_found(get, potions):
    potion = potions[0]["_id"]
    assert get(f"/spell/{potion}").json["Message"] == f"No spell with id '{potion}'."
    assert get("/item/42").status_code == 400


def test_the_clock_of_the_game_is_served_where_there_is_one(get, post, world):
    assert get("/time").status_code == 404
    assert get("/time").json["Message"] == "The catalogue holds no time object."
    clock = world.add_object(Type="time", Name="Time", Hour=14)
    assert get("/time").json == {"Id": clock["_id"], "Type": "time", "Name": "Time", "Hour": 14}
    assert post("/time").status_code == 405
