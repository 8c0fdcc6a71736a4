"""How the threads of a worker are shared among connections, at real gunicorn."""

import http.client
import json
import select
import signal
import socket
import threading
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

from tests.factories import sha256
from tests.system.programs import serving, wait_until

THREADS = 2
DEMO = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
JSON = {"Content-Type": "application/json"}
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory, database):
    folder = tmp_path_factory.mktemp("connections")
    few = {"WORKERS": "1", "THREADS": str(THREADS)}
    few |= {"HEAD_SECONDS": "1", "BODY_SECONDS": "1", "SEND_SECONDS": "1"}
    with serving(folder, "--demo", **few, **database) as server:
        yield server


def connect(server):
    return closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20))


def ask(connection):
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200


def sign_in(connection):
    connection.request("POST", "/api/oauth/token", json.dumps(DEMO), JSON)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200


@contextmanager
def busy(server, count, request=ask):
    """Keep some connections busy: on each, a request follows as soon as one is answered."""
    ended = threading.Event()
    answered = [0] * count

    def work(number):
        with connect(server) as connection:
            while not ended.is_set():
                request(connection)
                answered[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_more_busy_connections_than_threads_are_served_alike(server):
    # Signing in takes the server longer than the clients, so that requests wait for a thread.
    with busy(server, THREADS * 4, sign_in) as answered:
        wait_until(lambda: min(answered) > 5)
        assert max(answered) < 4 * min(answered)


def test_who_comes_later_is_served_beside_busy_connections(server):
    with busy(server, THREADS) as answered:
        wait_until(lambda: min(answered) > 50)
        with connect(server) as late:
            for _ in range(50):
                ask(late)


def test_silent_connections_take_no_thread(server):
    with ExitStack() as stack:
        for _ in range(THREADS * 20):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        with connect(server) as connection:
            ask(connection)


SERVICES = [
    b"GET /healthz HTTP/1.1\r\nHos",
    b"POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
]


@pytest.mark.parametrize("part", SERVICES)
def test_a_client_that_stops_amid_its_request_does_not_keep_a_thread(server, part):
    with ExitStack() as stack:
        for _ in range(THREADS * 4):
            stalled = socket.create_connection(("127.0.0.1", server.port))
            stack.enter_context(stalled).sendall(part)
        with connect(server) as connection:
            ask(connection)
    assert "Traceback" not in server.output.read_text()


@pytest.mark.parametrize("part", SERVICES)
def test_time_counts_from_the_beginning_and_not_from_the_last_byte(server, part):
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.1) as slow:
        slow.sendall(part)
        said = b""
        for _ in range(99):
            with suppress(TimeoutError):
                said = slow.recv(1000)
                break
            slow.sendall(b" ")
        head, _, body = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n")
        assert json.loads(body)["Message"].endswith("request timeout.")
        assert slow.recv(1000) == b""


def test_an_answer_that_nobody_reads_is_not_kept_for_ever(server):
    large = b"GET /api/docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(large * 8)
        gone = select.poll()
        gone.register(slow, select.POLLHUP | select.POLLRDHUP)
        assert gone.poll(20_000)


def test_clients_that_are_told_to_close_and_do_not_hold_nobody_up(server):
    farewell = HEALTH[:-2] + b"Connection: close\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(20):
            polite = socket.create_connection(("127.0.0.1", server.port))
            stack.enter_context(polite).sendall(farewell)
        with connect(server) as connection:
            ask(connection)
    assert "WORKER TIMEOUT" not in server.output.read_text()


def test_a_silent_connection_does_not_keep_a_worker_that_is_to_end(tmp_path, database):
    patient = {"WORKERS": "1", "DRAIN_SECONDS": "1", "GRACEFUL_TIMEOUT_SECONDS": "120"}
    with (
        serving(tmp_path, "--demo", **patient, **database) as server,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        with connect(server) as connection:
            ask(connection)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_a_worker_that_is_to_end_serves_requests_that_have_begun(tmp_path, database):
    parts = {HEALTH[:10]: HEALTH[10:], HEALTH[:-2] + b"Content-Length: 5\r\n\r\n12": b"345"}
    with (
        serving(tmp_path, "--demo", WORKERS="1", DRAIN_SECONDS="0", **database) as server,
        ExitStack() as stack,
    ):
        address = ("127.0.0.1", server.port)
        silent, *begun = (
            stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(3)
        )
        for client, part in zip(begun, parts, strict=True):
            client.sendall(part)
        with connect(server) as connection:
            ask(connection)
        server.send_signal(signal.SIGTERM)
        # A worker that lets nobody in any more closes who has said nothing.
        assert silent.recv(1) == b""
        for client, rest in zip(begun, parts.values(), strict=True):
            client.sendall(rest)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
        assert server.wait(60) == 0


def test_requests_that_are_sent_ahead_are_answered_in_order(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        ids = [f"ahead-{number}" for number in range(20)]
        connection.sendall(
            b"".join(HEALTH[:-2] + f"X-Request-ID: {id_}\r\n\r\n".encode() for id_ in ids)
        )
        said = b""
        while said.count(b"ahead-") < len(ids):
            said += connection.recv(65536)
    found = [line.split()[1] for line in said.decode().splitlines() if "ahead-" in line]
    assert found == ids
