"""Undo through the API: what comes of it, what is refused, and who wins a race."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from app.auth.roles import Role
from app.history.store import History
from app.http.context import SERVICES
from tests.applications import service
from tests.factories import guid, make_entry, numbered_guid
from tests.swaps import move_all

PLAYERS, HISTORY = "/api/v1/players", "/api/v1/history"
ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))


@pytest.fixture
def player(world):
    return world.add_player(
        Name="Aladric",
        Inventory={"0": {"ItemId": ITEM, "Quantity": 5}},
        Spells={"3": SPELL},
        Variables={VARIABLE: 7},
    )


@pytest.fixture
def send(client, as_role):
    headers = as_role(Role.API, Role.USERS_QUERY)

    def send(path, body=None, status=200, **more):
        method = "GET" if body is None else "POST"
        sent = {name.replace("_", "-"): value for name, value in more.items()}
        answer = client.open(path, method=method, json=body, headers={**headers, **sent})
        assert answer.status_code == status, answer.json
        return answer.json

    return send


@pytest.fixture
def newest(send):
    """Return the newest entry of the player."""
    return lambda: send(f"{PLAYERS}/Aladric/history?pageSize=1")["Values"][0]


@pytest.fixture
def undo(send):
    return lambda entry, body=None, status=200, **more: send(
        f"{HISTORY}/{entry['Id']}/undo", body or {}, status, **more
    )


def held(db, player):
    found = db.players.find_one({"_id": player["_id"]})
    return {name: found[name] for name in ("Inventory", "Bank", "Spells", "Variables")}


CHANGES = [
    ("items/give", {"itemid": ITEM, "quantity": 3}),
    ("items/give", {"itemid": SPELL, "quantity": 3, "bankoverflow": True}),
    ("items/take", {"itemid": ITEM, "quantity": 5}),
    ("items/take", {"itemid": ITEM, "quantity": 2}),
    ("spells/teach", {"spellid": ITEM}),
    ("spells/forget", {"spellid": SPELL}),
    (f"variables/{VARIABLE}", {"value": True}),
    (f"variables/{ITEM}", {"value": 1}),
]


@pytest.mark.parametrize(("path", "body"), CHANGES)
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_change_its_undo_and_the_undo_of_that(
    send, newest, undo, db, player, path, body, is_moved
):
    before = held(db, player)
    send(f"{PLAYERS}/Aladric/{path}", body)
    changed, change = held(db, player), newest()
    if is_moved:
        move_all(db)
    answer = undo(change, X_Reason="by%20mistake")
    assert held(db, player) == before
    undone = newest()
    assert answer == undone
    assert (undone["Operation"], undone["Undoes"]) == ("undo", change["Id"])
    assert (undone["Reason"], undone["UndoneBy"]) == ("by mistake", None)
    assert send(f"{HISTORY}/{change['Id']}")["UndoneBy"] == undone["Id"]
    if is_moved:
        move_all(db)
    undo(undone)
    assert held(db, player) == changed
    # Each entry is undone once: the change is in force again, and it is the redo that is undone.
    for done in (change, undone):
        message = undo(done, status=409)["Message"]
        assert "undone already" in message
    undo(newest())
    assert held(db, player) == before


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_a_dry_run_tells_what_would_change_and_changes_nothing(
    send, newest, undo, db, player, path, body
):
    send(f"{PLAYERS}/Aladric/{path}", body)
    stored, change = db.players.find_one({"_id": player["_id"]}), newest()
    preview = undo(change, {"DryRun": True})
    assert db.players.find_one({"_id": player["_id"]}) == stored
    assert (preview["Id"], preview["At"], preview["Operation"]) == (None, None, "undo")
    done = undo(change, {"DryRun": False})
    assert preview["Changes"] == done["Changes"]
    assert preview.keys() == done.keys()
    assert "undone already" in undo(change, {"DryRun": True}, 409)["Message"]


@pytest.mark.parametrize("odd", ["text", 1, None, [{}]])
def test_whatever_a_game_puts_into_a_journal_an_undo_is_no_500(send, newest, undo, db, player, odd):
    send(f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 3})
    gift = newest()
    db.players.update_one({"_id": player["_id"]}, {"$push": {"Journal": odd}})
    undo(gift, {"DryRun": True})
    undo(gift)
    assert held(db, player)["Inventory"] == player["Inventory"]


def test_what_was_spent_is_refused_and_nothing_changes(send, newest, undo, db, player):
    send(f"{PLAYERS}/Aladric/items/give", {"itemid": SPELL, "quantity": 5})
    gift = newest()
    send(f"{PLAYERS}/Aladric/items/take", {"itemid": SPELL, "quantity": 2})
    stored = db.players.find_one({"_id": player["_id"]})
    for body in ({"DryRun": True}, {}):
        assert "has 3 of the item" in undo(gift, body, 409)["Message"]
    assert db.players.find_one({"_id": player["_id"]}) == stored


def test_a_variable_that_was_set_since_is_refused(send, newest, undo, player):
    send(f"{PLAYERS}/Aladric/variables/{VARIABLE}", {"value": 8})
    first = newest()
    send(f"{PLAYERS}/Aladric/variables/{VARIABLE}", {"value": 9})
    assert "changed since" in undo(first, status=409)["Message"]


@pytest.mark.parametrize(
    ("operation", "why"), [("register", "never"), ("import", "former record"), ("give", "recorded")]
)
def test_what_has_no_inverse_is_refused(send, db, player, operation, why):
    entry = make_entry(player, Operation=operation)
    db.history.insert_one(entry)
    assert why in send(f"{HISTORY}/{entry['_id']}/undo", {}, 409)["Message"]


def test_what_is_not_there_is_not_found(send, undo, db, player):
    undo({"Id": f"player:{player['_id']}:9"}, status=404)
    undo({"Id": "nonsense"}, status=404)
    change = {"Path": f"Variables.{VARIABLE}", "Before": None, "After": 1}
    gone = make_entry({"_id": guid()}, Operation="set-variable", Changes=[change])
    db.history.insert_one(gone)
    assert "player" in send(f"{HISTORY}/{gone['_id']}/undo", {}, 404)["Message"]


def test_a_change_that_was_rolled_back_is_not_undone(send, newest, undo, db, player, app):
    """A primary that is cut off shows a change that the others never had."""
    send(f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 3})
    gift = newest()
    shown = db.players.find_one({"_id": player["_id"]})
    history = service(app, History)
    db.players.replace_one({"_id": player["_id"]}, player)
    replaced = {"get": lambda _: shown["Journal"][0], "serve": history.serve}
    app.extensions[SERVICES][History] = SimpleNamespace(**replaced)
    assert "No entry of history" in undo(gift, status=404)["Message"]
    # Another change of the same version is not the one that was meant.
    send(f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 1})
    undo(gift, status=404)
    assert held(db, player)["Inventory"]["0"]["Quantity"] == 6


@pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
def test_of_many_undos_at_once_one_is_made(send, newest, undo, db, player, client, as_role):
    send(f"{PLAYERS}/Aladric/items/give", {"itemid": ITEM, "quantity": 3})
    path, headers = f"{HISTORY}/{newest()['Id']}/undo", as_role()

    def race(_):
        return client.application.test_client().post(path, headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(race, range(8))) == [200] + [409] * 7
    assert held(db, player)["Inventory"] == player["Inventory"]
