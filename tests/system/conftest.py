"""What the tests of running services share."""

import pytest
from click.testing import CliRunner
from pymongo import MongoClient

from app.__main__ import main
from tests.system.chromium import BROWSER, DRIVER, MISSING, running
from tests.system.console import Api, Console, session_cookie
from tests.system.programs import serving
from tests.tiers import some

WINDOW = (1200, 900)


@pytest.fixture(scope="module")
def database(request, mongodb_uri):
    """Settings for a database that a file has to itself, on the server that all files share."""
    name = request.module.__name__.rpartition(".")[2]
    yield {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": name}
    with MongoClient(mongodb_uri) as client:
        client.drop_database(name)


@pytest.fixture(scope="module")
def serve(tmp_path_factory, database):
    """Return a way to serve the database of a file, as a context."""

    def serve(*arguments, **settings):
        return serving(tmp_path_factory.mktemp("served"), *arguments, **{**database, **settings})

    return serve


@pytest.fixture(scope="module")
def serve_socket(tmp_path_factory, database):
    """Likewise, at a Unix socket, for nginx."""

    def serve(*arguments, **settings):
        folder = tmp_path_factory.mktemp("served")
        settings = {
            **database,
            "SOCKET": str(folder / "app.sock"),
            "TRUSTED_PROXIES": "1",
            **settings,
        }
        return serving(folder, *arguments, **settings)

    return serve


@pytest.fixture
def quartermaster(mongodb_uri, real_db, monkeypatch):
    """Run a command in this process, on the empty real database; return what click makes of it."""
    monkeypatch.setenv("QM_ENV", "testing")
    monkeypatch.setenv("QM_MONGODB_URI", mongodb_uri)

    def run(*arguments, stdin=None):
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return run


@pytest.fixture(scope="session")
def demo(tmp_path_factory, mongodb_uri):
    """The service with a demo world and one worker, which several files share.

    Each of them changes players and users that no other one looks at.
    """
    folder = tmp_path_factory.mktemp("demo")
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "demo", "AUTH_CACHE_SECONDS": "0"}
    with serving(folder, "--demo", WORKERS="1", **settings) as server:
        yield server


@pytest.fixture
def api(demo):
    """Somebody with a new token: an old one expires before a busy machine has run all tests."""
    return Api(demo)


@pytest.fixture(scope="module")
def session(demo):
    return session_cookie(demo.base)


WITH, WITHOUT = "with scripts", "without scripts"
with_scripts = pytest.mark.parametrize("console", [WITH], indirect=True)
without_scripts = pytest.mark.parametrize("console", [WITHOUT], indirect=True)


@pytest.fixture(params=some([WITH, WITHOUT], 1))
def console(request, browser, demo, session):
    """Somebody who has signed in to the console."""
    console = Console(browser, demo, session)
    if request.param == WITHOUT:
        console.without_scripts()
    return console


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
