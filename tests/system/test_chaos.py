"""Everything breaks once, under load, and nothing that was promised is lost or done twice.

``make chaos`` breaks the same things again and again, and writes docs/measurements.rst.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pymongo import MongoClient

pytest.importorskip("psutil", reason="the bench extra is not installed")

from tests.factories import guid, make_player
from tests.system.chaos import clock, disk, faults, games, network, skew, soak, splits
from tests.system.chaos.replicas import SETTINGS, replica_set
from tests.system.chaos.service import Service, service
from tests.system.chaos.trial import Trial


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
        assert [ask(*wanted) for wanted in CHANGES] == [(200, None)] * 2
    primary.start()
    replicas.elect_after(SETTINGS["electionTimeoutMillis"])


def test_a_killed_embedded_server_loses_nothing(tmp_path):
    faults.embedded(tmp_path, rounds=1).check()


@pytest.mark.skipif(not disk.IS_ALLOWED, reason=disk.MISSING)
def test_a_full_disk_loses_nothing(tmp_path):
    seen = faults.full_disk(tmp_path, rounds=1).check()
    assert seen.answers[503] > 0


@pytest.mark.skipif(not disk.IS_ALLOWED, reason=disk.MISSING)
def test_a_full_disk_for_temporary_files_breaks_no_request(own_database, tmp_path):
    """Metrics are counted in files there, and writing beyond a full disk's end kills a process."""
    with disk.small_disk(tmp_path / "tmp", "16m") as temporary:
        place = {"TMPDIR": str(temporary.folder)}
        with service(tmp_path, workers=2, preload=place, MONGODB_URI=own_database) as served:
            token = {"Authorization": f"Bearer {served.sign_in()}"}
            temporary.fill()
            workers = served.workers()
            answers = {served.ask("GET", path, **token)[0] for path in documented(served) * 4}
            assert answers <= {200, 400, 403, 404, 405}
            assert served.workers() == workers
            # Whoever comes in its place may find no room for files of its own.
            served.kill_worker()
            temporary.fill()
            served.kill_worker()
            served.wait_until_ready()
            assert served.status("/metrics") == 200


def documented(served):
    """Return every path that the service has, with something in place of each parameter."""
    paths = json.loads(served.ask("GET", "/api/openapi.json")[2])["paths"]
    return [path.replace("{", "").replace("}", "") for path in paths]


@pytest.fixture
def own_database(mongodb_uri):
    """A database that no other test has."""
    yield mongodb_uri.replace("/?", "/chaos?")
    with MongoClient(mongodb_uri) as client:
        client.drop_database("chaos")


def test_a_slow_database_holds_nobody_up_for_long(own_database, tmp_path):
    seen = faults.slow_database(own_database, tmp_path, rounds=1).check()
    assert seen.answers[503] > 0


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_a_soak_leaves_memory_connections_and_files_as_they_were(own_database, tmp_path):
    seen = soak.soak(own_database, tmp_path, requests=4000).check()
    assert seen.requests >= 4000


@pytest.mark.skipif(not clock.COMPILER, reason=clock.MISSING)
def test_clocks_that_disagree_let_no_more_guesses_through_and_lose_nothing(own_database, tmp_path):
    skew.storm(own_database, tmp_path, rounds=1, skews=[skew.HOUR]).check()


def test_games_that_write_beside_the_service_lose_and_gain_nothing(own_database, tmp_path):
    games.storm(own_database, tmp_path, rounds=1, seconds=5).check()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Three servers and some stacks of the service, on machines between which packets are lost."""
    if not network.IS_ALLOWED:
        pytest.skip(network.MISSING)
    with splits.world(tmp_path_factory.mktemp("world")) as world:
        yield world


def test_what_an_isolated_primary_did_counts_for_nothing(world):
    assert Trial(world).run().broken_laws() == []


@pytest.mark.parametrize("kind", [(splits.TWO_WAY, True), (splits.MUTE, False)])
def test_a_split_network_loses_and_invents_nothing(world, kind):
    seen = splits.storm(world, rounds=1, kinds=[kind]).check()
    assert seen.answers[200] > 0


def test_what_a_dead_run_left_of_its_network_is_swept():
    if not network.IS_ALLOWED:
        pytest.skip(network.MISSING)
    # Without a cleanup, and at once, as after a SIGKILL.
    code = "import contextlib, os; from tests.system.chaos.network import Network; "
    code += "Network(contextlib.ExitStack()); os._exit(1)"
    dead = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    dead.wait()
    names = f"{network.PREFIX}{dead.pid}-*"
    assert list(network.NAMES.glob(names))
    network.sweep()
    assert not list(network.NAMES.glob(names))
