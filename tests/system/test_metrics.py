"""What /metrics shows of a whole run: several real workers, which die and are replaced."""

import os
import platform
import re
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from app.database import COLLECTIONS
from app.storage.schema.collections import init_database
from app.storage.schema.migrations import CURRENT
from tests.exposition import Exposition
from tests.factories import guid, make_player
from tests.ports import free_port
from tests.system.programs import (
    Service,
    environment,
    execute,
    run,
    serving,
    stopped_at_the_end,
    wait_until,
    workers_of,
)
from tests.tiers import some

WORKERS = 3
ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs" / "grafana.json"
ALERTS = ROOT / "deploy" / "alerts.yaml"
# Told by the machine that makes the backups, in the words of this script.
TOLD_OF_BACKUPS = set(
    re.findall(r"^(quartermaster_\w+) ", (ROOT / "deploy" / "backup-note").read_text(), re.M)
)


def exposition(server):
    status, _, text = server.ask("GET", "/metrics")
    assert status == 200, server.output.read_text(errors="replace")
    return Exposition(text.decode())


def counted(server):
    """Return how many of the requests that these tests send were counted."""
    return exposition(server).sum("http_requests_total", route="/healthz", status="200")


def send(server, times):
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: server.status("/healthz"), range(times))) == {200}


def files_in(folder):
    return sorted(file.name for file in folder.glob("qm-metrics-*/*"))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder where programs keep what is not meant to last."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@contextmanager
def plain_gunicorn(folder, **settings):
    """Serve as an operator would who uses no program of ours."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "-c", "python:config.gunicorn", "wsgi:app"]
    with (Path(folder) / "output.txt").open("wb") as log:
        process = execute(command, environment(folder, PORT=str(port), **settings), log)
    with stopped_at_the_end(Service(process, folder, port, **settings)) as service:
        wait_until(service.is_ready, service.output)
        yield service


@pytest.fixture
def settings(database):
    return {**database, "WORKERS": str(WORKERS)}


@pytest.fixture(scope="module")
def server(serve):
    """A server that tests share: each looks at what it adds."""
    with serve(WORKERS=str(WORKERS)) as server:
        wait_until(lambda: exposition(server).sum("workers") == WORKERS)
        yield server


@pytest.mark.parametrize("start", some([serving, plain_gunicorn], 1))
def test_every_worker_shows_what_all_have_counted(tmp_path, temporary, settings, start):
    with start(tmp_path, **settings) as server:
        wait_until(lambda: exposition(server).sum("workers") == WORKERS)
        send(server, 100)
        assert {counted(server) for _ in range(20)} == {100}
        shown = exposition(server)
        name = "http_request_duration_seconds"
        assert shown.sum(f"{name}_count", route="/healthz") == 100
        assert shown.sum(f"{name}_bucket", route="/healthz", le="+Inf") == 100
        assert shown.sum("worker_starts_total") == WORKERS
        assert len([name for name in files_in(temporary) if name.startswith("histogram_")]) > 1
    assert list(temporary.iterdir()) == []


def test_what_runs_is_shown_once_whoever_answers(server):
    (build,) = [s for s in exposition(server).samples if s.name == "quartermaster_build_info"]
    running = {"version": version("quartermaster"), "python": platform.python_version()}
    assert (build.value, build.labels) == (1, {**running, "schema": str(CURRENT)})


def test_what_a_killed_worker_counted_stays(server):
    before, starts = counted(server), exposition(server).sum("worker_starts_total")
    send(server, 50)
    os.kill(next(iter(workers_of(server))), signal.SIGKILL)
    wait_until(lambda: exposition(server).sum("worker_starts_total") == starts + 1)
    wait_until(lambda: exposition(server).sum("workers") == WORKERS)
    assert {counted(server) for _ in range(20)} == {before + 50}
    send(server, 50)
    assert {counted(server) for _ in range(20)} == {before + 100}


def test_a_reload_under_load_loses_no_count_and_never_counts_down(server):
    sent, seen, is_over = [], [], threading.Event()
    before, starts = counted(server), exposition(server).sum("worker_starts_total")

    def ask():
        while not is_over.is_set():
            sent.append(server.status("/healthz"))

    def watch():
        while not is_over.is_set():
            status, _, text = server.ask("GET", "/metrics")
            # A file is empty for a moment after a worker has created it, and then the sum fails.
            if status == 200:
                shown = Exposition(text.decode())
                seen.append(shown.sum("http_requests_total", route="/healthz", status="200"))

    threads = [threading.Thread(target=target) for target in (ask, ask, watch)]
    for thread in threads:
        thread.start()
    old = workers_of(server)
    server.send_signal(signal.SIGHUP)
    server.wait_for_replaced(old, WORKERS)
    is_over.set()
    for thread in threads:
        thread.join()
    assert set(sent) == {200}
    assert seen == sorted(seen)
    assert counted(server) == before + len(sent)
    wait_until(lambda: exposition(server).sum("workers") == WORKERS)
    assert exposition(server).sum("worker_starts_total") == starts + WORKERS


def test_commands_leave_no_files(tmp_path, temporary, settings, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(temporary))
    assert run(tmp_path, "db", "init", **settings).returncode == 0
    assert list(temporary.iterdir()) == []


def test_dashboard_and_alerts_ask_for_nothing_that_is_not_shown(server):
    """After traffic of every kind: changes that race, one that MongoDB refuses, and a mail."""
    server.add_account("racer", "api", "users.query")
    player, db = make_player(), server.db
    db.players.insert_one(player)
    teach = ("POST", f"/api/v1/players/{player['_id']}/spells/teach")

    def race():
        with ThreadPoolExecutor(12) as pool:
            taught = pool.map(lambda _: server.ask(*teach, {"spellid": guid()})[0], range(12))
            assert set(taught) <= {200, 409}
        return exposition(server).sum("transaction_retries_total", kind="player") > 0

    wait_until(race)
    db.command("collMod", "players", validator={"never": "true"}, validationLevel="strict")
    try:
        assert server.ask(*teach, {"spellid": guid()})[0] == 409
    finally:
        init_database(db, COLLECTIONS)
    assert server.status("/api/v1/users/racer/password/reset") == 200
    # The chores of a worker count unfinished erasures every few seconds.
    wait_until(lambda: "quartermaster_erasures" in exposition(server).names)
    shown = exposition(server)
    assert shown.sum("mongodb_operation_failures_total", operation="update") > 0
    assert shown.sum("mails_total", outcome="sent") == 1
    asked = set(re.findall(r"quartermaster_\w+", DASHBOARD.read_text()))
    asked_by_rules = {
        name
        for group in yaml.safe_load(ALERTS.read_text())["groups"]
        for rule in group["rules"]
        for name in re.findall(r"quartermaster_\w+", rule["expr"])
    }
    assert len(TOLD_OF_BACKUPS) == 2
    assert (asked | asked_by_rules) - shown.names - TOLD_OF_BACKUPS == set()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown.names}
    shown_by_it = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert families - shown_by_it == set()
