"""A restart of the game with a countdown: asked for, taken, refused and withdrawn."""

import argparse
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.console_visitor import page_of, visitor
from tests.game import look, playing
from tests.mongod import on_mongodb

BODY = {"Minutes": 10, "Message": "An update."}


@pytest.fixture
def waiting(db, staff, impatient):
    """Ask a game that takes nothing; return the id of the restart."""
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


def test_a_restart_is_withdrawn_while_no_game_has_taken_it_and_a_kick_never(staff, waiting, world):
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
@pytest.mark.parametrize("number", range(2))
def test_a_restart_is_either_stopped_or_answered(staff, waiting, number):
    """The game and the person decide at the same moment."""
    take(staff)
    answers = staff.at_once(
        (f"POST game/actions/{waiting}", {"Game": "world-1"}),
        (f"POST actions/{waiting}/withdraw", None),
    )
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200, 409]
    state = staff(f"GET actions/{waiting}").json["State"]
    assert state == ("done" if statuses[0] == 200 else "withdrawn")


def test_a_game_that_restarts_at_once_or_refuses_is_told(staff, db):
    with playing(db):
        done = staff("POST game/restart", {**BODY, "Minutes": 0}).json
        assert done == {"Message": "The game restarts."}
    with playing(db, lambda _: {"Done": None, "Error": "Not on a Friday."}):
        assert staff("POST game/restart", BODY, 409).json["Message"] == "Not on a Friday."


def test_what_cannot_be_asked_stores_nothing(staff, db):
    staff("POST game/restart", BODY, 503)
    look(db)
    for wrong in ({"Minutes": 61}, {"Minutes": -1}, {"Minutes": None}, {"Message": ""}):
        staff("POST game/restart", {**BODY, **wrong}, 400)
    assert db.actions.count_documents({}) == 0


def test_the_page_of_the_game_asks_for_it_shows_it_and_stops_it(app, db, world, impatient):
    clerk = visitor(app, world)
    fields = {"Minutes": "1", "Message": "An update.", "reason": "Release 7."}
    assert "No game is running" in page_of(clerk.submit("/game", 503, **fields))
    look(db)
    page = page_of(clerk.led_to(clerk.submit("/game", 303, **fields)))
    assert "The game was asked to restart after 1 minute." in page
    assert "Restart after 1 minute: “An update.”" in page
    (action,) = db.actions.find()
    assert action["Reason"] == "Release 7."
    hint = "Look, or stop it"
    assert [hint in clerk.read(path) for path in ("", "/game")] == [False, False]
    db.actions.update_one({}, {"$set": {"Taken": action["At"], "TakenBy": "world-1"}})
    assert [hint in clerk.read(path) for path in ("", "/game")] == [True, True]
    page = clerk.read(f"/game/{action['_id']}")
    assert "world-1 counts down to it." in page
    assert "Stop the countdown" in page
    page = page_of(clerk.led_to(clerk.submit(f"/game/{action['_id']}/withdraw", 303)))
    assert ("withdrawn" in page, "Stop the countdown" in page) == (True, False)
    assert hint not in clerk.read()


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
    before, log_out, logged_out = {*world.characters.copies}, world.log_out, []
    world.log_out = lambda ids: (logged_out.append({*ids}), log_out(ids))
    clock[0] += 60
    for _ in range(2):
        world.actions.count_down()
    assert (told.count("The game restarts."), logged_out[0]) == (1, before)
    assert staff(f"GET actions/{waiting}").json["State"] == "done"
    assert world.characters.copies
