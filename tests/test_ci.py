"""What continuous integration relies on in these tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SKIPPED = "import pytest\n\ndef test_it():\n    pytest.skip('a program is missing')\n"
PASSED = "def test_it():\n    pass\n"


def run(folder, test, ci, *options):
    (folder / "test_it.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.ci", "--rootdir", folder, *options, folder],
        env={**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "parallel"])
def test_what_is_skipped_in_ci_is_a_failure(tmp_path, options):
    done = run(tmp_path, SKIPPED, "true", *options)
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize(("test", "ci"), [(SKIPPED, ""), (PASSED, "true")], ids=["skip", "pass"])
def test_anything_else_is_none(tmp_path, test, ci):
    done = run(tmp_path, test, ci)
    assert done.returncode == 0, done.stdout + done.stderr
