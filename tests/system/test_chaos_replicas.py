"""Everything breaks once under load, on a replica set of three: nothing is lost or done twice."""

from __future__ import annotations

from functools import partial

import pytest
from pymongo import MongoClient

pytest.importorskip("psutil", reason="the bench extra is not installed")

from tests.factories import guid, make_player
from tests.system.chaos import clock, faults, people
from tests.system.chaos.replicas import SETTINGS, replica_set
from tests.system.chaos.service import Service, service
from tests.system.programs import wait_until


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    """Three servers, which a test is to start."""
    with replica_set(tmp_path_factory.mktemp("replicas")) as replicas:
        yield replicas


@pytest.fixture(scope="module")
def served(tmp_path_factory, replicas):
    """The service, which comes up before its database does."""
    served = Service(tmp_path_factory.mktemp("service"), MONGODB_URI=replicas.uri)
    faults.database_away_at_start(served, come=replicas.start)
    served.add_account()
    yield served
    served.stop()
    assert served.tracebacks() == 0


def test_a_primary_that_is_killed_paused_or_deposed_loses_nothing(replicas, served):
    seen = faults.primary(replicas, served, rounds=1).check()
    assert seen.answers[503] > 0


def test_killed_workers_reloads_and_restarts_lose_nothing(replicas, served):
    faults.workers(replicas, served, rounds=1).check()


def test_people_are_erased_and_players_brought_back_whatever_dies(replicas, served):
    people.storm(replicas, served, rounds=1).check()


@pytest.mark.skipif(not clock.COMPILER, reason=clock.MISSING)
def test_a_clock_that_jumps_loses_nothing(replicas, served, tmp_path):
    faults.clock(replicas, tmp_path, rounds=1).check()


CHANGES = [
    # Asked again, this one is found in the journal.
    ("items/give", {"itemid": guid(), "quantity": 3}, {"Idempotency_Key": "once"}),
    # And this one finds nothing to change.
    (f"variables/{guid()}", {"value": 7}, {}),
]


@pytest.fixture
def player(replicas, served):
    player = make_player()
    with MongoClient(replicas.uri, w="majority") as client:
        client.quartermaster.players.insert_one(player)
    return player["_id"]


def change(served, token, player, path, body, headers):
    """Ask for a change; return the status, and whether it was told to have been made before."""
    headers = {**headers, "Authorization": f"Bearer {token}"}
    status, headers, _ = served.ask("POST", f"/api/v1/players/{player}/{path}", body, **headers)
    return status, headers.get("Idempotency-Replayed")


def test_a_change_is_not_confirmed_by_a_primary_that_would_take_it_back(replicas, player, tmp_path):
    impatient = {"MONGODB_URI": replicas.uri, "MONGODB_OPERATION_SECONDS": "1"}
    # Without followers, it stays the primary for as long as it is asked here.
    replicas.elect_after(30_000)
    with service(tmp_path, workers=1, account=False, **impatient) as served:
        ask = partial(change, served, served.sign_in(), player)
        primary, followers = replicas.primary(), replicas.others(replicas.primary())
        for follower in followers:
            follower.kill()
        # The primary makes each change at the first time, and nobody else ever knows of it.
        answers = [ask(*wanted)[0] for wanted in CHANGES for _ in range(2)]
        primary.kill()
        for follower in followers:
            follower.start()
        replicas.elect(followers[0])
        assert answers == [503] * 4
        # On a busy machine, it takes the service some tries until a majority confirms anything.
        spell = ("spells/teach", {"spellid": guid()}, {})
        wait_until(lambda: ask(*spell)[0] in (200, 409), served.output)
        assert [ask(*wanted) for wanted in CHANGES] == [(200, None)] * 2
    primary.start()
    replicas.elect_after(SETTINGS["electionTimeoutMillis"])
