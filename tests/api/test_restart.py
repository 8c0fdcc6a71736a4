"""A restart of the game with a countdown: asked for, taken, refused and withdrawn."""

import argparse
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.game.actions.store import Actions
from tests.applications import service
from tests.callers import Caller
from tests.console_visitor import page_of, visitor
from tests.game import look, playing
from tests.mongod import on_mongodb

BODY = {"Minutes": 10, "Message": "An update."}


@pytest.fixture
def waiting(app, db, staff):
    """Ask a game that takes nothing; return the id of the restart."""
    service(app, Actions).wait_seconds = 0.0
    look(db)
    return staff("POST game/restart", BODY, 202).json["ActionId"]


def take(staff):
    return staff("POST game/actions", {"Game": "world-1"}).json["Values"]


def test_a_game_takes_a_restart_as_any_action_and_answers_when_it_restarts(staff, waiting):
    asked = staff(f"GET actions/{waiting}").json
    everybody = {"Kind": "world", "Id": None, "Name": None}
    assert [asked[name] for name in ("Kind", "Subject", "Arguments", "State")] == [
        *("restart", everybody, BODY, "waiting")
    ]
    assert asked["By"]["Name"] == "Clerk"
    (taken,) = take(staff)
    assert (taken["Id"], taken["State"], take(staff)) == (waiting, "taken", [])
    staff(f"POST game/actions/{waiting}", {"Game": "world-1"})
    assert staff(f"POST actions/{waiting}/withdraw", status=409).json["Code"] == "CANNOT_WITHDRAW"
    (listed,) = staff("GET actions?kind=restart").json["Values"]
    assert (listed["Id"], listed["State"]) == (waiting, "done")


def test_a_restart_is_withdrawn_while_no_game_has_taken_it(staff, waiting, world):
    for _ in range(2):
        assert staff(f"POST actions/{waiting}/withdraw").json["State"] == "withdrawn"
    assert take(staff) == []
    kick = f"POST players/{world.add_player()['_id']}/admin/kick"
    kicked = staff(kick, status=202).json["ActionId"]
    staff(f"POST actions/{kicked}/withdraw", status=409)


def test_a_countdown_is_stopped_and_the_game_that_counts_is_told(staff, waiting, db):
    take(staff)
    for _ in range(2):
        assert staff(f"POST actions/{waiting}/withdraw").json["State"] == "withdrawn"
    for said in ({}, {"Error": "Too late."}):
        refused = staff(f"POST game/actions/{waiting}", {"Game": "world-1", **said}, 409).json
        assert refused["Code"] == "ACTION_WITHDRAWN"
    assert staff("POST game/actions", {"Game": "world-1", "Unanswered": True}).json["Values"] == []
    assert db.actions.find_one()["TakenBy"] == "world-1"
    # A game that does not look at Withdrawn has restarted.
    db.actions.update_one({"_id": waiting}, {"$set": {"Done": db.actions.find_one()["Taken"]}})
    assert staff(f"GET actions/{waiting}").json["State"] == "done"


@on_mongodb
@pytest.mark.parametrize("number", range(4))
def test_a_restart_is_either_stopped_or_answered(app, staff, waiting, db, number):
    """The game and the person decide at the same moment."""
    take(staff)
    requests = [
        (f"POST game/actions/{waiting}", {"Game": "world-1"}),
        (f"POST actions/{waiting}/withdraw", None),
    ]

    def send(request):
        return Caller(app.test_client(), staff.headers, "/api/v1/")(*request, None).status_code

    with ThreadPoolExecutor(2) as pool:
        answers = [*pool.map(send, requests)]
    assert sorted(answers) == [200, 409]
    state = staff(f"GET actions/{waiting}").json["State"]
    assert state == ("done" if answers[0] == 200 else "withdrawn")


def test_a_game_that_restarts_at_once_or_refuses_is_told(staff, db):
    with playing(db):
        done = staff("POST game/restart", {**BODY, "Minutes": 0}).json
        assert done == {"Message": "The game restarts."}
    with playing(db, lambda _: {"Done": None, "Error": "Not on a Friday."}):
        assert staff("POST game/restart", BODY, 409).json["Message"] == "Not on a Friday."


def test_what_cannot_be_asked_stores_nothing(staff, db):
    staff("POST game/restart", BODY, 503)
    look(db)
    for wrong in ({"Minutes": 61}, {"Minutes": -1}, {"Minutes": "5"}, {"Message": ""}):
        staff("POST game/restart", {**BODY, **wrong}, 400)
    for name in BODY:
        staff("POST game/restart", {n: v for n, v in BODY.items() if n != name}, 400)
    assert db.actions.count_documents({}) == 0


def test_the_page_of_the_game_asks_for_it_and_shows_it(app, db, world):
    clerk = visitor(app, world)
    refused = clerk.submit("/game", 503, Minutes="1", Message="An update.")
    assert "No game is running" in page_of(refused)
    service(app, Actions).wait_seconds = 0.0
    look(db)
    clerk.submit("/game", 400, Minutes="61", Message="An update.")
    fields = {"Minutes": "1", "Message": "An update.", "reason": "Release 7."}
    page = page_of(clerk.led_to(clerk.submit("/game", 303, **fields)))
    assert "The game was asked to restart after 1 minute." in page
    assert "Restart after 1 minute: “An update.”" in page
    (action,) = db.actions.find()
    assert action["Reason"] == "Release 7."
    for path in ("", "/game"):
        assert "Look, or stop it" not in clerk.get(path).text
    taken = {"Taken": action["At"], "TakenBy": "world-1"}
    db.actions.update_one({}, {"$set": taken})
    for path in ("", "/game"):
        assert "Look, or stop it" in clerk.get(path).text
    path = f"/game/{action['_id']}"
    assert "world-1 counts down to it." in page_of(clerk.get(path))
    assert "Stop the countdown</button>" in clerk.get(path).text
    page = clerk.led_to(clerk.submit(f"{path}/withdraw", 303))
    assert "withdrawn" in page_of(page)
    assert "Stop the countdown" not in page.text
    assert "Look, or stop it" not in clerk.get("").text


@on_mongodb
def test_the_example_world_warns_everybody_and_restarts(staff, db, waiting, monkeypatch):
    path = Path(__file__).parents[2] / "docs" / "examples" / "game_server.py"
    spec = importlib.util.spec_from_file_location("game_server", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    clock, told = [100.0], []
    monkeypatch.setattr(program, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    options = {"careless": "no", "characters": None, "ledger": None, "name": "world-1"}
    world = program.World(db, argparse.Namespace(**options, players=5, quiet=True))
    world.actions.tell = world.screen.tell = lambda text, *_: told.append(text)
    world.open_doors()
    world.actions.take_all()
    for minute in range(10):
        assert staff(f"GET actions/{waiting}").json["State"] == "taken"
        clock[0] = 100.0 + 60 * minute
        world.actions.count_down()
    assert told == [f"[in {minutes} min] An update." for minutes in (10, 5, 1)]
    another = staff("POST game/restart", BODY, 202).json["ActionId"]
    world.actions.take_all()
    assert staff(f"GET actions/{another}").json["State"] == "failed"
    staff(f"POST actions/{waiting}/withdraw")
    world.actions.count_down()
    assert told.pop() == "The restart was called off."
    waiting = staff("POST game/restart", {**BODY, "Minutes": 1}, 202).json["ActionId"]
    world.actions.take_all()
    playing_before = set(world.characters.copies)
    logged_out = []
    log_out = world.log_out
    world.log_out = lambda ids: (logged_out.append({*ids}), log_out(ids))
    clock[0] += 60
    world.actions.count_down()
    assert (told[-1], logged_out[0]) == ("The game restarts.", playing_before)
    assert staff(f"GET actions/{waiting}").json["State"] == "done"
    assert world.characters.copies
    world.actions.count_down()
    assert told.count("The game restarts.") == 1
