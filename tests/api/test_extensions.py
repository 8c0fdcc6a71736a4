"""Extensions of Flask that users add do their work, with the real packages."""

from __future__ import annotations

import flask
import pytest
import sentry_sdk
from flask import signals
from flask_cors import CORS
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from sentry_sdk.integrations.flask import FlaskIntegration
from sentry_sdk.transport import Transport

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


def test_flask_cors_answers_a_preflight_and_marks_every_answer(app, client):
    CORS(app, origins=[ORIGIN])
    preflight = client.options("/api/v1/players/rank", headers=PREFLIGHT)
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert preflight.headers["Access-Control-Allow-Headers"] == "authorization, content-type"
    for path, status in (("/healthz", 200), ("/api/v1/players", 401), ("/bug", 500)):
        response = client.get(path, headers={"Origin": ORIGIN})
        assert response.status_code == status
        assert response.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert (
        "Access-Control-Allow-Origin"
        not in client.get("/healthz", headers={"Origin": "https://other.example"}).headers
    )


def test_pages_of_the_listed_origins_use_the_api_and_nothing_else(make_app):
    origins = [ORIGIN, "https://guild.example:8443"]
    client = make_app(config.load({"QM_ENV": "testing"}, CORS_ORIGINS=origins)).test_client()
    for origin in origins:
        preflight = client.options("/api/v1/players/rank", headers={**PREFLIGHT, "Origin": origin})
        assert (preflight.status_code, preflight.headers["Access-Control-Allow-Origin"]) == (
            *(200, origin),
        )
        allowed = preflight.headers["Access-Control-Allow-Headers"]
        assert allowed.lower() == "authorization, content-type"
        refused = client.get("/api/v1/players/rank", headers={"Origin": origin})
        assert refused.status_code == 401
        assert refused.headers["Access-Control-Allow-Origin"] == origin
        assert "X-Request-ID" in refused.headers["Access-Control-Expose-Headers"]
        assert "Origin" in refused.headers["Vary"]
    others = [("/api/v1/players/rank", "https://other.example"), ("/console/sign-in", ORIGIN)]
    for path, origin in [*others, ("/healthz", ORIGIN), ("/api/v1/players/rank", "null")]:
        headers = client.get(path, headers={"Origin": origin}).headers
        assert "Access-Control-Allow-Origin" not in headers, path
        assert "Access-Control-Allow-Credentials" not in headers


def test_without_the_setting_no_page_of_another_origin_is_let_in(make_app):
    client = make_app(config.load({"QM_ENV": "testing"})).test_client()
    assert client.options("/api/v1/players/rank", headers=PREFLIGHT).status_code == 405
    answer = client.get("/api/v1/players/rank", headers={"Origin": ORIGIN})
    assert "Access-Control-Allow-Origin" not in answer.headers


class KeptEvents(Transport):
    """Keeps events in memory: nothing leaves the machine."""

    def __init__(self):
        super().__init__()
        self.events = []

    def capture_envelope(self, envelope):
        self.events += [item.payload.json for item in envelope.items if item.type == "event"]


@pytest.fixture
def sentry_events(monkeypatch):
    # Sentry replaces this method, and connects to signals, for the rest of the process.
    monkeypatch.setattr(flask.Flask, "__call__", flask.Flask.__call__)
    used = (signals.request_started, signals.got_request_exception, signals.before_render_template)
    before = [dict(signal.receivers) for signal in used]
    transport = KeptEvents()
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=transport,
        integrations=[FlaskIntegration()],
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    yield transport.events
    sentry_sdk.get_global_scope().set_client(None)
    for signal, receivers in zip(used, before, strict=True):
        for identifier in signal.receivers.keys() - receivers.keys():
            signal.disconnect(signal.receivers[identifier]())


def test_sentry_sees_an_unexpected_error_and_no_other(client, sentry_events):
    assert client.get("/nowhere").status_code == 404
    assert client.get("/api/v1/players").status_code == 401
    assert sentry_events == []
    assert client.get("/bug").status_code == 500
    (event,) = sentry_events
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("ZeroDivisionError", "a bug")
    assert (event["transaction"], event["request"]["method"]) == ("bug", "GET")


@pytest.fixture
def spans(app):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    FlaskInstrumentor().instrument_app(app, tracer_provider=provider)
    yield exporter.get_finished_spans
    FlaskInstrumentor().uninstrument_app(app)
    provider.shutdown()


def test_opentelemetry_makes_a_span_of_every_request(client, spans):
    client.get("/healthz")
    client.get("/api/v1/players/Bob")
    client.get("/nowhere")
    assert [span.name for span in spans()] == [
        "GET /healthz",
        "GET /api/v1/players/<player:key>",
        "GET /nowhere",
    ]
    assert [span.attributes["http.status_code"] for span in spans()] == [200, 401, 404]


def test_opentelemetry_records_an_unexpected_error(client, spans):
    client.get("/bug")
    (span,) = spans()
    assert span.status.status_code is StatusCode.ERROR
    assert [event.attributes["exception.type"] for event in span.events] == ["ZeroDivisionError"]


def test_a_limiter_refuses_what_is_too_much_in_our_shape(app, client):
    Limiter(get_remote_address, app=app, default_limits=["2 per hour"], storage_uri="memory://")
    answers = [client.get("/healthz") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json == {"Message": "2 per 1 hour", "Code": "TOO_MANY_REQUESTS"}
    assert answers[2].headers["X-Request-ID"]
