"""The application needs no server of its own: plain gunicorn and Granian run it alike."""

import itertools
import json
import signal
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.exposition import Exposition
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

MIB = 2**20
WORKERS = 2
PATH = "/api/v1/batches"
GIVE = {"Operation": "give", "ItemId": "6a63aae5-f1a5-445f-9116-7245cc53b01c", "Quantity": 1}
COLUMNS = f"{','.join(['Player', *GIVE])}\n".encode()
# Of the blank lines in the body of a plan: nearly as much as nginx lets through.
LENGTH = 31 * MIB


@contextmanager
def gunicorn(folder, **settings):
    """Run gunicorn's own command, with none of our settings for it."""
    metrics = folder / "metrics"
    metrics.mkdir()
    command = [str(Path(sys.executable).with_name("gunicorn")), "-k", "gthread", "--threads", "8"]
    command += ["-w", str(WORKERS), "-b", f"unix:{settings['SOCKET']}", "wsgi:app"]
    with (folder / "output.txt").open("wb") as log:
        env = environment(folder, **settings, METRICS_DIR=str(metrics))
        process = execute(command, env, log)
    with stopped_at_the_end(Service(process, folder, 0, **settings)) as service:
        wait_until(service.is_ready, service.output)
        yield service


@contextmanager
def granian(folder, **settings):
    with serving(folder, "--server", "granian", WORKERS=str(WORKERS), **settings) as service:
        yield service


@pytest.fixture(params=[gunicorn, granian], ids=lambda server: server.__name__)
def service(request, tmp_path, database):
    """A service on a Unix socket, with some players of the demo and a token."""
    name = f"under_{request.param.__name__}"
    settings = {**database, "MONGODB_DATABASE": name, "SECRET_KEY": "s" * 32}
    settings |= {"SOCKET": str(tmp_path / "app.sock"), "TRUSTED_PROXIES": "1"}
    assert run(tmp_path, "db", "init", **settings).returncode == 0
    assert run(tmp_path, "seed", "--players", "50", **settings).returncode == 0
    with request.param(tmp_path, **settings) as service:
        service.add_account("Tool", "api")
        yield service
        service.db.client.drop_database(name)


def planned(service, rows):
    """Return the rows of a plan."""
    players = itertools.cycle([player["_id"] for player in service.db.players.find({}, ["_id"])])
    return [{"Player": next(players), **GIVE} for _ in range(rows)]


def peak_memory(service):
    """Return the most memory that one of the workers has had."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in workers_of(service)]
    return max(int(text.split("VmHWM:")[1].split()[0]) * 1024 for text in texts)


def test_batches_are_carried_out_metrics_add_up_bodies_stream_and_a_stop_drains(service):
    batch = service.json("POST", PATH, {"Rows": planned(service, 100)})
    service.json("POST", f"{PATH}/{batch['Id']}/run")
    wait_until(lambda: service.db.batches.find_one()["State"] == "done")
    wait_until(lambda: service.db.history.count_documents({"Via": "batch"}) == 100)
    wait_until(lambda: service.db.samples.count_documents({}) > 0)

    for _ in range(40):
        assert service.status("/healthz") == 200
    shown = Exposition(service.ask("GET", "/metrics")[2].decode())
    assert shown.sum("http_requests_total", route="/healthz") == 40
    assert (shown.sum("workers"), shown.sum("worker_starts_total")) == (WORKERS, WORKERS)

    lines = [f"{','.join(map(str, row.values()))}\n" for row in planned(service, 100)]
    rows, blank = "".join(lines).encode(), b" " * 65535 + b"\n"
    before = peak_memory(service)
    with closing(service.connection()) as connection:
        connection.putrequest("POST", PATH)
        connection.putheader("Authorization", f"Bearer {service.token}")
        connection.putheader("Content-Type", "text/csv")
        connection.putheader("Content-Length", str(len(COLUMNS) + LENGTH + len(rows)))
        connection.endheaders()
        connection.send(COLUMNS)
        for _ in range(LENGTH // len(blank)):
            connection.send(blank)
        assert peak_memory(service) - before < LENGTH / 2
        # The server is told to stop while a body arrives, and answers before it ends.
        service.send_signal(signal.SIGTERM)
        connection.send(rows)
        answer = connection.getresponse()
        batch = json.loads(answer.read())
    assert (answer.status, batch["Ready"]) == (200, 100), batch
    assert service.wait(60) == 0
