"""A release replaces another as docs/deploy.rst has it: a folder each, and a link to one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymongo import MongoClient

from app.storage.schema.migrations import CURRENT
from tests.exposition import Exposition
from tests.ports import free_port
from tests.system.programs import environment, wait_until, workers_of

ROOT = Path(__file__).parents[2]
NAME = "releases"
OLD, NEW = "1.0", "2.0"
ONE_MORE_STEP = "\n\nSTEPS.append(lambda db: None)\nCURRENT += 1\n"
TOO_NEW = f"is at SchemaVersion {CURRENT + 1}, and this program knows none above {CURRENT}"


def make_release(folder, version):
    """Make what git, venv and pip make of a version, without downloading anything."""
    home = folder / version / "venv"
    venv.create(home, symlinks=True)
    packages = next(home.glob("lib/python*/site-packages"))
    for part in ("app", "config"):
        shutil.copytree(ROOT / part, packages / part)
    shutil.copy(ROOT / "wsgi.py", packages)
    described = packages / f"quartermaster-{version}.dist-info" / "METADATA"
    described.parent.mkdir()
    described.write_text(f"Metadata-Version: 2.1\nName: quartermaster\nVersion: {version}\n")
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    program = home / "bin" / "quartermaster"
    program.write_text(f"#!{home}/bin/python\nfrom app.__main__ import main\nmain()\n")
    program.chmod(0o755)
    return packages


@pytest.fixture
def releases(tmp_path):
    """Two releases, of which the newer one asks for a newer schema."""
    make_release(tmp_path, OLD)
    migrations = make_release(tmp_path, NEW) / "app" / "storage" / "schema" / "migrations.py"
    migrations.write_text(migrations.read_text() + ONE_MORE_STEP)
    switch(tmp_path, OLD)
    return tmp_path


@pytest.fixture
def settings(mongodb_uri):
    yield {
        "ENV": "production",
        "SECRET_KEY": "s" * 32,
        "MONGODB_URI": mongodb_uri,
        "MONGODB_DATABASE": NAME,
        "WORKERS": "1",
    }
    with MongoClient(mongodb_uri) as client:
        client.drop_database(NAME)


def switch(folder, version):
    subprocess.run(["ln", "-sfn", version, folder / "current"], check=True)


def call(folder, *words, **settings):
    program = [folder / "current" / "venv" / "bin" / "quartermaster", *words]
    env = environment(folder, **settings)
    return subprocess.run(program, env=env, capture_output=True, text=True, timeout=120)


@contextmanager
def unit(folder, **settings):
    """Run what the unit runs, by the path that stands in it."""
    port = free_port()
    output = folder / "output.txt"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [folder / "current" / "venv" / "bin" / "quartermaster", "serve", "--port", str(port)],
            env=environment(folder, **settings),
            stdout=log,
            stderr=log,
        )
    process.base, process.output = f"http://127.0.0.1:{port}", output
    try:
        wait_until(lambda: process.poll() is not None or status(process, "/healthz"), output)
        assert process.poll() is None, output.read_text()
        yield process
    finally:
        process.terminate()
        process.wait(120)


def ask(server, path, **body):
    """Return the status and the text of an answer; no status where there is none."""
    data = json.dumps(body).encode() if body else None
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(server.base + path, data, headers)
    try:
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return None, ""


def status(server, path):
    return ask(server, path)[0]


def version_of(server):
    return Exposition(ask(server, "/metrics")[1]).values_of("version")


def replace_worker(server):
    former = workers_of(server)
    for pid in former:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: (now := workers_of(server)) and not now & former, server.output)
    wait_until(lambda: status(server, "/healthz") == 200, server.output)


def test_a_worker_that_is_replaced_during_an_upgrade_serves_the_code_of_its_master(
    releases, settings
):
    with unit(releases, **settings) as server:
        wait_until(lambda: status(server, "/readyz") == 200, server.output)
        switch(releases, NEW)
        assert call(releases, "db", "init", **settings).returncode == 0
        replace_worker(server)
        said = "A newer program has raised the database"
        wait_until(lambda: said in server.output.read_text(), server.output)
        assert status(server, "/readyz") == 200
        assert status(server, "/api/v1/players") == 401
        assert version_of(server) == {OLD}
    with unit(releases, **settings) as server:
        wait_until(lambda: status(server, "/readyz") == 200, server.output)
        assert version_of(server) == {NEW}


@pytest.mark.everything
def test_a_program_started_on_the_schema_of_a_newer_one_answers_503_and_says_why(
    releases, settings
):
    switch(releases, NEW)
    assert call(releases, "db", "init", **settings).returncode == 0
    switch(releases, OLD)
    with unit(releases, **settings) as server:
        wait_until(lambda: TOO_NEW in ask(server, "/readyz")[1], server.output)
        assert status(server, "/readyz") == 503
        sign_in = {"grant_type": "password", "username": "Ann", "password": "0" * 64}
        code, text = ask(server, "/api/oauth/token", **sign_in)
        # What stands in the database is for operators, who ask /readyz.
        assert (code, "does not fit its database" in text) == (503, True)
        assert status(server, "/healthz") == 200
        # A worker that takes the place of this one knows no better.
        replace_worker(server)
        wait_until(lambda: TOO_NEW in ask(server, "/readyz")[1], server.output)
        assert TOO_NEW in server.output.read_text()
        # The backup from before the upgrade, or the newer program, is all that it waits for.
        with MongoClient(settings["MONGODB_URI"]) as client:
            client[NAME].schema.delete_many({})
        wait_until(lambda: status(server, "/readyz") == 200, server.output)
        assert ask(server, "/api/oauth/token", **sign_in)[0] == 400
