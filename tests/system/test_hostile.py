"""Bytes that no proper client sends, and clients that are slow, at real gunicorn and real nginx.

One worker with few threads serves all of them, with the configuration of nginx that we ship.
"""

import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.factories import sha256
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


HOST, CLOSE = b"Host: x\r\n", b"Connection: close\r\n"
SMUGGLED = "/api/v1/smuggled"
HIDDEN = f"GET {SMUGGLED} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
LENGTH, CHUNKED = b"Content-Length: %d\r\n" % len(HIDDEN), b"Transfer-Encoding: chunked\r\n"
SIZE = b"%x" % len(HIDDEN)


def get(headers=b"", path=b"/healthz", version=b"HTTP/1.1", host=HOST):
    return b"GET %s %s\r\n%s%s%s\r\n" % (path, version, host, CLOSE, headers)


def post(headers, body=HIDDEN):
    """Ask for a token, with headers that do not agree on where the body ends."""
    return POST + CLOSE + headers + b"\r\n" + body


def chunk(size, data=HIDDEN, end=b"\r\n"):
    return b"%s\r\n%s%s0\r\n\r\n" % (size, data, end)


# What is sent, and the status of the answer of gunicorn and of nginx. 0 is no answer but the end of
# the connection. Many hide a second request, which must never arrive at the application.
BYTES = {
    "no request at all": (b"NONSENSE\r\n\r\n", 400, 400),
    "an absolute path": (get(path=b"http://evil.example/healthz"), 200, 200),
    "a NUL in the path": (get(path=b"/health\0z"), 400, 400),
    "a path of 9000 bytes": (get(path=b"/" + b"a" * 9000), 414, 414),
    "a header of 9000 bytes": (get(b"X: " + b"a" * 9000 + b"\r\n"), 431, 431),
    "a space before the colon": (get(b"X : y\r\n"), 400, 400),
    "SCRIPT_NAME": (get(b"SCRIPT_NAME: /x\r\nScript-Name: /x\r\n"), 200, 200),
    "a negative length": (post(b"Content-Length: -1\r\n"), 400, 400),
    "a length beyond all": (post(b"Content-Length: " + b"9" * 40 + b"\r\n"), 413, 400),
    "two lengths": (post(b"Content-Length: 5\r\n" + LENGTH), 400, 400),
    "a length and chunks": (post(LENGTH + CHUNKED, b"0\r\n\r\n" + HIDDEN), 400, 400),
    "chunks twice": (post(CHUNKED + CHUNKED, chunk(SIZE)), 400, 400),
    "almost chunks": (post(LENGTH + b"Transfer-Encoding: xchunked\r\n"), 501, 400),
    "chunks behind a space": (post(LENGTH + b"Transfer-Encoding : chunked\r\n"), 400, 400),
    "an underscore": (post(LENGTH + b"Transfer_Encoding: chunked\r\n"), 400, 400),
    "chunks in HTTP 1.0": (post(CHUNKED, chunk(SIZE)).replace(b"1.1", b"1.0", 1), 400, 400),
    "a chunk of a wrong size": (post(CHUNKED, chunk(b"zz")), 400, 400),
    "a chunk longer than it says": (post(CHUNKED, chunk(b"5")), 400, 400),
    "chunks that end in LF": (post(CHUNKED, chunk(SIZE).replace(b"\r\n", b"\n")), 400, 0),
    "a body that stops": (post(LENGTH, HIDDEN[:20]), 400, 0),
    "a body of a GET": (get(LENGTH) + HIDDEN, 200, 200),
    "chunks of a GET": (get(CHUNKED) + chunk(SIZE), 200, 200),
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
    if not answer:
        return 0
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


@pytest.mark.parametrize("door", ["gunicorn", "nginx"])
def test_hostile_bytes_are_answered_once_and_the_next_client_is_served(doors, server, door):
    seen, expected = {}, {}
    for name, (sent, by_gunicorn, by_nginx) in BYTES.items():
        expected[name] = (by_gunicorn if door == "gunicorn" else by_nginx, 200)
        seen[name] = tuple(answered(doors[door].send(one), door) for one in (sent, HEALTH))
    assert seen == expected
    assert SMUGGLED not in server.output.read_text()


def chunked(*chunks):
    framed = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return post(CHUNKED, framed + b"0\r\n\r\n")


TOO_LARGE, SHORT = "The request body is too large.", "shorter than its Content-Length."
FILLED = chunked(BODY, *[b" " * 65536] * 20)
CLAIMED = b"Content-Length: %d\r\n" % (len(BODY) + 100)
LONG_PATH = f"/api/v1/players/{'%E7%8E%A9' * 255}".encode()


@pytest.mark.parametrize(
    ("sent", "status", "text"),
    [
        pytest.param(chunked(BODY[:20], BODY[20:]), 200, '"token_type":"bearer"', id="chunks"),
        pytest.param(FILLED, 413, TOO_LARGE, id="too many chunks"),
        pytest.param(FILLED.replace(b"json", b"x-www-form-urlencoded"), 413, TOO_LARGE, id="form"),
        pytest.param(post(CLAIMED, BODY), 400, SHORT, id="less than was claimed"),
        pytest.param(get(path=LONG_PATH), 401, "Authorization has been denied", id="a long name"),
    ],
)
def test_bodies_and_lines_of_any_length_are_read_or_refused(doors, sent, status, text):
    answer = doors["gunicorn"].send(sent)
    assert answered(answer, "gunicorn") == status
    assert text in answer.decode()


def test_a_client_that_asks_first_is_told_to_send_its_body(doors):
    with doors["gunicorn"].connected() as stream:
        length = f"Content-Length: {len(BODY)}\r\n\r\n".encode()
        stream.sendall(POST + b"Expect: 100-continue\r\n" + length)
        assert stream.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        stream.sendall(BODY[:10])
        stream.sendall(BODY[10:])
        assert stream.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


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
