"""What the tests of running services share."""

from __future__ import annotations

import pytest
from pymongo import MongoClient

from tests.system.chromium import BROWSER, DRIVER, MISSING, running

WINDOW = (1400, 2000)


@pytest.fixture(scope="module")
def database(request, mongodb_uri):
    """Settings for a database that a file has to itself, on the server that all files share."""
    name = request.module.__name__.rpartition(".")[2]
    yield {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": name}
    with MongoClient(mongodb_uri) as client:
        client.drop_database(name)


@pytest.fixture(scope="session")
def chromium():
    """Chromium, started once."""
    if not (BROWSER and DRIVER):
        pytest.skip(MISSING)
    with running() as chromium:
        yield chromium


@pytest.fixture
def browser(chromium):
    """A new tab in a browser that knows nobody: no cookie, nothing logged.

    What it has cached stays: each file's server has an address of its own.
    """
    former = chromium.window_handles
    chromium.switch_to.new_window("tab")
    for handle in former:
        chromium.execute_cdp_cmd("Target.closeTarget", {"targetId": handle})
    chromium.set_window_size(*WINDOW)
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    for log in ("browser", "performance"):
        chromium.get_log(log)
    return chromium
