"""Global variables, with their history and undo."""

import pytest

GLOBAL = "variables/global"


@pytest.fixture
def send(staff):
    return lambda request, body=None, status=200, **headers: (
        staff(request, body, status, **headers).json
    )


@pytest.fixture
def rate(world):
    return world.add_object(
        Type="servervariable", Name="Rate", TextId="rate", Folder="Rates", Value=100
    )


@pytest.fixture
def festival(world):
    return world.add_object(Type="servervariable", Name="Festival", Value=False, TimeCreated=5.0)


def test_they_are_listed_by_name_with_their_types(send, rate, festival, world):
    world.add_object(Type="playervariable", Name="Another")
    answer = send(f"POST {GLOBAL}", {"page": 0, "count": 25})
    assert (answer["total"], answer["count"]) == (2, 2)
    assert answer["entries"] == [
        {
            **{"Id": festival["_id"], "Name": "Festival", "TextId": "", "Type": 1, "Folder": ""},
            **{"Value": False, "TimeCreated": 5},
        },
        {
            **{"Id": rate["_id"], "Name": "Rate", "TextId": "rate", "Type": 2, "Folder": "Rates"},
            **{"Value": 100, "TimeCreated": 0},
        },
    ]
    # A number that no client could take is read as none.
    odd = {"$set": {"Value": 1e300, "TimeCreated": 1e300}}
    world.db.objects.update_one({"_id": rate["_id"]}, odd)
    assert send(f"GET {GLOBAL}/{rate['_id']}/value") == {"value": 0}
    assert send(f"POST {GLOBAL}", {})["entries"][1]["TimeCreated"] == 0


def test_it_keeps_its_type(send, rate, festival, db):
    for variable, value, kind in (
        *((rate, True, "a whole number"), (festival, 1, "true or false")),
    ):
        refused = send(f"POST {GLOBAL}/{variable['_id']}", {"value": value}, 409)
        assert refused["Message"] == f"The variable {variable['_id']} must be {kind}."
    assert db.objects.count_documents({"Version": 0}) == 2


def test_one_that_the_game_never_set_takes_either_and_has_no_value_again_after_an_undo(
    send, staff, world, db
):
    path = f"{GLOBAL}/{world.add_object(Type='servervariable', Name='Rate')['_id']}"
    for value in (7, True, 7):
        assert "Value" not in db.objects.find_one()
        assert send(f"GET {path}/value") == {"value": 0}
        made = staff(f"POST {path}", {"value": value})
        assert send(f"GET {path}")["Value"] == made.json["Value"] == value
        send(f"POST history/{made.headers['X-History-Id']}/undo", {})


def test_an_item_is_no_variable(send, world):
    item = world.add_object(Value=5)["_id"]
    for method, body in (("GET", None), ("POST", {"value": 1})):
        missing = send(f"{method} {GLOBAL}/{item}", body, 404)
        assert missing["Message"] == f"No servervariable with id '{item}'."
    assert send(f"GET {GLOBAL}/42", None, 400)["Errors"] == {"id": ["Must be a guid."]}


def test_a_change_is_in_history_and_can_be_undone_unless_it_was_changed_since(send, staff, rate):
    path = f"{GLOBAL}/{rate['_id']}"
    first = staff(f"POST {path}", {"value": 200}).headers["X-History-Id"]
    entry = send(f"GET history/{first}")
    assert entry["Subject"] == {"Kind": "object", "Id": rate["_id"], "Name": "Rate"}
    assert entry["Arguments"] == {"VariableId": rate["_id"], "Value": 200}
    assert entry["Changes"] == [{"Path": "Value", "Before": 100, "After": 200}]
    send(f"POST {path}", {"value": 300})
    refused = send(f"POST history/{first}/undo", {}, 409)
    assert refused["Message"] == f"The variable {rate['_id']} has changed."
    send(f"POST {path}", {"value": 200})
    undone = send(f"POST history/{first}/undo", {})
    assert send(f"GET {path}/value") == {"value": 100}
    send(f"POST history/{undone['Id']}/undo", {})
    assert send(f"GET {path}/value") == {"value": 200}
    found = send(f"GET history?item={rate['_id']}")["Values"]
    told = [entry["Operation"] for entry in found]
    assert told == ["undo", "undo", "set-variable", "set-variable", "set-variable"]
