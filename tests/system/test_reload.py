"""Workers and whole programs are replaced under load, and no request fails: behind real nginx."""

import signal
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.system import nginx
from tests.system.load import Load
from tests.system.nginx import proxying
from tests.system.programs import PROGRAM, environment, wait_until, workers_of

pytestmark = pytest.mark.skipif(not nginx.NGINX, reason=nginx.MISSING)

CLIENTS = 12
UNLIMITED = {"limit_req_zone": "limit_req_zone $qm_client zone=qm_requests:1m rate=10000r/s;"}


@pytest.fixture(scope="module")
def server(serve_socket):
    often = {"MAX_REQUESTS": "40", "MAX_REQUESTS_JITTER": "20"}
    with serve_socket("--demo", LOG_LEVEL="WARNING", **often) as server:
        yield server


@pytest.fixture(scope="module")
def site(server, tmp_path_factory):
    with proxying(tmp_path_factory.mktemp("site"), server.socket, **UNLIMITED) as site:
        yield site


@contextmanager
def loaded(site):
    """Keep the site busy, and see at the end that every request succeeded, and once."""
    token = site.sign_in()
    page = site.json("GET", f"/api/v1/players/rank?pageSize={CLIENTS}")
    players = [player["Id"] for player in page["Values"]]
    load = Load(site, token, players)
    with load.running():
        wait_until(lambda: load.gifts > 20)
        yield load
    assert load.failures == []
    assert sum(held(site, player, load.item) for player in players) == load.gifts


def held(site, player, item):
    slots = site.json("GET", f"/api/v1/players/{player}/items")
    return sum(s["Quantity"] for kind in slots.values() for s in kind if s["ItemId"] == item)


@pytest.mark.everything
def test_workers_that_have_served_enough_are_replaced_and_fail_no_request(server, site):
    former = workers_of(server)
    with loaded(site):
        wait_until(lambda: not former & workers_of(server))


def test_a_reload_under_load_fails_no_request(server, site):
    with loaded(site):
        for _ in range(2):
            former = workers_of(server)
            server.send_signal(signal.SIGHUP)
            wait_until(lambda former=former: not former & workers_of(server))


@contextmanager
def handed(folder, listener, **settings):
    """Run the program with a socket that it is handed, the way that systemd hands it."""
    output = folder / "handed.txt"
    script = 'exec 3<&"$1"; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve --demo'
    with output.open("ab") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, PROGRAM, str(listener.fileno())],
            env=environment(folder, **settings),
            pass_fds=[listener.fileno()],
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.everything
def test_a_restart_under_load_fails_no_request_where_systemd_holds_the_socket(tmp_path, database):
    path = str(tmp_path / "app.sock")
    settings = {**database, "SOCKET": path, "TRUSTED_PROXIES": "1", "LOG_LEVEL": "WARNING"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(2048)
        with proxying(tmp_path / "site", path, **UNLIMITED) as site, ExitStack() as programs:
            former = programs.enter_context(handed(tmp_path, listener, **settings))
            wait_until(site.is_ready, tmp_path / "handed.txt")
            with loaded(site) as load:
                former.send_signal(signal.SIGTERM)
                former.wait(30)
                programs.enter_context(handed(tmp_path, listener, **settings))
                enough = load.gifts + 100
                wait_until(lambda: load.gifts > enough, tmp_path / "handed.txt")
        assert Path(path).is_socket(), "the socket is systemd's to remove"
