"""The real program, served by real gunicorn on the embedded MongoDB."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import urllib.request
from http.client import HTTPConnection

import pytest

from tests.factories import make_user, sha256
from tests.ports import free_port
from tests.system import fork_server
from tests.system.programs import (
    PROGRAM,
    environment,
    exchange,
    execute,
    processes_with,
    run,
    serving,
    wait_until,
    workers_of,
)


def request(url, token=None, **body):
    data = json.dumps(body).encode() if body else None
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=120) as answer:
        return json.load(answer)


def sign_in(server):
    body = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
    return request(f"{server.base}/api/oauth/token", **body)["access_token"]


def total(server):
    return request(f"{server.base}/api/v1/players", sign_in(server))["Total"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A server that is only asked, and by nobody made to end."""
    folder = tmp_path_factory.mktemp("demo")
    with serving(folder, "--demo") as server:
        server.folder = folder
        yield server


def test_the_demo_is_served_and_ctrl_c_leaves_nothing_behind(tmp_path):
    with serving(tmp_path, "--demo", start=execute) as server:
        assert total(server) == 500
        assert f"serves {server.base}" in server.output.read_text()
        assert f"{server.base}/api/docs" in server.output.read_text()
        server.send_signal(signal.SIGINT)
        assert server.wait(120) == 0
    # The supervisor gives up its lock a moment before it is gone.
    wait_until(lambda: not processes_with(str(tmp_path)))
    assert not processes_with(f"--port {server.port}")


def test_every_worker_is_ready_when_the_banner_appears(tmp_path):
    output, address = tmp_path / "output.txt", ("127.0.0.1", free_port())
    command = [PROGRAM, "serve", "--port", str(address[1])]
    with output.open("wb") as log:
        server = fork_server.start(command, environment(tmp_path), log)
    try:
        wait_until(lambda: "Ctrl-C stops it" in output.read_text(), output)
        asked = [(HTTPConnection(*address, timeout=120), "GET", "/readyz") for _ in range(20)]
        assert {exchange(*request, None, {})[0] for request in asked} == {200}
    finally:
        server.terminate()
        server.wait(120)


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_lines_of_the_banner_work_when_pasted(demo):
    banner = demo.output.read_text()
    lines = banner[banner.index("  TOKEN=") : banner.index("Ctrl-C")]
    pasted = subprocess.run(["sh", "-c", lines], capture_output=True, text=True, check=True)
    assert json.loads(pasted.stdout)["Total"] == 500


@pytest.mark.everything
def test_a_second_start_keeps_the_data(tmp_path):
    for _ in range(2):
        with serving(tmp_path, "--demo") as server:
            assert total(server) == 500


def test_a_killed_program_starts_again_with_everything_written_before(tmp_path):
    with serving(tmp_path, "--demo", start=execute) as server:
        account = ("Zoe", "--email", "z@example.com", "--password-stdin")
        assert run(tmp_path, "user", "create", *account, stdin="secret").returncode == 0
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    # At once, and on the same port, which dying workers may still hold.
    with serving(tmp_path, "--demo", port=server.port) as again:
        assert total(again) == 500
        assert run(tmp_path, "api", "roles", "Zoe").stdout == "Zoe: no roles\n"


def test_commands_in_another_terminal_find_the_running_server(demo):
    token = run(demo.folder, "token", "demo").stdout.strip()
    assert request(f"{demo.base}/api/v1/players", token)["Total"] == 500
    assert run(demo.folder, "seed", "--players", "510").returncode == 0
    wait_until(lambda: total(demo) == 510)


def test_a_second_server_on_the_same_data_is_refused_in_a_sentence(demo):
    refused = run(demo.folder, "serve", "--port", str(free_port()))
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: Another quartermaster (process {demo.pid}) already serves {demo.folder}; "
        "stop it, or choose another folder with QM_DATA_DIR.\n"
    )


def test_a_reload_leaves_it_able_to_stop(tmp_path):
    # Nothing is killed for being late: what ends within a minute has ended by itself.
    with serving(tmp_path, "--demo", GRACEFUL_TIMEOUT_SECONDS="300") as server:
        former = workers_of(server)
        server.send_signal(signal.SIGHUP)
        wait_until(lambda: (now := workers_of(server)) and not now & former, server.output)
        assert total(server) == 500
        server.send_signal(signal.SIGINT)
        assert server.wait(120) == 0
    wait_until(lambda: not processes_with(str(tmp_path)))


def test_a_database_that_cannot_be_prepared_ends_the_start(tmp_path, mongodb_uri, real_storage):
    db = real_storage.client["unprepared"]
    db.users.insert_many([make_user(Name="Bob"), make_user(Name="BOB")])
    refused = run(tmp_path, "serve", MONGODB_URI=mongodb_uri, MONGODB_DATABASE="unprepared")
    real_storage.client.drop_database("unprepared")
    assert refused.returncode == 1
    assert "E11000 duplicate key" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_host_that_is_not_ours_is_named(tmp_path):
    refused = run(tmp_path, "serve", "--host", "192.0.2.1", "--port", str(free_port()))
    assert refused.returncode == 1
    assert "Cannot listen on 192.0.2.1" in refused.stderr
    assert "Choose another port" not in refused.stderr


def test_a_busy_port_is_named_with_the_way_to_choose_another(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run(tmp_path, "serve", "--port", str(port))
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: Cannot listen on 127.0.0.1:{port}: Address already in use. "
        f"Choose another port with --port (make run PORT={port + 1}).\n"
    )
    assert not processes_with(str(tmp_path))


def test_a_unix_socket_is_served_to_our_group_alone_and_gone_afterwards(tmp_path, database):
    path = tmp_path / "app.sock"
    settings = {"SOCKET": str(path), "TRUSTED_PROXIES": "1"}
    with serving(tmp_path, **settings, **database) as server:
        assert f"serves the Unix socket {path}\n" in server.output.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o770
        refused = run(tmp_path, "serve", **settings, MONGODB_URI="mongodb://127.0.0.1:1")
        assert refused.stderr == (
            f"Error: Cannot listen on {path}: another program does. "
            "Choose another path with QM_SOCKET.\n"
        )
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file", "a file that is no socket has this name."),
        ("no/app.sock", "there is no folder {folder}/no."),
        ("x" * 200, "AF_UNIX path too long."),
    ],
)
def test_a_socket_that_cannot_be_made_is_said_in_a_sentence(tmp_path, name, reason):
    (tmp_path / "file").touch()
    settings = {"SOCKET": str(tmp_path / name), "TRUSTED_PROXIES": "1"}
    refused = run(tmp_path, "serve", **settings, MONGODB_URI="mongodb://127.0.0.1:1")
    reason = reason.format(folder=tmp_path)
    assert refused.stderr == f"Error: Cannot listen on {tmp_path / name}: {reason}\n"


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, "QM_SECRET_KEY and QM_MONGODB_URI"),
        ({"SECRET_KEY": "s" * 32}, "QM_MONGODB_URI"),
        ({"MONGODB_URI": "mongodb://127.0.0.1:1"}, "QM_SECRET_KEY"),
    ],
)
def test_production_does_not_start_without_a_secret_and_a_database(tmp_path, settings, missing):
    refused = run(tmp_path, "serve", ENV="production", **settings)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Error: The production environment cannot start without {missing}.\n"
    )


def test_the_demo_is_not_for_production(tmp_path):
    settings = {"SECRET_KEY": "s" * 32, "MONGODB_URI": "mongodb://127.0.0.1:1"}
    refused = run(tmp_path, "serve", "--demo", ENV="production", **settings)
    assert refused.returncode == 1
    assert "--demo is not for production" in refused.stderr


def test_production_logs_one_json_object_per_request(tmp_path, mongodb_uri):
    settings = {
        "SECRET_KEY": "s" * 32,
        "MONGODB_URI": mongodb_uri,
        "MONGODB_DATABASE": "production",
    }
    with serving(tmp_path, ENV="production", **settings) as server:
        asked = urllib.request.Request(f"{server.base}/healthz", headers={"X-Request-ID": "me-1"})
        urllib.request.urlopen(asked, timeout=120).close()
        wait_until(lambda: '"me-1"' in server.output.read_text())
        text = server.output.read_text().splitlines()
    lines = [json.loads(line) for line in text if line.startswith("{")]
    (line,) = [line for line in lines if line["request_id"] == "me-1"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)
    assert len(lines) == len(text)
