"""The service as it is deployed, which can be started, reloaded, killed and looked into."""

import http.client
import json
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.factories import sha256
from tests.ports import free_port
from tests.system import fork_server
from tests.system.chaos.network import LOOPBACK
from tests.system.programs import PROGRAM, environment, exchange, execute, run, wait_until

NAME, PASSWORD = "stormcaller", "secret"
SECRET = "a secret that only the storms use: 32+ long"


class Service:
    """gunicorn with several workers, always at the same address."""

    def __init__(self, folder, workers=2, preload=None, node=LOOPBACK, **settings):
        self.folder, self.port, self.node = Path(folder), free_port(), node
        self.output = self.folder / "output.txt"
        self.settings = {
            "ENV": "production",
            "SECRET_KEY": SECRET,
            "WORKERS": str(workers),
            "MAX_REQUESTS": "0",
            "LOG_LEVEL": "WARNING",
            "HOST": node.address,
            # Production listens beyond the loopback only for a proxy on another machine.
            "TRUSTED_PROXIES": "1",
            **settings,
        }
        self._preload = preload or {}
        self._process = None

    def start(self):
        """Start, and wait for the first answer, whatever it says."""
        command = [PROGRAM, "serve", "--port", str(self.port)]
        env = {**environment(self.folder, **self.settings), **self._preload}
        with self.output.open("ab") as log:
            # With another clock, it has to be executed.
            if self._preload:
                self._process = execute(command, env, log)
            else:
                namespace = self.node.namespace
                self._process = fork_server.start(command, env, log, namespace=namespace)
        wait_until(lambda: self.status("/healthz") == 200, self.output)

    def wait_until_ready(self):
        wait_until(lambda: self.status("/readyz") == 200, self.output)

    def stop(self):
        """End it as an operator would; it may finish what it has begun."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(120)

    def kill(self):
        """Kill the whole of it at once, as a power cut would."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        wait_until(lambda: not _is_alive(self._process.pid))  # whose workers hold the port

    def restart(self):
        self.stop()
        self.start()

    def die_and_start(self):
        self.kill()
        self.start()

    def reload(self):
        """Replace all workers, and wait until the former ones are gone."""
        former = {worker.pid for worker in self.workers()}
        self._process.send_signal(signal.SIGHUP)
        wait_until(lambda: not former & {worker.pid for worker in self.workers()}, self.output)

    def kill_worker(self):
        """Kill one worker in the middle of what it does, and wait for the one in its place."""
        former = self.workers()
        former[0].kill()
        wait_until(lambda: len(set(self.workers()) - set(former)) > 0, self.output)

    def stop_worker(self, until, seconds):
        """Let one worker stand still amid whatever it does until others got on, or so long."""
        worker, end = self.workers()[0], time.monotonic() + seconds
        worker.suspend()
        try:
            wait_until(lambda: until() or time.monotonic() > end)
        finally:
            worker.resume()

    def workers(self):
        return psutil.Process(self._process.pid).children()

    def connect(self, timeout):
        return http.client.HTTPConnection(self.node.address, self.port, timeout=timeout)

    def ask(self, method, path, body=None, timeout=120, **headers):
        """Send one request on a connection of its own; return status, headers and body."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        return exchange(self.connect(timeout), method, path, body, headers)

    def status(self, path):
        """Return the status of a plain request, or None where nobody answers."""
        try:
            return self.ask("GET", path)[0]
        except (OSError, http.client.HTTPException):
            return None

    def sign_in(self):
        """Return a new access token, or None where there is none to be had now."""
        body = {"grant_type": "password", "username": NAME, "password": sha256(PASSWORD)}
        try:
            status, _, answer = self.ask("POST", "/api/oauth/token", body)
        except (OSError, http.client.HTTPException):
            return None
        return json.loads(answer)["access_token"] if status == 200 else None

    def add_account(self):
        """Add the account that the clients use."""
        account = (NAME, "--email", f"{NAME}@example.com", "--password-stdin")
        for command in (("user", "create", *account), ("api", "grant", NAME, "api")):
            done = run(self.folder, *command, stdin=PASSWORD, **self.settings)
            assert done.returncode == 0, done.stderr

    def tracebacks(self):
        """Return how often it wrote one, which it does for its own bugs alone."""
        return self.output.read_text(errors="replace").count("Traceback")


def _is_alive(group):
    """Tell whether any process of a process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def service(folder, account=True, **options):
    """Serve until the block ends; its account is there already where another has added it."""
    served = Service(folder, **options)
    try:
        served.start()
        served.wait_until_ready()
        if account:
            served.add_account()
        yield served
    finally:
        served.stop()
