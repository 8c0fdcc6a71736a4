"""Bodies of batches, which go to disk first, in a real worker and through our nginx."""

import itertools
import json
import socket
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from app.maintenance.demo.catalogue import user_name
from tests.factories import gift, guid
from tests.system import nginx
from tests.system.nginx import parsed, proxying, read_all
from tests.system.programs import wait_until, workers_of

PATH = "/api/v1/batches"
MIB = 2**20
LIMIT = 24 * MIB
# Within which a worker is free again, which waits five for the rest of a body that is not read.
SOON = 20
# More than the eight threads of the worker, those for passwords and mails included.
CLIENTS = 64
# Another account than demo.
OTHER = user_name(7)
PIECE = 64 * 1024
OWN = "You are sending other batches at the moment; please try again."
ROWS = 2000
# Measured with 50,000 rows: 46 MiB, at the peak. Their JSON has 7 MiB.
MOST_GROWTH = 75 * MIB


@pytest.fixture(scope="module")
def server(serve_socket):
    settings = {"WORKERS": "1", "THREADS": "8", "ACCESS_TOKEN_SECONDS": "3600"}
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
    players = itertools.islice(itertools.cycle(server.players), rows)
    return json.dumps({"Rows": [gift(player, 1) for player in players]}).encode()


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
def begun(server, length=None, sent=b"", **headers):
    """Yield a socket on which a request has begun, with this much of its body."""
    framing = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
    lines = [f"{name}: {value}" for name, value in headers_of(server, **headers).items()]
    head = "\r\n".join([f"POST {PATH} HTTP/1.1", "Host: x", framing, *lines, "", ""])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(server.socket)
        # Whoever is refused at once need not be read to the end.
        with suppress(BrokenPipeError):
            client.sendall(head.encode() + sent)
        yield client


@pytest.fixture
def unharmed(server):
    """In the end, nothing is stored, and small requests are answered at once."""
    stored = [server.db[name].count_documents({}) for name in ("batches", "batch_rows")]
    yield
    began = time.monotonic()
    for path in ("/healthz", "/api/v1/players?pageSize=1"):
        with closing(server.connection(SOON)) as connection:
            connection.request("GET", path, headers=headers_of(server))
            assert connection.getresponse().status == 200
    assert time.monotonic() - began < SOON
    assert [server.db[name].count_documents({}) for name in ("batches", "batch_rows")] == stored


def test_a_large_plan_arrives_whole_through_either_door_in_either_framing(server, site, body):
    """Its key is of its bytes: what arrives otherwise would be another request, a 409."""
    key = {"Idempotency_Key": guid()}
    status, headers, batch = send(server.connection(), server, body, **key)
    assert (status, batch["Rows"], batch["Ready"]) == (200, ROWS, ROWS), batch
    for door in (server, site):
        for sent in (body, pieces(body)):
            status, headers, again = send(door.connection(), server, sent, **key)
            assert (status, again["Id"]) == (200, batch["Id"]), again
            assert headers["Idempotency-Replayed"] == "true"
    changed = body.replace(b"1}]}", b"2}]}")
    assert send(site.connection(), server, changed, **key)[0] == 409


def test_a_body_over_the_limit_is_a_413(server, site, unharmed):
    with begun(server, LIMIT + 1) as client:  # of which not one byte is sent
        assert parsed(read_all(client))[0] == 413
    blank = itertools.repeat(b" " * PIECE, LIMIT // PIECE + 1)
    assert send(server.connection(), server, blank)[0] == 413
    # nginx has the limit of the usual configuration.
    with closing(site.connection()) as connection:
        connection.putrequest("POST", PATH)
        connection.putheader("Content-Length", str(32 * MIB + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413


@pytest.mark.parametrize("length", [2 * MIB, None], ids=["length", "chunks"])
def test_a_body_that_breaks_off_is_refused(server, body, unharmed, length):
    part = body[:MIB] if length else b"%X\r\n%s" % (2 * MIB, body[:MIB])
    with begun(server, length, part) as client:
        client.shutdown(socket.SHUT_WR)
        status, _, answer = parsed(read_all(client))
    assert (status, json.loads(answer)["Message"][-1]) == (400, ".")
    with begun(server, length, part):
        pass  # and is gone


def test_clients_that_stop_half_way_have_a_few_threads_and_hold_up_nobody(server, body):
    """Without nginx, which would receive their bodies without a thread."""
    small, half = body_of(server, 3), body[:MIB]
    with ExitStack() as stack:
        stack.enter_context(begun(server, 2 * MIB, half))
        # Of the half of the threads that may wait for bodies, one account has a quarter.
        wait_until(lambda: send(server.connection(), server, small)[2].get("Message") == OWN)
        for _ in range(CLIENTS):
            with begun(server, 2 * MIB, half) as refused:
                assert refused.recv(12) == b"HTTP/1.1 503"
        other = {"Authorization": f"Bearer {server.others_token}"}
        for sent in (small, pieces(small)):
            assert send(server.connection(SOON), server, sent, **other)[0] == 200
    # Whoever goes away gives the place back.
    wait_until(lambda: send(server.connection(), server, small)[0] == 200)


@pytest.mark.everything
def test_a_plan_of_50_000_rows_needs_little_memory(server):
    (worker,) = workers_of(server)
    process = Path(f"/proc/{worker}")

    def memory(name):
        status = (process / "status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024

    body = body_of(server, 50_000)
    (process / "clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    status, _, batch = send(server.connection(400), server, body)
    assert (status, batch["Ready"]) == (200, 50_000), batch
    assert memory("VmHWM") - before < MOST_GROWTH
