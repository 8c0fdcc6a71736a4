"""Clients that are slow, or mean to be, behind real nginx; and a low limit of open files."""

import resource
import socket
import threading
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from tests.factories import sha256
from tests.system import nginx
from tests.system.fork_server import start
from tests.system.nginx import proxying
from tests.system.programs import serving, workers_of

# Fewer threads than slow clients, whatever a worker has beside those for the database.
FEW = {"WORKERS": "1", "THREADS": "2", "HASH_LINE": "2", "MAIL_LINE": "2"}
CLIENTS = 30
DEMO = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
POST = b"POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LARGE = b"GET /api/docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
CLOSE = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# What each client sends at first, and what it sends again and again.
ATTACKS = {
    "silence": (b"", b""),
    "a head byte by byte": (b"GET /healthz HTTP/1.1\r\nX: ", b"x"),
    "a body byte by byte": (POST + b"Content-Length: 9999\r\n\r\n", b" "),
    "chunks byte by byte": (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "answers that nobody reads": (LARGE * 8, b""),
    "connections that nobody closes": (CLOSE, b""),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory, database):
    if not nginx.NGINX:
        pytest.skip(nginx.MISSING)
    folder = tmp_path_factory.mktemp("slow")
    settings = {**FEW, **database, "SOCKET": str(folder / "app.sock"), "TRUSTED_PROXIES": "1"}
    with (
        serving(folder, "--demo", **settings) as server,
        proxying(folder / "site", server.socket) as site,
    ):
        yield site


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
def test_slow_clients_hold_nobody_up(site, attack):
    with attacking(site, *ATTACKS[attack]):
        for _ in range(3):
            assert site.ask("GET", "/healthz")[0] == 200
            assert site.ask("POST", "/api/oauth/token", DEMO)[0] == 200


def test_a_worker_takes_no_more_connections_than_it_may_open_files(tmp_path, database):
    limited = partial(start, files=(64, 400))
    with serving(tmp_path, "--demo", start=limited, **{**FEW, **database}) as server:
        assert "400 open files leaves a worker 234 connections instead of 1000" in (
            server.output.read_text()
        )
        [worker] = workers_of(server)
        assert resource.prlimit(worker, resource.RLIMIT_NOFILE) == (400, 400)
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert workers_of(server) == {worker}
