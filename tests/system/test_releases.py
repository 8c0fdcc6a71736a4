"""A release replaces another as docs/deploy.rst has it: a folder each, and a link to one."""

import os
import shutil
import signal
import subprocess
import sys
import venv
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.exposition import Exposition
from tests.ports import free_port
from tests.system.programs import (
    Service,
    environment,
    execute,
    stopped_at_the_end,
    wait_until,
    workers_of,
)

ROOT = Path(__file__).parents[2]
OLD, NEW = "1.0", "2.0"
SIGN_IN = {"grant_type": "password", "username": "Ann", "password": "0" * 64}
ONE_MORE_STEP = "\n\nSTEPS.append(lambda db: None)\nCURRENT += 1\n"


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


@contextmanager
def unit(folder, **settings):
    """Run what the unit runs, by the path that stands in it."""
    port = free_port()
    command = [folder / "current" / "venv" / "bin" / "quartermaster", "serve", "--port", str(port)]
    with (folder / "output.txt").open("wb") as log:
        process = execute(command, environment(folder, **settings), log)
    with stopped_at_the_end(Service(process, folder, port, **settings)) as service:
        wait_until(lambda: service.poll() is not None or is_up(service), service.output)
        assert service.poll() is None, service.output.read_text()
        yield service


def is_up(server):
    try:
        return server.status("/healthz") == 200
    except (OSError, HTTPException):
        return False


def readiness(server):
    return server.ask("GET", "/readyz")[2].decode()


def version_of(server):
    return Exposition(server.ask("GET", "/metrics")[2].decode()).values_of("version")


@pytest.mark.everything
def test_a_worker_that_is_replaced_during_an_upgrade_serves_the_code_of_its_master(
    tmp_path, mongodb_uri
):
    """Though the newer release asks for a newer schema."""
    make_release(tmp_path, OLD)
    migrations = make_release(tmp_path, NEW) / "app" / "storage" / "schema" / "migrations.py"
    migrations.write_text(migrations.read_text() + ONE_MORE_STEP)
    current = tmp_path / "current"
    current.symlink_to(OLD)
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "releases"}
    settings |= {"ENV": "production", "SECRET_KEY": "s" * 32, "WORKERS": "1"}
    with unit(tmp_path, **settings) as server:
        wait_until(server.is_ready, server.output)
        subprocess.run(["ln", "-sfn", NEW, current], check=True)
        program = current / "venv" / "bin" / "quartermaster"
        env = environment(tmp_path, **settings)
        subprocess.run([program, "db", "init"], env=env, timeout=120, check=True)
        former = workers_of(server)
        os.kill(*former, signal.SIGTERM)
        server.wait_for_replaced(former)
        said = "A newer program has raised the database"
        wait_until(lambda: said in server.output.read_text(), server.output)
        assert server.is_ready()
        assert server.status("/api/v1/players") == 401
        assert version_of(server) == {OLD}
    with unit(tmp_path, **settings) as server:
        wait_until(server.is_ready, server.output)
        assert version_of(server) == {NEW}
        server.db.client.drop_database("releases")
