from __future__ import annotations

import time
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

import config
from app.core.errors import Unavailable
from app.core.limits import DatabasePlaces
from app.database import COLLECTIONS
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from app.storage.schema.preparation import Preparation
from tests.applications import service
from tests.factories import make_role, make_user
from tests.system.programs import wait_until


def test_a_living_service_is_healthy_and_ready(client):
    assert client.get("/healthz").json == {"status": "ok"}
    # Details say what is configured otherwise than recommended.
    assert client.get("/readyz").json["status"] == "ready"


def test_without_its_database_it_lives_and_is_not_ready(make_app):
    settings = config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI="mongodb://127.0.0.1:1/",
        MONGODB_SELECTION_SECONDS=0.2,
    )
    client = make_app(settings).test_client()
    assert client.get("/healthz").status_code == 200
    started = time.monotonic()
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json["Message"] == "The database does not answer."
    assert response.headers["Retry-After"]
    # Without the setting, the driver would look for a server for 30 seconds.
    assert time.monotonic() - started < 25


def test_the_documentation_is_served_from_here(client):
    page = client.get("/api/docs").text
    assert "//" not in page.replace("http://localhost", "").split("<body>")[0].replace("</", "")
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "page.css", "page.js"):
        assert f"/api/docs/files/{name}" in page
        with client.get(f"/api/docs/files/{name}") as file:
            assert file.status_code == 200
    assert client.get("/api/docs/files/../__init__.py").status_code == 404
    specification = client.get("/api/openapi.json")
    assert specification.headers["Content-Type"] == "application/json; charset=utf-8"
    assert "/api/oauth/token" in specification.json["paths"]


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    ("path", "to"), [("/", "/console"), ("/api", "/api/docs"), ("/api/", "/api/docs")]
)
def test_a_browser_is_led_to_pages_and_a_program_is_not(client, path, to):
    led = client.get(path, headers={"Accept": BROWSER})
    assert (led.status_code, led.headers["Location"]) == (302, to)
    for accept in ("application/json", "*/*", ""):
        told = client.get(path, headers={"Accept": accept})
        assert told.status_code == 404
        assert told.json["Message"] == "This path does not exist."
        assert led.headers["Vary"] == told.headers["Vary"] == "Accept"


def test_a_worker_is_ready_when_its_database_is_prepared(make_app, real_storage):
    settings = config.load(
        {"QM_ENV": "testing"}, MONGODB_URI=real_storage.uri, MONGODB_DATABASE="fresh"
    )
    app = make_app(settings)
    storage, preparation = (service(app, part) for part in (Storage, Preparation))
    preparation.begin()
    wait_until(lambda: app.test_client().get("/readyz").status_code == 200)
    assert "name" in storage.db.players.index_information()
    storage.client.drop_database("fresh")


def test_a_worker_is_ready_when_the_role_that_limits_power_exists(make_app, real_storage):
    """Otherwise a misspelt name would mean no limits; a removed role keeps its limits."""
    settings = config.load(
        {"QM_ENV": "testing", "QM_POWER_ROLE": "guests"},
        MONGODB_URI=real_storage.uri,
        MONGODB_DATABASE="limited",
    )
    app = make_app(settings)
    storage, preparation = (service(app, part) for part in (Storage, Preparation))
    preparation.begin()
    answer = app.test_client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json["Message"].startswith("QM_POWER_ROLE is 'guests', and there is no such role")
    removed = make_role("guests", RemovedAt=datetime.now(timezone.utc))
    storage.db.roles.insert_one(removed)
    wait_until(lambda: app.test_client().get("/readyz").status_code == 200)
    storage.client.drop_database("limited")


def test_a_worker_begins_to_serve_when_it_is_ready_if_its_database_is(real_storage):
    storage = SimpleNamespace(
        db=real_storage.client["prepared"], ping=lambda: None, places=DatabasePlaces(1)
    )
    init_database(storage.db, COLLECTIONS)
    prepared = Preparation(storage, COLLECTIONS)
    prepared.begin()
    prepared.check()
    real_storage.client.drop_database("prepared")


def test_a_worker_whose_database_cannot_be_prepared_is_not_ready(make_app, real_storage):
    settings = config.load(
        {"QM_ENV": "testing"}, MONGODB_URI=real_storage.uri, MONGODB_DATABASE="spoilt"
    )
    app = make_app(settings)
    storage, preparation = (service(app, part) for part in (Storage, Preparation))
    storage.db.users.insert_many([make_user(Name="Bob"), make_user(Name="BOB")])
    preparation.begin()

    def message():
        return app.test_client().get("/readyz").json.get("Message", "")

    wait_until(lambda: "could not be prepared" in message())
    storage.db.users.delete_many({})
    wait_until(lambda: message() == "")
    storage.client.drop_database("spoilt")


class FailingAtFirst:
    """A database of which some first uses raise an error that nobody foresaw."""

    def __init__(self, db, failures):
        self._db, self.failures = db, failures

    def __getitem__(self, name):
        if self.failures:
            self.failures -= 1
            raise KeyError("SchemaVersion")
        return self._db[name]

    def __getattr__(self, name):
        return getattr(self._db, name)


def test_what_stands_in_the_way_of_preparing_is_said_once_and_tried_again(real_storage, caplog):
    storage = SimpleNamespace(
        db=FailingAtFirst(real_storage.client["hindered"], failures=4),
        ping=lambda: None,
        places=DatabasePlaces(1),
    )
    prepared = Preparation(storage, COLLECTIONS, pause=0.0)
    prepared.begin()
    wait_until(lambda: is_ready(prepared))
    assert storage.db.failures == 0
    real_storage.client.drop_database("hindered")
    assert caplog.text.count("KeyError: 'SchemaVersion'") == 1
    assert caplog.text.count("This worker is not ready") == 1


def is_ready(prepared):
    try:
        prepared.check()
    except Unavailable:
        return False
    return True
