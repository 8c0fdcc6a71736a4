"""The real program, served by real gunicorn on the embedded MongoDB."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.factories import make_user
from tests.ports import free_port
from tests.system.programs import (
    environment,
    execute,
    processes_with,
    run,
    serving,
    wait_until,
    workers_of,
)
from tests.system.tcp_proxy import TcpProxy

NOWHERE = "mongodb://127.0.0.1:1"


def total(server):
    server.sign_in()
    return server.json("GET", "/api/v1/players")["Total"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A server that was killed once and started again; now it is only asked."""
    folder = tmp_path_factory.mktemp("embedded")
    with serving(folder, "--demo", start=execute) as killed:
        account = ("Zoe", "--email", "z@example.com", "--password-stdin")
        assert run(folder, "user", "create", *account, stdin="secret").returncode == 0
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    # At once, and on the same port, which dying workers may still hold.
    with serving(folder, "--demo", port=killed.port) as server:
        yield server


def test_a_killed_program_starts_again_with_everything_written_before(demo):
    assert total(demo) == 500
    assert demo.command("api", "roles", "Zoe") == "Zoe: no roles"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_lines_of_the_banner_work_when_pasted(demo):
    banner = demo.output.read_text()
    lines = banner[banner.index("  TOKEN=") : banner.index("Ctrl-C")]
    pasted = subprocess.run(["sh", "-c", lines], capture_output=True, text=True, check=True)
    assert json.loads(pasted.stdout)["Total"] == 500


def test_commands_in_another_terminal_find_the_running_server(demo):
    demo.command("seed", "--players", "510")
    wait_until(lambda: total(demo) == 510)


@pytest.mark.everything
def test_the_demo_is_served_and_reloaded_and_ctrl_c_leaves_nothing_behind(tmp_path):
    # Nothing is killed for being late: what ends within a minute has ended by itself.
    with serving(tmp_path, "--demo", start=execute, GRACEFUL_TIMEOUT_SECONDS="300") as server:
        assert total(server) == 500
        assert f"serves {server.base}" in server.output.read_text()
        assert f"{server.base}/api/docs" in server.output.read_text()
        former = workers_of(server)
        server.send_signal(signal.SIGHUP)
        server.wait_for_replaced(former)
        assert total(server) == 500
        server.send_signal(signal.SIGINT)
        assert server.wait(120) == 0
    # MongoDB gives up its lock a moment before it is gone.
    wait_until(lambda: not processes_with(str(tmp_path)))
    assert not processes_with(f"--port {server.port}")


def test_a_database_that_cannot_be_prepared_ends_the_start(tmp_path, mongodb_uri, real_storage):
    db = real_storage.client["unprepared"]
    db.users.insert_many([make_user(Name="Bob"), make_user(Name="BOB")])
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "unprepared"}
    refused = run(tmp_path, "serve", "--port", str(free_port()), **settings)
    real_storage.client.drop_database("unprepared")
    assert refused.returncode == 1
    assert "E11000 duplicate key" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_address_that_cannot_be_listened_on_is_named(tmp_path):
    refused = run(tmp_path, "serve", "--host", "192.0.2.1", "--port", str(free_port()))
    assert refused.returncode == 1
    assert "Cannot listen on 192.0.2.1" in refused.stderr
    assert "Choose another port" not in refused.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run(tmp_path, "serve", "--port", str(port))
    assert (refused.returncode, refused.stderr) == (
        1,
        f"Error: Cannot listen on 127.0.0.1:{port}: Address already in use. "
        f"Choose another port with --port (make run PORT={port + 1}).\n",
    )
    assert not processes_with(str(tmp_path))


def test_a_unix_socket_is_served_to_our_group_alone_and_gone_afterwards(serve_socket):
    with serve_socket(WORKERS="1") as server:
        path, settings = server.socket, {**server.settings, "MONGODB_URI": NOWHERE}
        assert f"serves the Unix socket {path}\n" in server.output.read_text()
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o770
        assert run(server.folder, "serve", **settings).stderr == (
            f"Error: Cannot listen on {path}: another program uses it. "
            "Choose another path with QM_SOCKET.\n"
        )
    assert not Path(path).exists()


def test_what_happens_before_the_first_request_is_logged_as_json_too(tmp_path):
    settings = {"ENV": "production", "SECRET_KEY": "s" * 32}
    env = environment(tmp_path, MONGODB_URI=f"{NOWHERE}/?colour=red", **settings)
    command = [sys.executable, "-c", "import wsgi"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    messages = [json.loads(line)["message"] for line in done.stderr.splitlines()]
    assert "UserWarning: Unknown option: colour." in messages[0]


def test_an_outage_of_mongodb_is_one_line_a_minute_and_its_end_another(tmp_path, database):
    with closing(TcpProxy(urlsplit(database["MONGODB_URI"]).port)) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"
        settings = {**database, "MONGODB_URI": uri, "MONGODB_SELECTION_SECONDS": "0.2"}
        with serving(tmp_path, "--workers", "1", LOG_FORMAT="json", **settings) as served:
            with proxy.cut():
                # Meanwhile each of the threads fails, and so do many requests.
                for _ in range(20):
                    assert served.status("/readyz") == 503
                    time.sleep(0.3)
            wait_until(served.is_ready, served.output)
            lines = served.output.read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    warnings = [line["message"] for line in logged if line["level"] != "INFO"]
    assert re.fullmatch(r"MongoDB does not answer: 127\.0\.0\.1:\d+: [^<>]{1,60}\.", warnings[0])
    assert re.fullmatch(r"MongoDB answers again, after \d+ s\.", warnings[1])
    assert len(warnings) == 2


def test_it_does_not_start_with_an_unknown_role_for_power(tmp_path, database):
    settings = {**database, "POWER_ROLE": "nosuchrole"}
    refused = run(tmp_path, "serve", "--port", str(free_port()), **settings)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: QM_POWER_ROLE is 'nosuchrole', and there is no such")


def test_production_logs_one_json_object_per_request(serve):
    with serve(ENV="production", SECRET_KEY="s" * 32, WORKERS="1") as server:
        server.ask("GET", "/healthz", X_Request_ID="me-1")
        wait_until(lambda: '"me-1"' in server.output.read_text())
        lines = [json.loads(line) for line in server.output.read_text().splitlines()]
    (line,) = [line for line in lines if line["request_id"] == "me-1"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)
