"""Hooks of every run: skips are failures in CI, and imports are no garbage."""

import gc
import os

import pytest

# Imports and thousands of collected tests are no garbage, and to look through them again and again
# takes a third of the collection's time.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session):
    """Fail in CI where a test was skipped: a program is missing."""
    # The workers of pytest-xdist have no reporter; the process that started them has all reports.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
