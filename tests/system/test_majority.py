"""What is answered is held by a majority: what a deposed primary takes back was never promised."""

from __future__ import annotations

import pytest
from pymongo import MongoClient

from tests.factories import guid, make_player
from tests.system.chaos.replicas import replica_set
from tests.system.chaos.service import service

# So long that a primary without followers stays one while it is asked twice.
ELECTION_MS = 30_000


@pytest.fixture
def replicas(tmp_path):
    with replica_set(tmp_path / "set", ELECTION_MS) as replicas:
        yield replicas


@pytest.fixture
def served(tmp_path, replicas):
    settings = {"MONGODB_URI": replicas.uri, "MONGODB_OPERATION_SECONDS": "1"}
    with service(tmp_path, workers=1, **settings) as served:
        served.token = served.sign_in()
        yield served


@pytest.fixture
def player(replicas):
    player = make_player()
    with MongoClient(replicas.uri, w="majority") as client:
        client.quartermaster.players.insert_one(player)
    return player["_id"]


def change(served, player, path, body, headers):
    headers = {**headers, "Authorization": f"Bearer {served.token}"}
    status, headers, _ = served.ask("POST", f"/api/v1/players/{player}/{path}", body, **headers)
    return status, headers.get("Idempotency-Replayed")


CHANGES = [
    # Asked again, this one is found in the journal.
    ("items/give", {"itemid": guid(), "quantity": 3}, {"Idempotency_Key": "once"}),
    # And this one finds nothing to change.
    (f"variables/{guid()}", {"value": 7}, {}),
]


def test_a_change_is_not_confirmed_by_a_primary_that_would_take_it_back(replicas, served, player):
    primary = replicas.primary()
    followers = replicas.others(primary)
    for follower in followers:
        follower.kill()
    # The primary has made each change at the first time, and nobody else will ever know of it.
    answers = [change(served, player, *asked)[0] for asked in CHANGES for _ in range(2)]
    primary.kill()
    for follower in followers:
        follower.start()
    replicas.elect(followers[0])
    assert answers == [503] * 4
    assert [change(served, player, *asked) for asked in CHANGES] == [(200, None)] * 2
