"""Runs the real program as a user would, and looks after what it leaves behind."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from pymongo import MongoClient

from tests.factories import sha256
from tests.mongod import CHOSEN
from tests.ports import free_port
from tests.system import fork_server

PROGRAM = str(Path(sys.executable).with_name("quartermaster"))
GAME = str(Path(__file__).parents[2] / "docs" / "examples" / "game_server.py")
# Runs a command that heeds Ctrl-C: who runs the tests in the background lets all of them ignore it.
WITH_CTRL_C = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)


def environment(folder, **settings):
    """Return an environment without any setting but these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("QM_")}
    mongod = {"MONGOD": CHOSEN} if CHOSEN else {}
    settings = {"DATA_DIR": str(folder), **mongod, **settings}
    return {**clean, **{f"QM_{name}": value for name, value in settings.items()}}


def run(folder, *arguments, stdin="", **settings):
    """Run a command to its end."""
    return fork_server.run([PROGRAM, *arguments], environment(folder, **settings), stdin, 120)


def execute(command, env, log):
    """Start the program by its command, as a user does. A fork of the fork server is cheaper."""
    return subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout=120):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def exchange(connection, method, path, body, headers):
    """Make one request on a connection, and return the status, the headers and the raw body."""
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


class Asked:
    """Somebody who answers requests, each on a connection of its own."""

    token = None

    def ask(self, method, path, body=None, token=None, **headers):
        """Make one request, and return the status, the headers and the raw body."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token := self.token if token is None else token:
            headers.setdefault("Authorization", f"Bearer {token}")
        if isinstance(body, dict):
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        return exchange(self.connection(), method, path, body, headers)

    def json(self, method, path, body=None, token=None, **headers):
        """Make a request that succeeds, and return the value of its answer."""
        status, _, answer = self.ask(method, path, body, token, **headers)
        assert status == 200, answer
        return json.loads(answer)

    def status(self, path, token=None):
        return self.ask("GET", path, token=token)[0]

    def is_ready(self):
        try:
            return self.status("/readyz") == 200
        except (OSError, http.client.HTTPException):
            return False

    def sign_in(self, name="demo", password="demo"):
        body = {"grant_type": "password", "username": name, "password": sha256(password)}
        self.token = self.json("POST", "/api/oauth/token", body, "")["access_token"]
        return self.token


class Service(Asked):
    """A running program that serves, and the folder, settings and database that it has."""

    def __init__(self, process, folder, port, **settings):
        self._process = process
        self.folder, self.port, self.settings = Path(folder), port, settings
        self.base, self.socket = f"http://127.0.0.1:{port}", settings.get("SOCKET")
        self.output = self.folder / "output.txt"

    def __getattr__(self, name):
        return getattr(self._process, name)

    def connection(self, timeout=120):
        if self.socket:
            return SocketConnection(self.socket, timeout)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    @cached_property
    def db(self):
        client = MongoClient(self.settings["MONGODB_URI"], tz_aware=True)
        return client[self.settings["MONGODB_DATABASE"]]

    def command(self, *words, stdin=""):
        """Run a command with the same settings, see that it succeeds, and return what it prints."""
        done = run(self.folder, *words, stdin=stdin, **self.settings)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def add_account(self, name, *roles):
        """Add an account whose password is 'secret', and become it."""
        self.command(
            *("user", "create", name, "--email", f"{name}@example.com", "--password-stdin"),
            stdin="secret",
        )
        for role in roles:
            self.command("api", "grant", name, role)
        self.token = self.command("token", name)

    def wait_for_replaced(self, former, count=1):
        """Wait until so many other workers have taken the place of these."""

        def is_replaced():
            present = workers_of(self)
            return len(present) >= count and not present & former

        wait_until(is_replaced, self.output)


@contextmanager
def serving(folder, *arguments, port=None, start=fork_server.start, **settings):
    """Serve until the block ends."""
    port = port or free_port()
    command = [PROGRAM, "serve", "--port", str(port), *arguments]
    with (Path(folder) / "output.txt").open("wb") as log:
        process = start(command, environment(folder, **settings), log)
    with stopped_at_the_end(Service(process, folder, port, **settings), signal.SIGINT) as service:
        # Workers of a killed program may still answer on its port; the banner is the new one's.
        # In production there is none, and no test starts there after a kill.
        if settings.get("ENV") != "production":
            wait_until(lambda: "Ctrl-C stops it" in service.output.read_text(), service.output)
        wait_until(service.is_ready, service.output)
        yield service


@contextmanager
def playing(uri, database, output, *options):
    """Let the example game play until the block ends; yield its process, which can be read."""
    env = {**os.environ, "QM_MONGODB_URI": uri, "QM_MONGODB_DATABASE": database}
    with output.open("wb") as log:
        process = fork_server.start([GAME, *options], env, log)
    process.said = lambda: output.read_text(errors="replace")
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)


@contextmanager
def stopped_at_the_end(service, number=signal.SIGTERM):
    """Yield a service, and stop it and its connections when the block ends."""
    try:
        yield service
    finally:
        if service.poll() is None:
            service.send_signal(number)
            service.wait(120)
        if "db" in vars(service):
            service.db.client.close()


def wait_until(holds, output=None, seconds=120):
    """Wait for a condition; the limit is for what never happens, so it fits a busy machine."""
    deadline = time.monotonic() + seconds
    while not holds():
        said = output.read_text(errors="replace") if output else ""
        assert time.monotonic() < deadline, f"it did not happen in {seconds} seconds: {said}"
        time.sleep(0.05)


def workers_of(server):
    """Return the process ids of a server's workers."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
    return {int(pid) for pid in children.split()}


def processes_with(text):
    """Return the living processes whose command line holds a text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command and int(entry.parent.name) != os.getpid():
            found.append(command)
    return found
