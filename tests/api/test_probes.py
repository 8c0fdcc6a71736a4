from __future__ import annotations

import time

import config


def test_a_living_service_is_healthy_and_ready(client):
    assert client.get("/healthz").json == {"status": "ok"}
    assert client.get("/readyz").json == {"status": "ready"}


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
    assert response.json == {"Message": "The database does not answer."}
    assert response.headers["Retry-After"]
    assert time.monotonic() - started < 5


def test_the_documentation_is_served_from_here(client):
    page = client.get("/api/docs").text
    assert "//" not in page.replace("http://localhost", "").split("<body>")[0].replace("</", "")
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js"):
        assert f"/api/docs/files/{name}" in page
        with client.get(f"/api/docs/files/{name}") as file:
            assert file.status_code == 200
    assert client.get("/api/docs/files/../__init__.py").status_code == 404
    specification = client.get("/api/openapi.json")
    assert specification.headers["Content-Type"] == "application/json; charset=utf-8"
    assert "/api/oauth/token" in specification.json["paths"]
