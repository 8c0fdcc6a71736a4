"""The application needs no server of its own: plain gunicorn and Granian run it alike."""

import itertools
import json
import signal
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pymongo import MongoClient

from tests.exposition import Exposition
from tests.system.programs import (
    SocketConnection,
    environment,
    execute,
    run,
    serving,
    socket_answers,
    wait_until,
)

MIB = 2**20
WORKERS = 2
PATH = "/api/v1/batches"
GIVE = {"Operation": "give", "ItemId": "6a63aae5-f1a5-445f-9116-7245cc53b01c", "Quantity": 1}
# Of the body of a plan, nearly as much as nginx lets through; most of it are spaces.
LENGTH = 31 * MIB


@contextmanager
def gunicorn(folder, **settings):
    """Run gunicorn's own command, with none of our settings for it."""
    metrics = folder / "metrics"
    metrics.mkdir()
    command = [str(Path(sys.executable).with_name("gunicorn")), "-k", "gthread", "--threads", "8"]
    command += ["-w", str(WORKERS), "-b", f"unix:{settings['SOCKET']}", "wsgi:app"]
    output = folder / "output.txt"
    with output.open("wb") as log:
        env = environment(folder, **settings, METRICS_DIR=str(metrics))
        process = execute(command, env, log)
    try:
        wait_until(lambda: socket_answers(settings["SOCKET"]), output)
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def granian(folder, **settings):
    with serving(folder, "--server", "granian", WORKERS=str(WORKERS), **settings) as process:
        yield process


@pytest.fixture(params=[gunicorn, granian], ids=lambda server: server.__name__)
def service(request, tmp_path, mongodb_uri):
    """A service on a Unix socket, with the players of the demo and a token."""
    name = f"under_{request.param.__name__}"
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": name, "SECRET_KEY": "s" * 32}
    settings |= {"SOCKET": str(tmp_path / "app.sock"), "TRUSTED_PROXIES": "1"}
    assert run(tmp_path, "db", "init", **settings).returncode == 0
    assert run(tmp_path, "seed", "--players", "50", **settings).returncode == 0
    account = ("Tool", "--email", "tool@example.com", "--password-stdin")
    assert run(tmp_path, "user", "create", *account, stdin="secret", **settings).returncode == 0
    assert run(tmp_path, "api", "grant", "Tool", "api", **settings).returncode == 0
    with MongoClient(mongodb_uri) as client, request.param(tmp_path, **settings) as process:
        token = run(tmp_path, "token", "Tool", **settings).stdout.strip()
        process.socket, process.db = settings["SOCKET"], client[name]
        process.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        yield process
        client.drop_database(name)


def ask(service, method, path, body=None):
    with closing(SocketConnection(service.socket, 120)) as connection:
        connection.request(method, path, body, service.headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def planned(service, rows):
    """Return the body of a plan, in pieces."""
    players = itertools.cycle([player["_id"] for player in service.db.players.find({}, ["_id"])])
    body = json.dumps({"Rows": [{"Player": next(players), **GIVE} for _ in range(rows)]}).encode()
    return [body[at : at + 65536] for at in range(0, len(body), 65536)]


def peak_memory(service):
    """Return the most memory that one of the workers has had."""
    children = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in children]
    return max(int(text.split("VmHWM:")[1].split()[0]) * 1024 for text in texts)


def test_metrics_add_up_batches_stream_and_a_stop_drains(service):
    for _ in range(40):
        assert ask(service, "GET", "/healthz")[0] == 200
    shown = Exposition(ask(service, "GET", "/metrics")[1].decode())
    assert shown.sum("http_requests_total", route="/healthz") == 40
    assert (shown.sum("workers"), shown.sum("worker_starts_total")) == (WORKERS, WORKERS)

    before, pieces = peak_memory(service), planned(service, 100)
    with closing(SocketConnection(service.socket, 120)) as connection:
        connection.putrequest("POST", PATH)
        for name, value in {**service.headers, "Content-Length": str(LENGTH)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        padding = LENGTH - sum(map(len, pieces))
        for size in [MIB] * (padding // MIB) + [padding % MIB]:
            connection.send(b" " * size)
        assert peak_memory(service) - before < LENGTH / 2
        # The server is told to stop while a body arrives, and answers before it ends.
        service.send_signal(signal.SIGTERM)
        for piece in pieces:
            connection.send(piece)
        answer = connection.getresponse()
        batch = json.loads(answer.read())
    assert (answer.status, batch["Ready"]) == (200, 100), batch
    assert service.wait(60) == 0


def test_background_threads_carry_out_a_batch_and_move_its_entries(service):
    batch = json.loads(ask(service, "POST", PATH, b"".join(planned(service, 100)))[1])
    assert ask(service, "POST", f"{PATH}/{batch['Id']}/run")[0] == 200
    wait_until(lambda: service.db.batches.find_one()["State"] == "done")
    wait_until(lambda: service.db.history.count_documents({"Via": "batch"}) == 100)
    wait_until(lambda: service.db.samples.count_documents({}) > 0)
