"""History of the running service: entries come to the list of all, whoever dies on the way."""

import os
import signal

import pytest
import requests
from pymongo import MongoClient

from tests.factories import guid, sha256
from tests.system.programs import serving, wait_until, workers_of

DATABASE = "served_history"


@pytest.fixture
def db(mongodb_uri):
    with MongoClient(mongodb_uri, tz_aware=True) as client:
        yield client[DATABASE]
        client.drop_database(DATABASE)


class Staff:
    """Somebody who gives items and reads the history of all."""

    def __init__(self, server):
        self._base = f"{server.base}/api"
        form = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
        token = requests.post(f"{self._base}/oauth/token", data=form, timeout=120).json()
        self._headers = {"Authorization": f"Bearer {token['access_token']}"}

    def get(self, path):
        answer = requests.get(f"{self._base}/v1/{path}", headers=self._headers, timeout=120)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def give(self, player, item):
        answer = requests.post(
            f"{self._base}/v1/players/{player}/items/give",
            json={"itemid": item, "quantity": 1},
            headers=self._headers,
            timeout=120,
        )
        assert answer.status_code == 200, answer.text

    def given(self, item):
        return len(self.get(f"history?item={item}&pageSize=100")["Values"])


@pytest.fixture
def settings(mongodb_uri):
    return {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": DATABASE, "LOG_LEVEL": "WARNING"}


def test_the_list_of_all_shows_what_a_killed_worker_had_not_moved(tmp_path, settings, db):
    with serving(tmp_path, "--demo", **settings) as server:
        staff = Staff(server)
        players = [player["Id"] for player in staff.get("players?pageSize=20")["Values"]]
        item = guid()
        for player in players:
            staff.give(player, item)
        wait_until(lambda: staff.given(item) == 20)
        for player in players:
            staff.give(player, item)
        for worker in workers_of(server):
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: staff_after(server).given(item) == 40)
        assert db.history.count_documents({"Objects": item}) == 40


def staff_after(server):
    """Sign in again, once the killed workers are replaced."""
    wait_until(lambda: len(workers_of(server)) == 2)
    return Staff(server)


def test_a_worker_that_ends_leaves_nothing_in_journals(tmp_path, settings, db):
    with serving(tmp_path, "--demo", **settings) as server:
        staff, item = Staff(server), guid()
        for player in staff.get("players?pageSize=20")["Values"]:
            staff.give(player["Id"], item)
        server.send_signal(signal.SIGTERM)
        server.wait()
    assert db.players.count_documents({"Journal.0": {"$exists": True}}) == 0
    assert db.history.count_documents({"Objects": item}) == 20
