"""Faults under load, on real servers: nothing that was promised is lost or done twice.

``make test`` has the first storm and the first trial of each table, ``make test-all`` every one of
them once. ``make chaos`` repeats them for hours, and writes docs/measurements.rst.
"""

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
from tests.system.chaos import clock, disk, faults, games, network, people, skew, soak, splits
from tests.system.chaos.replicas import SETTINGS, replica_set
from tests.system.chaos.service import Service, service
from tests.system.chaos.spanning import SpanningTrial
from tests.system.chaos.trial import Trial
from tests.system.programs import wait_until
from tests.tiers import some

needs_network = pytest.mark.skipif(not network.IS_ALLOWED, reason=network.MISSING)
needs_disk = pytest.mark.skipif(not disk.IS_ALLOWED, reason=disk.MISSING)
needs_compiler = pytest.mark.skipif(not clock.COMPILER, reason=clock.MISSING)
needs_wrk = pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")


@pytest.fixture(scope="module")
def split_world(tmp_path_factory):
    """Three servers and some stacks of the service, on machines between which packets are lost."""
    with splits.world(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    """Three servers, which the service waits for."""
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


@pytest.fixture
def own_uri(mongodb_uri):
    """A database that no other test has."""
    yield mongodb_uri.replace("/?", "/chaos?")
    with MongoClient(mongodb_uri) as client:
        client.drop_database("chaos")


def split(get, _):
    """The primary is killed, made to step down, and cut off with a part of the service."""
    world = get("split_world")
    more = {
        "primary killed": world.replicas.kill_primary,
        "primary stepped down": world.replicas.step_down,
    }
    return splits.storm(world, 1, kinds=[(splits.TWO_WAY, True)], more=more)


STORMS = {
    "split": (split, needs_network),
    "mute": (
        lambda get, _: splits.storm(get("split_world"), 1, kinds=[(splits.MUTE, False)]),
        needs_network,
    ),
    "primary": (lambda get, _: faults.primary(get("replicas"), get("served"), 1), ()),
    "workers": (lambda get, _: faults.workers(get("replicas"), get("served"), 1), ()),
    "people": (lambda get, _: people.storm(get("replicas"), get("served"), 1), ()),
    "clock": (
        lambda get, folder: get("served") and faults.clock(get("replicas"), folder, 1),
        needs_compiler,
    ),
    "embedded server": (lambda _, folder: faults.embedded(folder, 1), ()),
    "full disk": (lambda _, folder: faults.full_disk(folder, 1), needs_disk),
    "slow database": (lambda get, folder: faults.slow_database(get("own_uri"), folder, 1), ()),
    "soak": (lambda get, folder: soak.soak(get("own_uri"), folder, writes=1000), needs_wrk),
    "skewed clocks": (
        lambda get, folder: skew.storm(get("own_uri"), folder, 1, skews=[skew.HOUR]),
        needs_compiler,
    ),
    "games": (lambda get, folder: games.storm(get("own_uri"), folder, 1, seconds=3), ()),
}
# In these, the service must have been without its database for a while.
WITHOUT_DATABASE = {"primary", "full disk", "slow database"}
if not network.IS_ALLOWED:
    STORMS = {"primary": STORMS.pop("primary"), **STORMS}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=STORMS[name][1]) for name in some(STORMS, 1)]
)
def test_a_storm_loses_and_invents_nothing(request, tmp_path, name):
    seen = STORMS[name][0](request.getfixturevalue, tmp_path).check()
    assert seen.answers[200] > 0
    assert seen.answers[503] > 0 or name not in WITHOUT_DATABASE


CHANGES = [
    # Asked again, this one is found in the journal.
    ("items/give", {"itemid": guid(), "quantity": 3}, {"Idempotency_Key": "once"}),
    # And this one finds nothing to change.
    (f"variables/{guid()}", {"value": 7}, {}),
]


def primary_alone(get, folder):
    """A change is not confirmed by a primary whose followers are dead."""
    get("served")
    replicas, player = get("replicas"), make_player()
    with MongoClient(replicas.uri, w="majority") as client:
        client.quartermaster.players.insert_one(player)
    # Without followers, it stays the primary for as long as it is asked here.
    replicas.elect_after(30_000)
    impatient = {"MONGODB_URI": replicas.uri, "MONGODB_OPERATION_SECONDS": "1"}
    with service(folder, workers=1, account=False, **impatient) as served:
        ask = partial(change, served, served.sign_in(), player["_id"])
        primary, followers = replicas.primary(), replicas.others(replicas.primary())
        for follower in followers:
            follower.kill()
        # The primary makes each change at the first time, and nobody else ever knows of it.
        answers = [ask(*wanted)[0] for wanted in CHANGES for _ in range(2)]
        primary.kill()
        for follower in followers:
            follower.start()
        replicas.elect(followers[0])
        # On a busy machine, it takes the service some tries until a majority confirms anything.
        spell = ("spells/teach", {"spellid": guid()}, {})
        wait_until(lambda: ask(*spell)[0] in (200, 409), served.output)
        later = [ask(*wanted) for wanted in CHANGES]
    primary.start()
    replicas.elect_after(SETTINGS["electionTimeoutMillis"])
    laws = ([503] * 4, answers), ([(200, None)] * 2, later)
    return [f"{seen}, not {right}" for right, seen in laws if seen != right]


def change(served, token, player, path, body, headers):
    """Ask for a change; return the status, and whether it was told to have been made before."""
    headers = {**headers, "Authorization": f"Bearer {token}"}
    status, headers, _ = served.ask("POST", f"/api/v1/players/{player}/{path}", body, **headers)
    return status, headers.get("Idempotency-Replayed")


def full_temporary_disk(get, folder):
    """Metrics are counted in files there, and writing beyond a full disk's end kills a process."""
    with disk.small_disk(folder / "tmp", "16m") as temporary:
        place = {"TMPDIR": str(temporary.folder)}
        with service(folder, workers=2, preload=place, MONGODB_URI=get("own_uri")) as served:
            token = {"Authorization": f"Bearer {served.sign_in()}"}
            temporary.fill()
            workers = served.workers()
            answers = {served.ask("GET", path, **token)[0] for path in documented(served) * 4}
            died = served.workers() != workers
            # Whoever comes in its place may find no room for files of its own.
            served.kill_worker()
            temporary.fill()
            served.kill_worker()
            served.wait_until_ready()
            seen = [*answers - {200, 400, 403, 404, 405}, *["a worker died"] * died]
            return seen if served.status("/metrics") == 200 else [*seen, "no metrics"]


def documented(served):
    """Return every path that the service has, with something in place of each parameter."""
    paths = json.loads(served.ask("GET", "/api/openapi.json")[2])["paths"]
    return [path.replace("{", "").replace("}", "") for path in paths]


TRIALS = {
    "an isolated primary": (
        lambda get, _: Trial(get("split_world")).run().broken_laws(),
        needs_network,
    ),
    "what spans documents": (
        lambda get, _: SpanningTrial(get("split_world")).broken_laws(),
        needs_network,
    ),
    "a primary alone": (primary_alone, ()),
    "a full disk for temporary files": (full_temporary_disk, needs_disk),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=TRIALS[name][1]) for name in some(TRIALS, 1)]
)
def test_a_fault_step_by_step_breaks_no_law(request, tmp_path, name):
    assert TRIALS[name][0](request.getfixturevalue, tmp_path) == []


@needs_network
def test_what_a_dead_run_left_of_its_network_is_swept():
    # Without a cleanup, and at once, as after a SIGKILL.
    code = "import contextlib, os; from tests.system.chaos.network import Network; "
    code += "Network(contextlib.ExitStack()); os._exit(1)"
    dead = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    dead.wait()
    names = f"{network.PREFIX}{dead.pid}-*"
    assert list(network.NAMES.glob(names))
    network.sweep()
    assert not list(network.NAMES.glob(names))
