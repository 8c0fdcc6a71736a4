"""Requests that wait for the game, through real gunicorn: they hold up nobody else."""

import threading

import pytest
import requests
from pymongo import MongoClient

from app.auth.api_keys import new_secret
from app.auth.roles import Role
from tests.factories import guid, make_key, make_player, make_user, with_keys
from tests.game import look, playing
from tests.system.programs import serving, wait_until

DATABASE = "actions"


@pytest.fixture(scope="module")
def db(mongodb_uri):
    with MongoClient(mongodb_uri, tz_aware=True) as client:
        yield client[DATABASE]
        client.drop_database(DATABASE)


@pytest.fixture(scope="module")
def server(tmp_path_factory, mongodb_uri, db):
    """One worker with a single slot at the database: whoever held it would keep all others out."""
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": DATABASE}
    folder = tmp_path_factory.mktemp("actions")
    with serving(folder, WORKERS="1", THREADS="1", **settings) as server:
        secret = new_secret()
        caller = with_keys(make_user(roles=Role), **{guid(): make_key(secret)})
        db.users.insert_one(caller)
        db.players.insert_one(make_player(Name="Amelia"))
        server.headers = {"Authorization": f"Bearer {secret}"}
        yield server


@pytest.fixture
def kick(server):
    path = f"{server.base}/api/v1/players/Amelia/admin/kick"
    return lambda: requests.post(path, headers=server.headers, timeout=120)


def test_who_waits_for_the_game_holds_no_slot_at_the_database(server, db, kick):
    """Held for two seconds, the slot would let nobody in before the kick is answered."""
    # A game has looked, and does nothing.
    look(db)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(kick().status_code))
    asking.start()
    wait_until(lambda: db.actions.find_one())
    found = []
    while asking.is_alive():
        path = f"{server.base}/api/v1/players/Amelia"
        status = requests.get(path, headers=server.headers, timeout=120).status_code
        found += [status] if asking.is_alive() else []
    assert set(found) == {200}
    assert len(found) >= 3
    assert answers == [202]


def test_a_game_that_answers_is_heard(db, kick):
    with playing(db):
        answer = kick()
    assert answer.status_code == 200
    assert answer.json() == {"Message": "Amelia has been kicked by the server!"}


def test_without_a_game_it_is_refused(db, kick):
    look(db, ago=60)
    answer = kick()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert "No game is running" in answer.json()["Message"]
