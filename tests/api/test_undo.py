"""Undo through the API: what comes of it, what is refused, and who wins a race."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from app.core.changes import BOOKKEEPING
from app.history.store import History
from app.http.context import SERVICES
from tests.applications import service
from tests.factories import guid, make_entry, numbered_guid
from tests.mongod import on_mongodb

ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))
GIFT = {"itemid": ITEM, "quantity": 3}
MAPS = ("Inventory", "Bank", "Spells", "Variables")


@pytest.fixture
def player(world):
    return world.add_player(
        Name="Aladric",
        Inventory={"0": {"ItemId": ITEM, "Quantity": 5}},
        Spells={"3": SPELL},
        Variables={VARIABLE: 7},
    )


@pytest.fixture
def change(staff):
    """Change the player, and return the entry of that."""

    def change(path, body):
        made = staff(f"POST players/Aladric/{path}", body).headers["X-History-Id"]
        return staff(f"GET history/{made}").json

    return change


@pytest.fixture
def undo(staff):
    return lambda entry, body=None, status=200, **headers: (
        staff(f"POST history/{entry['Id']}/undo", body or {}, status, **headers).json
    )


def held(db, player):
    found = db.players.find_one({"_id": player["_id"]})
    return {name: found[name] for name in MAPS}


CHANGES = [
    ("items/give", GIFT),
    ("items/give", {"itemid": SPELL, "quantity": 3, "bankoverflow": True}),
    ("items/take", {"itemid": ITEM, "quantity": 5}),
    ("items/take", {"itemid": ITEM, "quantity": 2}),
    ("spells/teach", {"spellid": ITEM}),
    ("spells/forget", {"spellid": SPELL}),
    (f"variables/{VARIABLE}", {"value": True}),
    (f"variables/{ITEM}", {"value": 1}),
]


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_a_change_its_undo_and_the_undo_of_that(staff, change, undo, db, player, path, body):
    before, made = held(db, player), change(path, body)
    changed, stored = held(db, player), db.players.find_one({"_id": player["_id"]})
    preview = undo(made, {"DryRun": True})
    assert db.players.find_one({"_id": player["_id"]}) == stored
    undone = undo(made, {"DryRun": False}, X_Reason="by%20mistake")
    assert held(db, player) == before
    ids = {name: undone[name] for name in ("Id", "At", "RequestId", "Reason")}
    assert {**preview, **ids} == undone == staff(f"GET history/{undone['Id']}").json
    assert preview["Id"] is preview["At"] is None
    assert (undone["Operation"], undone["Undoes"]) == ("undo", made["Id"])
    assert (undone["Reason"], undone["UndoneBy"]) == ("by mistake", None)
    # A whole history, a later page, a filtered one and the list of all know it, each in its way.
    newest = staff("GET players/Aladric/history?pageSize=1").json["Next"]
    lists = ["", f"?pageSize=1&after={newest}", f"?operation={made['Operation']}"]
    for path in [*(f"players/Aladric/history{query}" for query in lists), "history"]:
        listed = staff(f"GET {path}").json["Values"]
        assert {entry["Id"]: entry["UndoneBy"] for entry in listed}[made["Id"]] == undone["Id"]
    redone = undo(undone)
    assert held(db, player) == changed
    # Each entry is undone once: the change is in force again, and it is the redo that is undone.
    for done, dry in ((made, False), (made, True), (undone, False)):
        assert "already undone" in undo(done, {"DryRun": dry}, 409)["Message"]
    undo(redone)
    assert held(db, player) == before


# A change, and what is stored of the player before that: what is absent, and what is odd.
ODD = [
    ("level", {"level": 7}, ("Exp",), {}),
    ("level", {"level": 7}, ("Level", "Exp"), {}),
    ("level", {"level": 7}, (), {"Exp": 5.0}),
    ("level", {"level": 7}, (), {"Exp": "many"}),
    ("class", {"Id": ITEM}, ("ClassName",), {}),
]


@pytest.mark.parametrize(("path", "body", "absent", "odd"), ODD)
@pytest.mark.parametrize("way", ["one", "batch"])
def test_what_was_absent_or_odd_is_so_again(staff, undo, db, player, path, body, absent, odd, way):
    def kept():
        found = db.players.find_one()
        return {name: found[name] for name in found.keys() - {*BOOKKEEPING}}

    update = {"$unset": dict.fromkeys(absent, "")} if absent else {"$set": odd}
    db.players.update_one({}, update, bypass_document_validation=True)
    before = kept()
    made = staff(f"POST players/{player['_id']}/{path}", body).headers["X-History-Id"]
    after = kept()
    assert set(absent) <= after.keys()
    if way == "one":
        undone = undo({"Id": made})
    else:
        planned = staff("POST batches", {"Rows": [{"Operation": "undo", "Id": made}]}).json
        assert staff(f"POST batches/{planned['Id']}/advance").json["Done"] == 1
        undone = staff(f"GET players/{player['_id']}/history?pageSize=1").json["Values"][0]
    assert kept() == before
    undo(undone)
    assert kept() == after


@pytest.mark.parametrize(
    ("path", "body"), [c for c in CHANGES if not c[0].endswith(("take", "forget"))]
)
def test_an_undo_works_where_the_whole_map_was_absent(change, undo, db, player, path, body):
    db.players.update_one({}, {"$unset": dict.fromkeys(MAPS, "")}, bypass_document_validation=True)
    undo(change(path, body))
    assert not any(map(db.players.find_one().get, MAPS))


def test_what_was_spent_or_set_since_is_refused_and_nothing_changes(change, undo, db, player):
    gift = change("items/give", {"itemid": SPELL, "quantity": 5})
    change("items/take", {"itemid": SPELL, "quantity": 2})
    first, _ = (change(f"variables/{VARIABLE}", {"value": value}) for value in (8, 9))
    stored = db.players.find_one({"_id": player["_id"]})
    for body in ({"DryRun": True}, {}):
        assert "has 3 of the item" in undo(gift, body, 409)["Message"]
        assert "has changed" in undo(first, body, 409)["Message"]
    assert db.players.find_one({"_id": player["_id"]}) == stored


def test_what_has_no_inverse_is_refused_and_what_is_not_there_not_found(undo, db, player):
    never = make_entry(player, Operation="register")
    change = {"Path": f"Variables.{VARIABLE}", "Before": None, "After": 1}
    gone = make_entry({"_id": guid()}, Operation="set-variable", Changes=[change])
    db.history.insert_many([never, gone])
    assert "never" in undo({"Id": never["_id"]}, status=409)["Message"]
    assert "player" in undo({"Id": gone["_id"]}, status=404)["Message"]
    undo({"Id": f"player:{player['_id']}:9"}, status=404)


def test_a_change_that_was_rolled_back_is_not_undone(change, undo, db, player, app):
    """A primary that is cut off shows a change that the others never had."""
    gift = change("items/give", GIFT)
    shown = db.history.find_one()
    history = service(app, History)
    db.players.replace_one({"_id": player["_id"]}, player)
    db.history.delete_many({})
    replaced = {"get": lambda _: shown, "present": history.present}
    app.extensions[SERVICES][History] = SimpleNamespace(**replaced)
    assert "No entry of history" in undo(gift, status=404)["Message"]
    assert held(db, player)["Inventory"] == player["Inventory"]


@on_mongodb
def test_of_many_undos_at_once_one_is_made(staff, change, db, player):
    path = f"POST history/{change('items/give', GIFT)['Id']}/undo"
    with ThreadPoolExecutor(8) as pool:
        statuses = pool.map(lambda _: staff(path, status=None).status_code, range(8))
        assert sorted(statuses) == [200] + [409] * 7
    assert held(db, player)["Inventory"] == player["Inventory"]
