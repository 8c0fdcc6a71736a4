"""Extensions of Flask that users add do their work, with the real packages."""

from __future__ import annotations

import pytest
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import config

ORIGIN = "https://console.example"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
}
BUG = ZeroDivisionError("a bug")


@pytest.fixture
def app(make_app):
    app = make_app(config.load({"QM_ENV": "testing"}, PROVIDE_AUTOMATIC_OPTIONS=True))

    @app.get("/bug")
    def bug():
        raise BUG

    return app


@pytest.fixture
def client(app):
    return app.test_client()


def test_pages_of_the_listed_origins_use_the_api_and_nothing_else(make_app):
    origins = [ORIGIN, "https://guild.example:8443"]
    client = make_app(config.load({"QM_ENV": "testing"}, CORS_ORIGINS=origins)).test_client()
    for origin in origins:
        preflight = client.options("/api/v1/players/rank", headers={**PREFLIGHT, "Origin": origin})
        assert preflight.status_code == 200
        assert preflight.headers["Access-Control-Allow-Origin"] == origin
        allowed = preflight.headers["Access-Control-Allow-Headers"]
        assert allowed.lower() == "authorization, content-type"
        refused = client.get("/api/v1/players/rank", headers={"Origin": origin})
        assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (
            401,
            origin,
        )
        assert "X-Request-ID" in refused.headers["Access-Control-Expose-Headers"]
        assert "Origin" in refused.headers["Vary"]
    for path, origin in (
        *(("/api/v1/players/rank", "https://other.example"), ("/api/v1/players/rank", "null")),
        *(("/console/sign-in", ORIGIN), ("/healthz", ORIGIN)),
    ):
        headers = client.get(path, headers={"Origin": origin}).headers
        assert "Access-Control-Allow-Origin" not in headers, path
        assert "Access-Control-Allow-Credentials" not in headers


def test_without_the_setting_no_page_of_another_origin_is_let_in(make_app):
    client = make_app(config.load({"QM_ENV": "testing"})).test_client()
    assert client.options("/api/v1/players/rank", headers=PREFLIGHT).status_code == 405
    answer = client.get("/api/v1/players/rank", headers={"Origin": ORIGIN})
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.fixture
def spans(app):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    FlaskInstrumentor().instrument_app(app, tracer_provider=provider)
    yield exporter.get_finished_spans
    FlaskInstrumentor().uninstrument_app(app)
    provider.shutdown()


def test_opentelemetry_makes_a_span_of_every_request_and_records_an_error(client, spans):
    for path in ("/healthz", "/api/v1/players/Bob", "/nowhere", "/bug"):
        client.get(path)
    assert [(span.name, span.attributes["http.status_code"]) for span in spans()] == [
        *(("GET /healthz", 200), ("GET /api/v1/players/<player:key>", 401)),
        *(("GET /nowhere", 404), ("GET /bug", 500)),
    ]
    (event,) = spans()[-1].events
    assert event.attributes["exception.type"] == "ZeroDivisionError"


def test_a_limiter_refuses_what_is_too_much_in_our_shape(app, client):
    Limiter(get_remote_address, app=app, default_limits=["2 per hour"], storage_uri="memory://")
    answers = [client.get("/healthz") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json == {"Message": "2 per 1 hour", "Code": "TOO_MANY_REQUESTS"}
    assert answers[2].headers["X-Request-ID"]
