"""The application on both databases, and callers with roles."""

from __future__ import annotations

import os
import shutil
from copy import copy
from functools import cache

import pytest
from mongomock.collection import BulkOperationBuilder

import config
import tests.url_builders  # noqa: F401 (for its effect)
from app.batches.running import BatchWorker
from app.database import COLLECTIONS
from app.game.actions.store import Actions
from app.privacy.store import Erasures
from app.services import add_services
from app.storage.client import Storage
from app.storage.embedded import raise_open_files
from app.storage.schema.collections import init_database
from tests import mongod, orphans, tiers
from tests.applications import Applications, empty, service
from tests.callers import Caller
from tests.factories import World
from tests.hooks import pytest_collection_finish, pytest_sessionfinish  # noqa: F401 (hooks)
from tests.ports import free_port
from tests.tiers import pytest_addoption  # noqa: F401 (hook)

PATIENCE_SECONDS = 60.0

# pymongo hands the option sort to every bulk, and mongomock does not know it.
_add_update = BulkOperationBuilder.add_update
BulkOperationBuilder.add_update = lambda *args, sort=None, **options: _add_update(*args, **options)


def pytest_configure(config):
    if not config.getoption("numprocesses", None):
        # Read by now, also by each worker. The application would take it for an unknown setting.
        os.environ.pop(mongod.CHOICE, None)
        # Most may open 1,024 files: too few for a worker's MongoDB, which keeps a thousand open.
        raise_open_files()
    orphans.pytest_configure()
    tiers.pytest_configure(config)


def pytest_collection_modifyitems(config, items):
    """Mark by what database a test needs, and begin with tests/system: its files take longest.

    Run in parallel, the long files would otherwise be what everybody waits for at the end.
    """
    tiers.select(config, items)
    for item in items:
        backend = item.callspec.params.get("backend_uri") if hasattr(item, "callspec") else None
        if backend == "mongodb" or "mongodb_uri" in item.fixturenames:
            item.add_marker("mongodb")
        elif backend == "mongomock":
            item.add_marker("mongomock")
    items.sort(key=lambda item: not item.nodeid.startswith("tests/system/"))


@pytest.fixture(scope="session")
def mongodb_uri():
    """A real MongoDB for the whole run, or for one of its workers."""
    with mongod.shared(free_port()) as uri:
        yield uri


@pytest.fixture(scope="session")
def real_storage(mongodb_uri):
    """The real database, prepared once; each test that uses it finds it empty."""
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri))
    init_database(storage.db, COLLECTIONS)
    yield storage
    storage.close()


@pytest.fixture
def real_db(real_storage):
    yield real_storage.db
    empty(real_storage.db)


@pytest.fixture(params=["mongomock", "mongodb"])
def backend_uri(request):
    """Run a test twice: on the quick imitation and on the real database."""
    if request.param == "mongomock":
        return "mongomock://localhost"
    request.getfixturevalue("real_db")
    return request.getfixturevalue("mongodb_uri")


@pytest.fixture(scope="session")
def shared_data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def data_dir(shared_data_dir):
    """The folder of the application's files, empty. Its name is a setting, so it is always one."""
    if any(shared_data_dir.iterdir()):
        shutil.rmtree(shared_data_dir)
        shared_data_dir.mkdir()
    return shared_data_dir


@pytest.fixture
def settings(backend_uri, data_dir):
    return copy(testing_settings(backend_uri, str(data_dir)))


@cache
def testing_settings(uri, folder):
    """Loaded once: to load and check them takes longer than many a test."""
    return config.load({"QM_ENV": "testing"}, MONGODB_URI=uri, DATA_DIR=folder)


@pytest.fixture
def make_app():
    """Return a maker of applications of a test's own, whose connections end with the test."""
    with Applications() as applications:
        yield applications.make


@pytest.fixture(scope="session")
def applications():
    with Applications() as applications:
        yield applications


@pytest.fixture
def extend_app():
    """A function that adds to the application; a file with routes of its own overrides this."""


@pytest.fixture
def app(applications, settings, extend_app):
    """The application with these settings: made once, with new services and no documents."""
    app = applications.shared(settings, extend_app)
    storage = service(app, Storage)
    # New services have empty caches, and undo whatever a test has replaced.
    app.config.from_object(settings)
    add_services(app, settings, storage)
    # A busy machine must not fail a test: where a game answers, it is waited for.
    service(app, Actions).wait_seconds = PATIENCE_SECONDS
    service(app, Erasures).request_seconds = PATIENCE_SECONDS
    # No transaction of a test is under way when it erases somebody.
    service(app, Erasures)._seconds = lambda: 0.0
    # The thread of a worker is not begun: whoever waits for a batch carries it out.
    service(app, BatchWorker).sleep = lambda _: service(app, BatchWorker).work()
    yield app
    if storage.is_mock:
        empty(storage.db)


@pytest.fixture
def db(app):
    return service(app, Storage).db


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def world(app):
    """Adds players and users, and signs in as them."""
    return World(app)


@pytest.fixture
def as_role(world):
    """Return request headers of a caller with these roles."""
    return world.headers


@pytest.fixture
def caller(client, as_role):
    """Return a maker of callers of the paths below a prefix, with these roles."""
    return lambda prefix="", *roles: Caller(client, as_role(*roles), prefix)
