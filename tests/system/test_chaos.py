"""Faults under load, on real servers: nothing that was promised is lost or done twice.

``make test`` has the first storm and the first trial of each table, ``make test-all`` every one of
them once. ``make chaos`` repeats them for hours.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pymongo import MongoClient

pytest.importorskip("psutil", reason="the bench extra is not installed")

from tests.factories import guid, make_player
from tests.system.chaos import network, splits
from tests.system.chaos.machine import NO_DISK, small_disk
from tests.system.chaos.replicas import SETTINGS
from tests.system.chaos.service import service
from tests.system.chaos.stage import STORMS, Scale, Stage
from tests.system.chaos.trials import SingleTrial, SpanningTrial
from tests.system.programs import wait_until
from tests.tiers import some

# In these, the service must have been without its database for a while.
WITHOUT_DATABASE = {"primary", "full disk", "slow database"}
SCALE = Scale(kinds=tuple(some([(splits.TWO_WAY, True), (splits.MUTE, False)], 1)))


def names(table):
    """Return some names of a table as parameters; skipped is what cannot be tried here."""
    # What can be tried comes first: where no network can be split, a primary is killed.
    ordered = sorted(table.items(), key=lambda row: bool(row[1][1]))
    return [
        pytest.param(name, marks=pytest.mark.skipif(bool(why), reason=str(why)))
        for name, (_, why) in some(ordered, 1)
    ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory, mongodb_uri):
    with Stage(tmp_path_factory.mktemp("stage"), mongodb_uri) as stage:
        yield stage


@pytest.mark.parametrize("name", names(STORMS))
def test_a_storm_loses_and_invents_nothing(stage, name):
    seen = STORMS[name][0](stage, SCALE).check()
    assert seen.answers[200] > 0
    assert seen.answers[503] > 0 or name not in WITHOUT_DATABASE


CHANGES = [
    # Asked again, this one is found in the journal.
    ("items/give", {"itemid": guid(), "quantity": 3}, {"Idempotency_Key": "once"}),
    # And this one finds nothing to change.
    (f"variables/{guid()}", {"value": 7}, {}),
]


def primary_alone(stage):
    """A change is not confirmed by a primary whose followers are dead."""
    replicas, player = stage.replicated.replicas, make_player()
    with MongoClient(replicas.uri, w="majority") as client:
        client.quartermaster.players.insert_one(player)
    # Without followers, it stays the primary for as long as it is asked here.
    replicas.elect_after(30_000)
    impatient = {"MONGODB_URI": replicas.uri, "MONGODB_OPERATION_SECONDS": "1"}
    with service(stage.folder("alone"), workers=1, account=False, **impatient) as served:
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


def full_temporary_disk(stage):
    """Metrics are counted in files there, and writing beyond a full disk's end kills a process."""
    uri, folder = stage.database("temporary")
    with small_disk(folder / "tmp", "16m") as temporary:
        place = {"TMPDIR": str(temporary.folder)}
        with service(folder, preload=place, MONGODB_URI=uri) as served:
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
        lambda stage: SingleTrial(stage.split_world).broken_laws(),
        network.MISSING,
    ),
    "what spans documents": (
        lambda stage: SpanningTrial(stage.split_world).broken_laws(),
        network.MISSING,
    ),
    "a primary alone": (primary_alone, None),
    "a full disk for temporary files": (full_temporary_disk, NO_DISK),
}


@pytest.mark.parametrize("name", names(TRIALS))
def test_a_fault_step_by_step_breaks_no_law(stage, name):
    assert TRIALS[name][0](stage) == []


@pytest.mark.skipif(bool(network.MISSING), reason=str(network.MISSING))
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
