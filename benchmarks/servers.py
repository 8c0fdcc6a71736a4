"""The servers under test: how to start, request and stop each."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import psutil

from benchmarks.load import Request
from benchmarks.meters import workers_of
from benchmarks.worlds import ROOT, World

START_SECONDS = 60
STOP_SECONDS = 30
# Each process begins at another port, so that parallel runs do not collide.
PORTS = itertools.count(random.Random(os.getpid()).randrange(10_240, 30_000))  # noqa: S311
GUNICORN = ["-m", "gunicorn", "-c", "python:config.gunicorn"]
UVICORN = ["-m", "uvicorn", "--host", "127.0.0.1", "--no-access-log", "--log-level", "warning"]
GRANIAN = ["-m", "granian", "--http", "1", "--no-ws", "--log-level", "warning", "--interface"]
# Threads of LIMIT under Granian: as many as it has connections to MongoDB.
THREADS = 32

Answer = tuple[int, Any]


class Server(NamedTuple):
    """A program that serves some of the cells."""

    name: str
    arguments: Callable[[int, int], list[str]]
    cells: str
    # Its credentials: a token of Quartermaster, or a JSON Web Token.
    credential: str = "token"
    # Whether each of its changes leaves an entry in history.
    has_history: bool = False
    # The path that answers 200 when the server is ready.
    ready: str = "/api/v1/players"


def under_gunicorn(app: str) -> Callable[[int, int], list[str]]:
    """Return the command for gunicorn with the settings of Quartermaster."""
    return lambda _port, _workers: [*GUNICORN, app]


def under_uvicorn(app: str) -> Callable[[int, int], list[str]]:
    return lambda port, workers: [*UVICORN, "--port", str(port), "--workers", str(workers), app]


def under_granian(interface: str, app: str, threads: int) -> Callable[[int, int], list[str]]:
    """Return the command for Granian; a WSGI application has as many threads as in gunicorn."""
    return lambda port, workers: [
        *(*GRANIAN, interface, "--blocking-threads", str(threads)),
        *("--port", str(port), "--workers", str(workers), app),
    ]


QUARTERMASTER = Server(
    "quartermaster", under_gunicorn("wsgi:app"), "abcdilnop", has_history=True, ready="/readyz"
)
SERVERS = (
    QUARTERMASTER,
    Server(
        "quartermaster-granian",
        lambda _port, _workers: ["-m", "app", "serve", "--server", "granian"],
        "abcd",
        has_history=True,
        ready="/readyz",
    ),
    Server("limit", under_gunicorn("benchmarks.peers.limit:app"), "abcd"),
    Server("limit-granian", under_granian("wsgi", "benchmarks.peers.limit:app", THREADS), "abc"),
    Server("limit-whole-give", under_gunicorn("benchmarks.peers.limit:whole"), "d"),
    Server("fastapi", under_uvicorn("benchmarks.peers.fast:app"), "abcd", credential="jwt"),
    # An asynchronous application runs in an event loop, so Granian needs one thread.
    Server(
        "fastapi-granian",
        under_granian("asgi", "benchmarks.peers.fast:app", 1),
        "abcd",
        credential="jwt",
    ),
)


class Running:
    """A running server, for clients and meters."""

    def __init__(self, server: Server, world: World, token: str, port: int, process: int) -> None:
        self.server = server
        self.world = world
        self.token = token
        self.port = port
        self.base = f"http://127.0.0.1:{port}"
        self.pid = process

    def workers(self, count: int) -> list[psutil.Process]:
        return workers_of(self.pid, count)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, request: Request) -> Answer:
        """Send one request on a new connection."""
        connection = self.connect()
        try:
            status, body = exchange(connection, request, self.token)
        finally:
            connection.close()
        return status, read(body)


def exchange(
    connection: http.client.HTTPConnection, request: Request, token: str
) -> tuple[int, bytes]:
    """Send a request on a keep-alive connection; return the status and the body."""
    headers = {"Authorization": f"Bearer {token}"}
    if request.body:
        headers["Content-Type"] = "application/json"
    connection.request(request.method, request.path, request.body or None, headers)
    response = connection.getresponse()
    return response.status, response.read()


def read(body: bytes) -> Any:
    """Return the parsed JSON of a body, or its text if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


@contextmanager
def running(
    server: Server, world: World, token: str, workers: int, logs: Path, **settings: str
) -> Iterator[Running]:
    """Serve a world as in production, until the block ends.

    Quartermaster logs every request, as in production. The peers write no log, in their favour.
    """
    port = free_port()
    log = logs / f"{server.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *server.arguments(port, workers)],
            cwd=ROOT,
            env=_environment(
                world.settings, QM_PORT=str(port), QM_WORKERS=str(workers), **settings
            ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        served = Running(server, world, token, port, process.pid)
        _wait(served, process, log)
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _environment(*settings: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return the environment of this process with only these settings of the service."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("QM_")}
    for chosen in (*settings, more):
        ours.update(chosen)
    return ours


def _wait(served: Running, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server is ready."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if served.ask(Request("GET", served.server.ready))[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    said = log.read_text(errors="replace")[-2000:]
    raise click.ClickException(f"{served.server.name} did not start: {said}")


def free_port() -> int:
    """Return a free port below the range for outgoing connections.

    A port in that range could be taken again before the server listens on it.
    """
    for port in PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable")
