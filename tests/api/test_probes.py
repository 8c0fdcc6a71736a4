"""The probes of a worker, its documentation, and where a browser is led to."""

from datetime import datetime, timezone

import pytest

import config
from app.database import COLLECTIONS
from app.storage.schema.collections import init_database
from app.storage.schema.migrations import ONLY, VERSIONS
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
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json["Message"] == "The database does not answer."
    assert response.headers["Retry-After"]


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


@pytest.fixture
def unprepared(make_app, real_storage):
    """Return a maker of applications, each with the database that it begins to prepare."""
    database = {"MONGODB_URI": real_storage.uri, "MONGODB_DATABASE": "unprepared"}

    def make(prepare_by, **settings):
        app = make_app(config.load({"QM_ENV": "testing"}, **database, **settings))
        db = real_storage.client["unprepared"]
        prepare_by(db)
        service(app, Preparation).begin()
        return db, lambda: app.test_client().get("/readyz")

    yield make
    real_storage.client.drop_database("unprepared")


def is_ready(ask):
    return ask().status_code == 200


def test_a_worker_is_ready_when_its_database_is_prepared(unprepared):
    db, ask = unprepared(lambda db: None)
    wait_until(lambda: is_ready(ask))
    assert "name" in db.players.index_information()


def test_a_worker_is_ready_when_the_role_that_limits_power_exists(unprepared):
    """Otherwise a misspelt name would mean no limits; a removed role keeps its limits."""
    db, ask = unprepared(lambda db: None, POWER_ROLE="guests")
    sentence = "QM_POWER_ROLE is 'guests', and there is no such role"
    wait_until(lambda: ask().json.get("Message", "").startswith(sentence))
    db.roles.insert_one(make_role("guests", RemovedAt=datetime.now(timezone.utc)))
    wait_until(lambda: is_ready(ask))


def test_a_worker_whose_database_cannot_be_prepared_is_not_ready(unprepared, caplog):
    twins = [make_user(Name="Bob"), make_user(Name="BOB")]
    db, ask = unprepared(lambda db: db.users.insert_many(twins))
    wait_until(lambda: "could not be prepared" in ask().json.get("Message", ""))
    assert "This worker is not ready" in caplog.text
    db.users.delete_many({})
    wait_until(lambda: is_ready(ask))


def test_an_error_that_nobody_foresaw_is_said_once_and_tried_again(unprepared, caplog):
    db, ask = unprepared(lambda db: db[VERSIONS].insert_one({**ONLY, "Version": "?"}))
    wait_until(lambda: "could not be prepared" in ask().json.get("Message", ""))
    db[VERSIONS].delete_many({})
    wait_until(lambda: is_ready(ask))
    assert caplog.text.count("KeyError: 'SchemaVersion'") == 1


def test_a_worker_begins_to_serve_when_it_is_ready_if_its_database_is(unprepared):
    _, ask = unprepared(lambda db: init_database(db, COLLECTIONS))
    assert is_ready(ask)
