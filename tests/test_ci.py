"""What continuous integration, and whoever kills the tests, relies on in them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.orphans import MARK
from tests.system.programs import processes_with, wait_until

ROOT = Path(__file__).parents[1]
SKIPPED = "import pytest\n\ndef test_it():\n    pytest.skip('a program is missing')\n"
XDIST = ("-p", "xdist", "-n", "1")


@pytest.mark.parametrize(
    ("ci", "options", "status"), [("true", (), 1), ("true", XDIST, 1), ("", (), 0)]
)
def test_what_is_skipped_in_ci_and_nothing_else_is_a_failure(tmp_path, ci, options, status):
    (tmp_path / "test_it.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-p", "tests.hooks", "--rootdir", tmp_path]
    environment = {**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, *options, tmp_path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr


# As a process of Chromium, the second program has no environment that it could be recognised by.
STARTS_PROGRAMS = """
import subprocess, sys
SECOND = [sys.executable, "-c", "import time; time.sleep(600)", {name!r}]
def test_it():
    first = f"import subprocess; subprocess.run({{SECOND!r}}, env={{{{}}}})"
    subprocess.Popen([sys.executable, "-c", first], start_new_session=True).wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_what_killed_tests_have_started_ends_too(tmp_path):
    name = f"program-of-{tmp_path}"
    (tmp_path / "test_it.py").write_text(STARTS_PROGRAMS.format(name=name))
    plugins = ["-p", "tests.orphans", *XDIST, "--rootdir", tmp_path]
    env = {key: value for key, value in os.environ.items() if key != MARK}
    tests = subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugins, tmp_path],
        env={**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: len(processes_with(name)) == 2)
    tests.send_signal(signal.SIGKILL)
    tests.wait()
    wait_until(lambda: not processes_with(name))


def test_the_page_for_contributors_names_the_versions_that_ci_installs():
    installed = re.findall(r"modules\+=\((\S+)\)", (ROOT / ".ci/run").read_text())
    assert len(installed) == 7
    assert [name for name in installed if name not in (ROOT / "CONTRIBUTING.rst").read_text()] == []
