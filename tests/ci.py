"""In CI, a skipped test is a missing program, and a missing program is a failure."""

import os

import pytest


def pytest_sessionfinish(session):
    # The workers of pytest-xdist have no reporter; the process that started them has all reports.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
