"""The two tiers: ``make test`` tries a part of each table, ``make test-all`` (``--all``) the whole.

Both run the same tests. tests/README.rst lists what only the second one notices.
"""

from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

is_everything = False

# Time says nothing about a law: a busy machine must not fail a test.
_laws = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile("some", _laws, max_examples=30)
hypothesis_settings.register_profile("all", _laws, max_examples=100)
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
# test, so tables that send every value to every operation are left out, which run the same lines
# many times, and tests of programs, which run in processes of their own.
MEASURED = ("tests/api/", "tests/domain/")
TABLES = ("test_doors.py", "test_console_doors.py", "test_hidden_words.py", "test_hostile.py")


def pause_coverage(config, items):
    """Mark the tests whose coverage is not measured, if any is."""
    if config.pluginmanager.hasplugin("_cov"):
        for item in items:
            if not item.nodeid.startswith(MEASURED) or item.path.name in TABLES:
                item.add_marker("no_cover")


def some(values, count=3):
    """Return all values under ``--all``, and otherwise this many, evenly spread, ends included."""
    values = list(values)
    if is_everything or len(values) <= count:
        return values
    step = (len(values) - 1) / max(count - 1, 1)
    return [values[round(index * step)] for index in range(count)]
