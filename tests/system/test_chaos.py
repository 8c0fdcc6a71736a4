"""Everything breaks once, under load, and nothing that was promised is lost or done twice.

``make chaos`` breaks the same things again and again, and writes docs/measurements.rst.
"""

from __future__ import annotations

import json
import shutil

import pytest
from pymongo import MongoClient

pytest.importorskip("psutil", reason="the bench extra is not installed")

from tests.system.chaos import clock, disk, faults, games, skew, soak
from tests.system.chaos.service import service


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
    seen = soak.soak(own_database, tmp_path, writes=1000).check()
    assert seen.verdict.acknowledged >= 1000


@pytest.mark.skipif(not clock.COMPILER, reason=clock.MISSING)
def test_clocks_that_disagree_let_no_more_guesses_through_and_lose_nothing(own_database, tmp_path):
    skew.storm(own_database, tmp_path, rounds=1, skews=[skew.HOUR]).check()


def test_games_that_write_beside_the_service_lose_and_gain_nothing(own_database, tmp_path):
    games.storm(own_database, tmp_path, rounds=1, seconds=3).check()
