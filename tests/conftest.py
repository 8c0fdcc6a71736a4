"""The application on both databases, and callers with roles."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

import config
from app import create_app
from app.database import COLLECTIONS
from app.http.context import SERVICES
from app.storage.client import Storage
from app.storage.embedded.lease import Lease
from app.storage.schema import migrations
from app.storage.schema.collections import init_database
from tests.collection_plans import NAMES
from tests.factories import World

# Time says nothing about a law: a busy machine must not fail a test.
hypothesis_settings.register_profile(
    "laws", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("laws")


@pytest.fixture(scope="session")
def mongodb_uri(tmp_path_factory):
    """A real MongoDB for the whole run. Without one, the tests fail; they do not look away."""
    lease = Lease(str(tmp_path_factory.mktemp("mongodb")), cache_gb=0.5)
    yield lease.uri
    lease.close()


@pytest.fixture(scope="session")
def real_storage(mongodb_uri):
    """The one real database, prepared once; each test that uses it finds it empty."""
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri))
    init_database(storage.db, COLLECTIONS)
    yield storage
    storage.close()


@pytest.fixture
def real_db(real_storage):
    yield real_storage.db
    for name in NAMES - {migrations.VERSIONS}:
        real_storage.db[name].delete_many({})


@pytest.fixture(params=["mongomock", "mongodb"])
def backend_uri(request):
    """Run a test twice: on the quick imitation and on the real thing."""
    if request.param == "mongomock":
        return "mongomock://localhost"
    request.getfixturevalue("real_db")
    return request.getfixturevalue("mongodb_uri")


@pytest.fixture
def settings(backend_uri):
    return config.load({"QM_ENV": "testing"}, MONGODB_URI=backend_uri)


@pytest.fixture
def make_app():
    """Return a maker of applications, whose connections end with the test."""
    storages = []

    def make(settings):
        app = create_app(settings)
        storages.append(app.extensions[SERVICES][Storage])
        if storages[-1].is_mock:
            init_database(storages[-1].db, COLLECTIONS)
        return app

    yield make
    for storage in storages:
        storage.close()


@pytest.fixture
def app(make_app, settings):
    return make_app(settings)


@pytest.fixture
def db(app):
    return app.extensions[SERVICES][Storage].db


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


def pytest_sessionfinish(session, exitstatus):
    """In CI, a skipped test is a missing part, and a missing part is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
