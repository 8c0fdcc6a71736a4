"""Clients that are slow, or mean to be, at real gunicorn without nginx in front of it."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import resource
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
import trustme
from pymongo import MongoClient

from tests.factories import sha256
from tests.system.fork_server import start
from tests.system.programs import environment, free_port, serving, wait_until, workers_of
from tests.system.test_connections import busy, sign_in

THREADS = 2
# More than a worker has threads, whatever it has beside those for the database.
CLIENTS = THREADS + 22
SETTINGS = {"WORKERS": "1", "THREADS": str(THREADS), "MONGODB_DATABASE": "slow_clients"}
DEMO = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
POST = b"POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LARGE = b"GET /api/docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
CLOSE = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
GUNICORN = [sys.executable, "-m", "gunicorn", "-c", "python:config.gunicorn", "wsgi:app"]
TRICKLES = {
    "head": (b"GET /healthz HTTP/1.1\r\nX: ", b"x"),
    "body": (POST + b"Content-Length: 9999\r\n\r\n", b" "),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


@pytest.fixture(scope="module")
def database(mongodb_uri):
    yield mongodb_uri
    with MongoClient(mongodb_uri) as client:
        client.drop_database(SETTINGS["MONGODB_DATABASE"])


@pytest.fixture(scope="module")
def server(tmp_path_factory, database):
    patient = {"HEAD_SECONDS": "60", "BODY_SECONDS": "60", "SEND_SECONDS": "60"}
    settings = {**SETTINGS, **patient, "MONGODB_URI": database}
    with serving(tmp_path_factory.mktemp("slow"), "--demo", **settings) as server:
        yield server


def ask(server, method="GET", path="/healthz", **body):
    """Ask on a new connection, and be answered before long."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200


def ask_for_all(server):
    for _ in range(3):
        ask(server)
        ask(server, "POST", "/api/oauth/token", **DEMO)


@contextmanager
def connected(server, count, sent=b"", buffer=None):
    """Open connections that have sent this, and read nothing."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            if buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            client.connect(("127.0.0.1", server.port))
            client.sendall(sent)
            sockets.append(client)
        yield sockets


@contextmanager
def trickling(server, start, drop):
    """Let clients send something every fifth of a second, and never stop."""
    with connected(server, CLIENTS, start) as sockets:
        ended = threading.Event()

        def trickle():
            while not ended.wait(0.2):
                for client in sockets:
                    client.sendall(drop)

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield sockets
        finally:
            ended.set()
            thread.join()


def ended(sockets):
    """Return those that the server has closed, or answered."""
    return select.select(sockets, [], [], 0)[0]


@pytest.mark.parametrize("kind", TRICKLES)
def test_clients_that_send_byte_by_byte_hold_nobody_up(server, kind):
    with trickling(server, *TRICKLES[kind]) as sockets:
        ask_for_all(server)
        assert ended(sockets) == []


def test_clients_that_do_not_read_their_answers_hold_nobody_up(server):
    # More than the system keeps for a connection.
    with connected(server, CLIENTS, LARGE * 8, buffer=4096):
        ask_for_all(server)


def test_clients_that_do_not_close_hold_nobody_up(server):
    with connected(server, CLIENTS * 8, CLOSE):
        ask_for_all(server)


def test_bodies_that_stop_before_their_end_take_a_bounded_memory(server):
    part = POST + b"Content-Length: 1000000\r\n\r\n" + b" " * 999_000
    with connected(server, 80, part) as sockets:
        # A worker keeps 64 MiB; then who has been at it for longest makes room.
        wait_until(lambda: len(ended(sockets)) >= 12)
        ask_for_all(server)
        assert ended(sockets) == sockets[: len(ended(sockets))]
        assert len(ended(sockets)) < 20


def test_an_answer_that_is_read_slowly_comes_whole(server):
    with connected(server, 1, LARGE * 3 + CLOSE, buffer=4096) as [client]:
        client.settimeout(20)
        answer = client.makefile("rb")
        sizes = []
        for _ in range(3):
            head = b"".join(iter(answer.readline, b"\r\n"))
            length = int(head.lower().split(b"content-length: ")[1].split()[0])
            sizes.append(
                sum(len(answer.read(min(5000, length - at))) for at in range(0, length, 5000))
            )
            assert sizes[-1] == length > 1_000_000
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        assert answer.read().endswith(b"}")


def test_silent_connections_beyond_the_limit_of_files_hold_nobody_up(tmp_path, database):
    limits = (64, 400)
    settings = {**SETTINGS, "MONGODB_URI": database}
    with serving(tmp_path, "--demo", start=partial(start, files=limits), **settings) as server:
        assert "400 open files leaves a worker 234 connections instead of 1000" in (
            server.output.read_text()
        )
        [worker] = workers_of(server)
        assert resource.prlimit(worker, resource.RLIMIT_NOFILE) == (400, 400)
        # Who is being answered, or was a moment ago, is not in the way.
        with busy(server, THREADS, sign_in), connected(server, 300) as sockets:
            ask_for_all(server)
            # Who has been silent for longest has made room, and nobody else.
            wait_until(lambda: len(ended(sockets)) > 60)
            assert ended(sockets) == sockets[: len(ended(sockets))]
            assert len(ended(sockets)) < 90
        assert workers_of(server) == {worker}


def leave_free(pid, count):
    """Let a process open only so many files more."""
    used = {int(file.name) for file in Path(f"/proc/{pid}/fd").iterdir()}
    free = (number for number in range(400) if number not in used)
    # To poll even one file takes a limit of one.
    limit = next(itertools.islice(free, count, None)) if count else 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, 400))


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_worker_without_files_lives_on_and_does_not_spin(tmp_path, database):
    settings = {**SETTINGS, "MONGODB_URI": database, "CONNECTIONS": "100"}
    with serving(tmp_path, "--demo", start=partial(start, files=(400, 400)), **settings) as server:
        [worker] = workers_of(server)
        ask(server)
        leave_free(worker, 5)
        with connected(server, 50):
            for _ in range(5):
                ask(server)
        wait_until(lambda: "could not be opened" in server.output.read_text())
        # Nobody is there who could make room for the one that comes now.
        wait_until(lambda: is_idle(server, worker))
        leave_free(worker, 0)
        with connected(server, 1, CLOSE) as [client]:
            before, began = processor_seconds(worker), time.monotonic()
            assert not select.select([client], [], [], 1.5)[0]
            spent, passed = processor_seconds(worker) - before, time.monotonic() - began
            assert spent < passed / 4
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (400, 400))
            client.settimeout(20)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert workers_of(server) == {worker}


def is_idle(server, worker):
    """Tell whether a worker has no connection of a client."""
    port = f"{server.port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return not any(line[1].endswith(port) and line[3] not in ("0A", "06") for line in lines)


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory, database):
    """gunicorn as it is run without ``quartermaster serve``, with a certificate."""
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "both.pem")
    )
    settings = {**SETTINGS, "MONGODB_URI": database, "PORT": str(port)}
    with (folder / "output.txt").open("wb") as log:
        process = subprocess.Popen(
            [*GUNICORN, f"--certfile={folder}/both.pem", f"--keyfile={folder}/both.pem"],
            env=environment(folder, **settings),
            stdout=log,
            stderr=log,
        )
    process.port, process.context = port, ssl.create_default_context()
    authority.configure_trust(process.context)
    try:
        wait_until(lambda: answers_by_tls(process), folder / "output.txt")
        yield process
    finally:
        process.terminate()
        process.wait(30)


def answers_by_tls(server):
    try:
        return ask_by_tls(server, "/healthz") > 0
    except OSError:
        return False


def ask_by_tls(server, *paths):
    """Ask on one connection, and return how much came last."""
    connection = http.client.HTTPSConnection(
        "localhost", server.port, timeout=10, context=server.context
    )
    with closing(connection):
        for path in paths:
            connection.request("GET", path)
            answer = connection.getresponse()
            length = len(answer.read())
            assert answer.status == 200
    return length


def test_handshakes_that_stop_hold_nobody_up(tls_server):
    with connected(tls_server, CLIENTS, b"\x16\x03\x01"):
        assert ask_by_tls(tls_server, "/healthz", "/healthz") > 0


def test_a_large_answer_comes_whole_by_tls(tls_server):
    path = LARGE.split()[1].decode()
    assert ask_by_tls(tls_server, path, path) > 1_000_000
