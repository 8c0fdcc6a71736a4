"""Runs the real program as a user would, and looks after what it leaves behind."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from tests.mongod import CHOSEN
from tests.ports import free_port
from tests.system import fork_server

PROGRAM = str(Path(sys.executable).with_name("quartermaster"))
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


@contextmanager
def serving(folder, *arguments, port=None, start=fork_server.start, **settings):
    """Serve until the block ends, and give the process with its address."""
    port = port or free_port()
    output = Path(folder) / "output.txt"
    command = [PROGRAM, "serve", "--port", str(port), *arguments]
    with output.open("wb") as log:
        process = start(command, environment(folder, **settings), log)
    process.base, process.port, process.output = f"http://127.0.0.1:{port}", port, output
    process.socket = settings.get("SOCKET")

    def has_begun():
        # Workers of a killed program may still answer on its port; the banner is the new one's.
        # In production there is none, and no test starts there after a kill.
        return settings.get("ENV") == "production" or "Ctrl-C stops it" in output.read_text()

    try:
        wait_until(lambda: has_begun() and answers(process), output)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(120)


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


def answers(process):
    if process.socket:
        return socket_answers(process.socket)
    try:
        with urllib.request.urlopen(f"{process.base}/readyz", timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def socket_answers(path):
    connection = SocketConnection(path)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


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
