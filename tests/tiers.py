"""The two tiers: ``make test`` tries a part of each table, ``make test-all`` (``--all``) the whole.

Both run the same tests. tests/README.rst lists what only the second one notices.
"""

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
    parser.addoption("--examples", type=int, help="make so many random requests (test_hostile.py)")


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


def some(values, count=3):
    """Return all values under ``--all``, and otherwise this many, evenly spread, ends included."""
    values = list(values)
    if is_everything or len(values) <= count:
        return values
    step = (len(values) - 1) / max(count - 1, 1)
    return [values[round(index * step)] for index in range(count)]
