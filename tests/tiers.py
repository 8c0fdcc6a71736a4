"""The two tiers: ``make test`` tries a part of each table, ``make test-all`` (``--all``) the whole.

Both run the same tests. tests/README.rst lists what only the second one notices.
"""

from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

is_everything = False

# Time says nothing about a law: a busy machine must not fail a test.
_laws = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile("some", _laws, max_examples=20)
hypothesis_settings.register_profile("all", _laws, max_examples=60)
# make quick: the first examples run nearly all lines.
hypothesis_settings.register_profile("few", _laws, max_examples=10)
hypothesis_settings.load_profile("some")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="try every value of every table")


def pytest_configure(config):
    """Set the tier before any test file is imported, because parameters are made at the import."""
    global is_everything
    is_everything = config.getoption("--all")
    if is_everything:
        hypothesis_settings.load_profile("all")


def select(config, items):
    """Leave out what is marked as ``everything``, unless it was asked for."""
    if is_everything:
        return
    left_out = [item for item in items if item.get_closest_marker("everything")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("everything")]


# Coverage is measured in the run of all tests. Before Python 3.14 it doubles the CPU time of a
# test. So it leaves out programs, which run in processes of their own, and tests that run the same
# lines many times: tables, properties, races and walks. Other tests run those lines as well.
MEASURED = ("tests/api/", "tests/domain/")
REPEATED = {
    *("after", "batch_background", "batch_splits", "console_doors", "deep_pages", "doors"),
    *("foreign_writers", "hidden_words", "hostile", "items", "laws", "metrics"),
    *("odd_accounts", "players_and_items", "records", "samples", "world"),
}


def is_measured(item):
    name = item.path.stem.removeprefix("test_")
    return item.nodeid.startswith(MEASURED) and name not in REPEATED


@contextmanager
def without_coverage(config, when=True):
    """Pause coverage, if it is measured; pytest-cov's own mark would not pause it for fixtures."""
    plugin = config.pluginmanager.get_plugin("_cov")
    controller = plugin.cov_controller if plugin and when else None
    is_paused = bool(controller and controller.started)
    if is_paused:
        controller.pause()
    try:
        yield
    finally:
        if is_paused:
            controller.resume()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Leave out what test files run while they are imported; tests/conftest.py imports app."""
    with without_coverage(session.config):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    with without_coverage(item.config, not is_measured(item)):
        return (yield)


def some(values, count=3):
    """Return all values under ``--all``, and otherwise this many, evenly spread, ends included."""
    values = list(values)
    if is_everything or len(values) <= count:
        return values
    step = (len(values) - 1) / max(count - 1, 1)
    return [values[round(index * step)] for index in range(count)]
