"""Bytes that no proper client sends, and clients that are slow, at real gunicorn and real nginx.

One worker with few threads serves all of them, with the configuration of nginx that we ship.
"""

import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.factories import sha256
from tests.hostile_bytes import DOORS, ROWS, SMUGGLED
from tests.system import nginx
from tests.system.nginx import parsed, proxying, read_all

pytestmark = pytest.mark.skipif(not nginx.NGINX, reason=nginx.MISSING)

# Fewer threads than slow clients, whatever a worker has beside those for the database.
FEW = {"WORKERS": "1", "THREADS": "2", "HASH_LINE": "2", "MAIL_LINE": "2"}
CLIENTS = 30
CREDENTIALS = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
BODY = json.dumps(CREDENTIALS).encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
POST = b"POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LARGE = b"GET /api/docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
# What each slow client sends at first, and what it sends again and again.
ATTACKS = {
    "silence": (b"", b""),
    "a head byte by byte": (b"GET /healthz HTTP/1.1\r\nX: ", b"x"),
    "a body byte by byte": (POST + b"Content-Length: 9999\r\n\r\n", b" "),
    "chunks byte by byte": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "answers that nobody reads": (LARGE * 8, b""),
    "connections that nobody closes": (HEALTH, b""),
}


class Gunicorn:
    """gunicorn's own socket, without a proxy in front of it."""

    def __init__(self, path):
        self._path = path

    @contextmanager
    def connected(self):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(60)
            stream.connect(self._path)
            yield stream

    def send(self, request):
        with self.connected() as stream:
            # What is refused at once need not be read to its end.
            with suppress(BrokenPipeError):
                stream.sendall(request)
            stream.shutdown(socket.SHUT_WR)
            return read_all(stream)


@pytest.fixture(scope="module")
def server(serve_socket):
    with serve_socket("--demo", LOG_FORMAT="json", **FEW) as server:
        yield server


@pytest.fixture(scope="module")
def doors(server, tmp_path_factory):
    patience = {"client_body_timeout": "client_body_timeout 1s;"}
    with proxying(tmp_path_factory.mktemp("door"), server.socket, **patience) as site:
        yield {"gunicorn": Gunicorn(server.socket), "nginx": site}


def answered(answer, door):
    """Return the status of an answer, as the table has it, having looked at its shape."""
    if not answer.startswith(b"HTTP/1.1 "):
        return 9 if answer else 0
    # A second answer would be that to a request that nobody should have seen.
    assert answer.count(b"HTTP/1.1 ") == 1
    status, headers, body = parsed(answer)
    if headers["content-type"] == "text/html" and door == "gunicorn":
        return status  # gunicorn's own page; nginx lets none of these requests through
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["x-request-id"]
    if status >= 400:
        assert json.loads(body)["Message"].endswith(".")
    return status


@pytest.mark.parametrize("door", DOORS)
def test_hostile_bytes_are_answered_once_and_the_next_client_is_served(doors, server, door):
    wrong = {}
    for row in ROWS:
        seen = answered(doors[door].send(row.sent), door), answered(doors[door].send(HEALTH), door)
        if seen != (getattr(row, door), 200):
            wrong[row.name] = seen
    assert wrong == {}
    assert SMUGGLED not in server.output.read_text()


def chunked(*chunks):
    framed = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return POST + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


FORM = b"&".join(f"{name}={value}".encode() for name, value in CREDENTIALS.items())
# What is sent, the status of the answer, and what stands in it.
BODIES = {
    "chunks": (chunked(BODY[:20], BODY[20:]), 200, '"token_type":"bearer"'),
    **{
        f"too many chunks of {filler}": (
            chunked(BODY, *[filler * 65536] * 20),
            413,
            "The request body is too large.",
        )
        for filler in (b" ", b"x")
    },
    "a chunked form that is too long": (
        chunked(FORM, *[b"&" * 65536] * 20).replace(b"json", b"x-www-form-urlencoded"),
        413,
        "The request body is too large.",
    ),
    "less than was claimed": (
        POST + f"Content-Length: {len(BODY) + 100}\r\n\r\n".encode() + BODY,
        400,
        "The request body is shorter than its Content-Length.",
    ),
    "two long names of another script": (
        f"GET /api/v1/players/{'%E7%8E%A9' * 255} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        401,
        "Authorization has been denied",
    ),
}


def test_bodies_and_lines_of_any_length_are_read_or_refused(doors):
    wrong = {}
    for name, (sent, status, text) in BODIES.items():
        answer = doors["gunicorn"].send(sent)
        if answered(answer, "gunicorn") != status or text not in answer.decode():
            wrong[name] = answer
    assert wrong == {}


def test_a_client_that_asks_first_is_told_to_send_its_body(doors):
    with doors["gunicorn"].connected() as stream:
        length = f"Content-Length: {len(BODY)}\r\n\r\n".encode()
        stream.sendall(POST + b"Expect: 100-continue\r\n" + length)
        assert stream.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        stream.sendall(BODY[:10])
        stream.sendall(BODY[10:])
        assert stream.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(("version", "connection"), [("1.0", "close"), ("1.1", "keep-alive")])
def test_both_versions_of_http_end_as_they_should(doors, version, connection):
    with doors["gunicorn"].connected() as stream:
        stream.sendall(f"GET /healthz HTTP/{version}\r\nHost: x\r\n\r\n".encode())
        status, headers, _ = parsed(stream.recv(1000))
    assert (status, headers["connection"]) == (200, connection)


@contextmanager
def attacking(site, begin, more):
    """Let many clients send something, and then a little more every fifth of a second."""
    ended = threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(site)) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(begin)

        def trickle():
            while not ended.wait(0.2):
                for client in clients if more else ():
                    client.sendall(more)

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def connect(site):
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", site.port))
    return site.tls.wrap_socket(raw, server_hostname=nginx.NAME)


@pytest.mark.parametrize("attack", ATTACKS)
def test_slow_clients_hold_nobody_up(doors, attack):
    site = doors["nginx"]
    with attacking(site, *ATTACKS[attack]):
        for _ in range(3):
            assert site.status("/healthz") == 200
            assert site.ask("POST", "/api/oauth/token", CREDENTIALS)[0] == 200
