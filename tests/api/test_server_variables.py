"""Global variables, with their history and undo."""

import pytest

from tests.factories import guid

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


def test_one_is_read_and_set(send, rate, db):
    path = f"{GLOBAL}/{rate['_id']}"
    assert send(f"GET {path}/value") == {"value": 100}
    assert send(f"POST {path}", {"value": 200})["Value"] == 200
    assert send(f"GET {path}")["Value"] == 200
    stored = db.objects.find_one({"_id": rate["_id"]})
    assert (stored["Value"], stored["Version"]) == (200, 1)


def test_one_that_was_never_set_has_no_value_again_after_an_undo(send, staff, world, db):
    path = f"{GLOBAL}/{world.add_object(Type='servervariable', Name='Rate')['_id']}"
    assert "Value" not in db.objects.find_one()
    for value in (7, True):
        made = staff(f"POST {path}", {"value": value}).headers["X-History-Id"]
        send(f"POST history/{made}/undo", {})
        assert "Value" not in db.objects.find_one()


def test_it_keeps_its_type(send, rate, festival, db):
    for variable, value, kind in (
        *((rate, True, "a whole number"), (festival, 1, "true or false")),
    ):
        refused = send(f"POST {GLOBAL}/{variable['_id']}", {"value": value}, 409)
        assert refused["Message"] == f"The variable {variable['_id']} must be {kind}."
    assert db.objects.count_documents({"Version": 0}) == 2


def test_one_that_the_game_never_set_takes_either(send, world):
    for value in (True, 7):
        variable = world.add_object(Type="servervariable", Name="New")
        path = f"{GLOBAL}/{variable['_id']}"
        assert send(f"GET {path}/value") == {"value": 0}
        assert send(f"POST {path}", {"value": value})["Value"] is value or value == 7


def test_an_item_is_no_variable(send, world):
    item = world.add_object(Value=5)["_id"]
    for method, body in (("GET", None), ("POST", {"value": 1})):
        for id_ in (item, guid()):
            missing = send(f"{method} {GLOBAL}/{id_}", body, 404)
            assert missing["Message"] == f"No servervariable with id '{id_}'."
    assert send(f"GET {GLOBAL}/42", None, 400)["Errors"] == {"id": ["Must be a guid."]}


def test_a_change_is_in_history_and_can_be_undone(send, rate, db):
    path = f"{GLOBAL}/{rate['_id']}"
    send(f"POST {path}", {"value": 200}, X_Reason="Double%20weekend")
    entry_id = newest(send, rate["_id"])
    entry = send(f"GET history/{entry_id}")
    assert entry["Subject"] == {"Kind": "object", "Id": rate["_id"], "Name": "Rate"}
    assert (entry["Operation"], entry["Reason"]) == ("set-variable", "Double weekend")
    assert entry["Arguments"] == {"VariableId": rate["_id"], "Value": 200}
    assert entry["Changes"] == [{"Path": "Value", "Before": 100, "After": 200}]
    undo = f"history/{entry_id}/undo"
    preview = send(f"POST {undo}", {"DryRun": True})
    assert preview["Changes"] == [{"Path": "Value", "Before": 200, "After": 100}]
    assert send(f"GET {path}/value") == {"value": 200}
    undone = send(f"POST {undo}", {})
    assert send(f"GET {path}/value") == {"value": 100}
    send(f"POST {undo}", {}, 409)
    send(f"POST history/{undone['Id']}/undo", {})
    assert send(f"GET {path}/value") == {"value": 200}


def newest(send, variable):
    """Return the id of the newest change of a variable."""
    return send(f"GET history?item={variable}&pageSize=1")["Values"][0]["Id"]


def test_the_first_value_of_all_is_undone_to_none(send, world):
    for value, other in ((True, 7), (7, True)):
        variable = world.add_object(Type="servervariable", Name="New")["_id"]
        send(f"POST {GLOBAL}/{variable}", {"value": value})
        send(f"POST history/{newest(send, variable)}/undo", {})
        assert send(f"GET {GLOBAL}/{variable}/value") == {"value": 0}
        send(f"POST {GLOBAL}/{variable}", {"value": other})


def test_its_changes_are_found_by_its_id(send, rate, db):
    send(f"POST {GLOBAL}/{rate['_id']}", {"value": 200})
    send(f"POST history/{newest(send, rate['_id'])}/undo", {})
    found = send(f"GET history?item={rate['_id']}")["Values"]
    assert [entry["Operation"] for entry in found] == ["undo", "set-variable"]


def test_a_number_that_no_client_could_take_is_read_as_none(send, rate, db):
    odd = {"$set": {"Value": 1e300, "TimeCreated": 1e300, "Name": "Odd"}}
    db.objects.update_one({"_id": rate["_id"]}, odd)
    assert send(f"GET {GLOBAL}/{rate['_id']}/value") == {"value": 0}
    assert send(f"POST {GLOBAL}", {})["entries"][0]["TimeCreated"] == 0


def test_what_was_changed_since_is_not_undone(send, rate):
    path = f"{GLOBAL}/{rate['_id']}"
    send(f"POST {path}", {"value": 200})
    first = newest(send, rate["_id"])
    send(f"POST {path}", {"value": 300})
    refused = send(f"POST history/{first}/undo", {}, 409)
    assert refused["Message"] == f"The variable {rate['_id']} has changed."
    assert send(f"GET {path}/value") == {"value": 300}
