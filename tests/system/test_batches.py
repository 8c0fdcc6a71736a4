"""Batches in real workers: they outlive whoever has started them, and a body goes to disk first.

Bodies are received by gunicorn, and through nginx as we configure it.
"""

import http.client
import itertools
import json
import os
import signal
import socket
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from app.maintenance.demo.catalogue import user_name
from tests.factories import guid
from tests.system import nginx
from tests.system.nginx import parsed, proxying, read_all
from tests.system.programs import wait_until, workers_of

PATH = "/api/v1/batches"
MIB = 2**20
LIMIT = 24 * MIB
# Within which a worker is free again, which waits five for the rest of a body that is not read.
SOON = 20
THREADS = 8
# More than a worker has threads, those for passwords and mails included.
CLIENTS = 64
# Another account than demo.
OTHER = user_name(7)
PIECE = 64 * 1024
OWN = "You are sending other batches at the moment; please try again."
ITEM = "6a63aae5-f1a5-445f-9116-7245cc53b01c"
ROWS = 2000
# How many players of the demo get how many gifts each.
MOST, ROUNDS = 400, 6
# Measured with 50,000 rows: 46 MiB, at the peak. Their JSON has 7 MiB.
MOST_GROWTH = 75 * MIB


@pytest.fixture(scope="module")
def server(serve_socket):
    settings = {"WORKERS": "1", "THREADS": str(THREADS), "ACCESS_TOKEN_SECONDS": "3600"}
    with serve_socket("--demo", BATCH_CONTENT_LENGTH=str(LIMIT), **settings) as server:
        server.command("api", "grant", OTHER, "api")
        server.others_token = server.command("token", OTHER)
        server.sign_in()
        server.players = [player["_id"] for player in server.db.players.find({}, ["_id"])]
        yield server


@pytest.fixture(scope="module")
def site(server, tmp_path_factory):
    if not nginx.NGINX:
        pytest.skip(nginx.MISSING)
    with proxying(tmp_path_factory.mktemp("door"), server.socket) as site:
        yield site


def body_of(server, rows):
    players = itertools.cycle(server.players)
    give = {"Operation": "give", "ItemId": ITEM, "Quantity": 1}
    return json.dumps({"Rows": [{"Player": next(players), **give} for _ in range(rows)]}).encode()


@pytest.fixture(scope="module")
def body(server):
    """A body of some rows in some MiB."""
    return body_of(server, ROWS).rjust(3 * MIB)


def pieces(body):
    return (body[start : start + PIECE] for start in range(0, len(body), PIECE))


def headers_of(server, **more):
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    return {**headers, **{name.replace("_", "-"): value for name, value in more.items()}}


def send(connection, server, body, **headers):
    """Send a body as it is, or pieces of one in chunks, and return status, headers and JSON."""
    is_whole = isinstance(body, bytes)
    with closing(connection):
        chunked = {} if is_whole else {"Transfer_Encoding": "chunked"}
        sent = headers_of(server, **headers, **chunked)
        connection.request("POST", PATH, body, sent, encode_chunked=not is_whole)
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())


@contextmanager
def begun(server, length=None, sent=b"", path=PATH, **headers):
    """Yield a socket on which a request has begun, with this much of its body."""
    framing = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
    lines = [f"{name}: {value}" for name, value in headers_of(server, **headers).items()]
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", framing, *lines, "", ""])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(server.socket)
        # Whoever is refused at once need not be read to the end.
        with suppress(BrokenPipeError):
            client.sendall(head.encode() + sent)
        yield client


def left(server):
    """Return how many documents there are of batches and of their rows."""
    return [server.db[name].count_documents({}) for name in ("batches", "batch_rows")]


def assert_serves(server):
    """Small requests are answered at once, whatever else is going on."""
    begun_at = time.monotonic()
    for path in ("/healthz", "/api/v1/players?pageSize=1"):
        with closing(server.connection(20)) as connection:
            connection.request("GET", path, headers=headers_of(server))
            assert connection.getresponse().status == 200
    assert time.monotonic() - begun_at < SOON


def test_a_large_plan_arrives_whole_through_either_door_in_either_framing(server, site, body):
    """Its key is of its bytes: what arrives otherwise would be another request, a 409."""
    key = {"Idempotency_Key": guid()}
    status, headers, batch = send(server.connection(), server, body, **key)
    assert (status, batch["Rows"], batch["Ready"]) == (200, ROWS, ROWS), batch
    for connection, sent in (
        (server.connection(), pieces(body)),
        (server.connection(), iter([body])),
        (site.connection(), body),
        (site.connection(), pieces(body)),
    ):
        status, headers, again = send(connection, server, sent, **key)
        assert (status, again["Id"]) == (200, batch["Id"]), again
        assert headers["Idempotency-Replayed"] == "true"
    changed = body.replace(b"1}]}", b"2}]}")
    assert send(site.connection(), server, changed, **key)[0] == 409


def test_a_body_over_the_limit_is_a_413_and_leaves_nothing(server, site):
    before = left(server)
    with begun(server, LIMIT + 1) as client:  # of which not one byte is sent
        assert parsed(read_all(client))[0] == 413
    blank = itertools.repeat(b" " * PIECE, LIMIT // PIECE + 1)
    status, _, answer = send(server.connection(), server, blank)
    assert (status, answer["Message"][-1]) == (413, ".")
    # nginx has the limit of the usual configuration.
    with closing(site.connection()) as connection:
        connection.putrequest("POST", PATH)
        connection.putheader("Content-Length", str(32 * MIB + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413
    assert left(server) == before
    assert_serves(server)


@pytest.mark.parametrize("length", [2 * MIB, None], ids=["length", "chunks"])
def test_a_body_that_breaks_off_is_refused_and_leaves_nothing(server, body, length):
    before = left(server)
    part = body[:MIB] if length else b"%X\r\n%s" % (2 * MIB, body[:MIB])
    with begun(server, length, part) as client:
        client.shutdown(socket.SHUT_WR)
        status, _, answer = parsed(read_all(client))
    assert (status, json.loads(answer)["Message"][-1]) == (400, ".")
    with begun(server, length, part):
        pass  # and is gone
    assert left(server) == before
    assert_serves(server)


def test_clients_that_stop_half_way_have_a_few_threads_and_hold_up_nobody(server, body):
    """Without nginx, which would receive their bodies without a thread."""
    small = body_of(server, 3)
    with ExitStack() as stack:
        half = body[:MIB]
        stack.enter_context(begun(server, 2 * MIB, half))
        # Of the half of the threads that may wait for bodies, one account has a quarter.
        wait_until(lambda: send(server.connection(), server, small)[2].get("Message") == OWN)
        for _ in range(CLIENTS):
            with begun(server, 2 * MIB, half) as refused:
                assert refused.recv(12) == b"HTTP/1.1 503"
        assert_serves(server)
        other = {"Authorization": f"Bearer {server.others_token}"}
        for sent in (small, pieces(small)):
            assert send(server.connection(), server, sent, **other)[0] == 200
    # Whoever goes away gives the place back.
    wait_until(lambda: send(server.connection(), server, small)[0] == 200)


def test_a_stranger_is_refused_before_the_body_is_read(server, body):
    begun_at = time.monotonic()
    with begun(server, 20 * MIB, body[:PIECE], Authorization="Bearer wrong") as client:
        assert parsed(read_all(client))[0] == 401
    assert time.monotonic() - begun_at < SOON
    # Whoever sends all of it before reading gets the answer as well, or is cut off.
    try:
        blank = b" " * 20 * MIB
        assert send(server.connection(), server, blank, Authorization="Bearer wrong")[0] == 401
    except (ConnectionError, http.client.BadStatusLine):
        pass
    assert_serves(server)


def memory(pid, name):
    """Return a number of bytes from the status of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


@pytest.mark.everything
def test_a_plan_of_50_000_rows_needs_little_memory(server):
    (worker,) = workers_of(server)
    body = body_of(server, 50_000)
    Path(f"/proc/{worker}/clear_refs").write_text("5")  # the peak begins anew
    before = memory(worker, "VmRSS")
    status, _, batch = send(server.connection(400), server, body)
    assert (status, batch["Ready"]) == (200, 50_000), batch
    assert memory(worker, "VmHWM") - before < MOST_GROWTH


def test_a_batch_that_was_started_outlives_its_caller_its_workers_and_the_service(serve):
    """Nobody asks for anything after the start, while workers and then all are killed."""
    few = {"MONGODB_DATABASE": "killed_batches", "WORKERS": "2", "THREADS": "4"}
    with serve("--demo", **few) as server:
        db = server.db
        server.sign_in()

        def done():
            return db.batch_rows.count_documents({"Verdict": "done"})

        def kill_some(pids):
            before = done()
            wait_until(lambda: done() > before)
            for pid in pids(server):
                os.kill(pid, signal.SIGKILL)

        players = [player["_id"] for player in db.players.find({}, ["_id"])]
        give = {"Operation": "give", "ItemId": ITEM, "Quantity": 1, "BankOverflow": True}
        rows = [{"Player": player, **give} for player in players[:MOST] for _ in range(ROUNDS)]
        batch = server.json("POST", PATH, {"Rows": rows})
        assert batch["Ready"] == len(rows), batch
        assert server.json("POST", f"{PATH}/{batch['Id']}/run")["State"] == "running"
        for _ in range(2):
            kill_some(lambda server: list(workers_of(server))[:1])
        kill_some(lambda server: [*workers_of(server), server.pid])
        assert done() < len(rows)
    with serve(**few) as server:
        db = server.db
        wait_until(lambda: db.batches.find_one()["State"] == "done")
        assert db.batches.find_one()["Counts"]["Done"] == len(rows)
        keyed = {"Via": "batch"}
        assert db.history.count_documents(keyed) == len(rows)
        assert len(db.history.distinct("IdempotencyKey", keyed)) == len(rows)
        assert set(db.history.distinct("By.Name", keyed)) == {"demo"}
        db.client.drop_database(db)
