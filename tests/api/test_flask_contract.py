"""Hooks, signals, sessions, hosts and return values work as Flask documents them."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import flask
import pytest
from flask import Response, abort, after_this_request, session, signals, url_for
from flask.sessions import SecureCookieSessionInterface

import config
from app import create_app
from app.auth import guard
from app.auth.scopes import KeyAccess
from app.errors import Conflict, NotFound
from app.http.api import AsyncView, Blueprint, Schema
from app.http.context import SERVICES, current
from app.http.fields import Integer
from app.http.json import json_response
from app.http.tracing import request_id
from app.players.store import Players
from app.storage.client import Storage

BUG = ZeroDivisionError("a bug")
SIGNALS = (
    signals.request_started,
    signals.request_finished,
    signals.request_tearing_down,
    signals.got_request_exception,
    signals.appcontext_pushed,
    signals.appcontext_popped,
    signals.appcontext_tearing_down,
)
HOOKS = ("before_request", "after_request", "teardown_request", "teardown_appcontext")
FAILURES = {
    "bug": BUG,
    "conflict": Conflict("The inventory is full."),
    "missing": NotFound("player", "Bob"),
}

ANSWERS = {
    "dict": lambda: {"a": 1},
    "list": lambda: [1, 2],
    "str": lambda: "text",
    "bytes": lambda: b"bytes",
    "status": lambda: ({"a": 1}, 201),
    "headers": lambda: ("text", {"X-More": "1"}),
    "all": lambda: ("text", 202, {"X-More": "1"}),
    "generator": lambda: (part for part in ("a", "b")),
    "wsgi": lambda: Response("teapot", 418),
    "json": lambda: json_response({"a": 1}, 203, {"X-More": "1"}),
    "none": lambda: None,
    "number": lambda: 5,
    "abort": lambda: abort(418),
    "redirect": lambda: flask.redirect("/healthz"),
    "url": lambda: url_for("healthz", _external=True),
    "path": lambda: url_for("healthz"),
}


class NumberArgs(Schema):
    number = Integer(required=True)


def add_views(app):
    """Add views that answer, or fail, in every way that Flask allows."""
    things = Blueprint("Things", "things", url_prefix="/things")

    @things.route("/answer/<kind>")
    @guard.public
    def answer(kind):
        return ANSWERS[kind]()

    @things.route("/fail/<kind>")
    @guard.public
    def fail(kind):
        raise FAILURES[kind]

    @things.route("/number", methods=["POST"])
    @guard.public
    @things.arguments(NumberArgs())
    def number(args):
        return args

    @things.route("/mark")
    @guard.public
    def mark():
        @after_this_request
        def add_mark(response):
            response.headers["X-Mark"] = "1"
            return response

        return {"request_id": request_id()}

    app.register_blueprint(things)
    app.add_url_rule("/moved", "moved", redirect_to="/healthz")
    app.add_url_rule("/pages", "pages", lambda page: f"page {page}", defaults={"page": 1})
    app.add_url_rule("/pages/<int:page>", "pages")
    app.add_url_rule(
        "/open", "open", lambda: "open", methods=["GET"], provide_automatic_options=True
    )
    return app


REQUESTS = [
    ("GET", "/healthz", {}),
    ("HEAD", "/healthz", {}),
    ("OPTIONS", "/healthz", {}),
    ("POST", "/healthz", {}),
    ("BREW", "/healthz", {}),
    ("OPTIONS", "/open", {}),
    ("OPTIONS", "/nowhere", {}),
    ("GET", "/nowhere", {}),
    ("HEAD", "/nowhere", {}),
    ("GET", "/moved?a=1", {}),
    ("GET", "/pages", {}),
    ("GET", "/pages/1", {}),
    ("GET", "/pages/2", {}),
    ("GET", "/things/mark", {}),
    ("POST", "/things/number", {"json": {"number": 5}}),
    ("POST", "/things/number", {"json": {"number": "five"}}),
    ("POST", "/things/number", {"data": "{", "content_type": "application/json"}),
    ("POST", "/things/number", {"data": "a=1", "content_type": "text/plain"}),
    ("GET", "/api/v1/players", {}),
    ("GET", "/openapi.json", {}),
    *(("GET", f"/things/answer/{kind}", {}) for kind in ANSWERS),
    *(("HEAD", f"/things/answer/{kind}", {}) for kind in ("dict", "str", "none")),
    *(("GET", f"/things/fail/{kind}", {}) for kind in FAILURES),
]


@pytest.fixture
def app(make_app):
    return add_views(make_app(config.load({"QM_ENV": "testing"})))


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture(scope="module")
def pair():
    """Two applications: without hooks, and with every hook, none of which changes anything."""
    plain, hooked = (add_views(create_app(config.load({"QM_ENV": "testing"}))) for _ in range(2))
    hooked.before_request(lambda: None)
    hooked.after_request(lambda response: response)
    hooked.teardown_request(lambda error: None)
    hooked.teardown_appcontext(lambda error: None)
    hooked.url_value_preprocessor(lambda endpoint, values: None)
    yield plain, hooked
    for app in (plain, hooked):
        app.extensions[SERVICES][Storage].close()


@pytest.mark.parametrize(("method", "path", "options"), REQUESTS)
def test_the_short_way_and_flasks_own_dispatch_answer_alike(pair, method, path, options):
    plain, hooked = pair
    options = {"method": method, "headers": {"X-Request-ID": "same"}, **options}
    ours = plain.test_client().open(path, **options)
    with ExitStack() as stack:
        for signal in SIGNALS:
            stack.enter_context(signal.connected_to(lambda *_, **__: None, hooked))
        flasks = hooked.test_client().open(path, **options)
    assert ours.status == flasks.status
    assert list(ours.headers) == list(flasks.headers)
    assert ours.data == flasks.data
    assert ours.headers["X-Request-ID"] == "same"


def test_without_hooks_the_short_way_is_taken(app, client, monkeypatch):
    called = []
    for step in ("full_dispatch_request", "finalize_request"):
        monkeypatch.setattr(flask.Flask, step, lambda *_, step=step: called.append(step))
    assert client.get("/healthz").status_code == 200
    assert called == []


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    "path", ["/healthz", "/nowhere", "/things/fail/bug", "/things/fail/missing"]
)
def test_a_hook_runs_once_even_if_it_is_registered_after_the_first_request(app, client, hook, path):
    client.get("/healthz")
    seen = []
    getattr(app, hook)(lambda *args: seen.append(request_id()) or (args[0] if args else None))
    client.get(path, headers={"X-Request-ID": "mine"})
    assert seen == ["mine"]


def test_the_hooks_of_a_blueprint_run_for_its_views_alone(app, client):
    parts, seen = flask.Blueprint("parts", __name__), []
    parts.before_request(lambda: seen.append("before"))
    parts.after_request(lambda response: seen.append("after") or response)
    parts.teardown_request(lambda error: seen.append("teardown"))
    parts.url_value_preprocessor(lambda endpoint, values: seen.append(values.pop("part")))
    parts.add_url_rule("/parts/<part>", "part", lambda: "part")
    app.register_blueprint(parts)
    client.get("/healthz")
    assert seen == []
    assert client.get("/parts/left").text == "part"
    assert seen == ["left", "before", "after", "teardown"]


def test_a_hook_may_answer_instead_of_the_view(app, client):
    app.before_request(lambda: ({"Message": "Closed."}, 503))
    response = client.get("/healthz")
    assert (response.status_code, response.json) == (503, {"Message": "Closed."})
    assert response.headers["X-Request-ID"]


def test_an_error_in_a_hook_is_a_500_in_our_shape(app, client):
    @app.after_request
    def fail(response):
        raise BUG

    response = client.get("/healthz", headers={"X-Request-ID": "mine"})
    assert response.status_code == 500
    assert response.json.keys() == {"Message"}
    assert response.headers["X-Request-ID"] == "mine"


def test_what_a_hook_changes_is_what_is_logged(app, client, caplog):
    app.after_request(lambda response: Response("gone", 410))
    with caplog.at_level(logging.INFO, "quartermaster.access"):
        client.get("/healthz")
    (record,) = [record for record in caplog.records if hasattr(record, "details")]
    assert record.details["status"] == 410


def test_hooks_reach_the_services_of_the_application(app, client):
    storage, names = current(Storage), []
    app.before_request(lambda: names.append(storage.db.name))
    app.teardown_request(lambda error: names.append(storage.db.name))
    client.get("/healthz")
    assert names == ["quartermaster"] * 2


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_every_signal_of_a_request_is_sent(app, client, signal):
    sent = []
    client.get("/healthz")
    with signal.connected_to(lambda sender, **_: sent.append(sender), app):
        client.get("/things/fail/bug")
        assert sent == [app]
    client.get("/things/fail/bug")
    assert sent == [app]


@pytest.mark.parametrize(("kind", "is_signalled"), [("bug", True), ("missing", False)])
def test_only_unexpected_errors_are_signalled_and_handed_to_teardown(
    app, client, kind, is_signalled
):
    signalled, handed = [], []
    app.teardown_request(handed.append)
    with signals.got_request_exception.connected_to(
        lambda sender, exception: signalled.append(exception), app
    ):
        client.get(f"/things/fail/{kind}")
    assert (signalled, handed) == (([BUG], [BUG]) if is_signalled else ([], [None]))


def test_errors_are_raised_where_flask_is_told_so(app, client):
    app.config["PROPAGATE_EXCEPTIONS"] = True
    with pytest.raises(ZeroDivisionError):
        client.get("/things/fail/bug")


def test_a_request_that_is_dispatched_by_hand_is_answered(app):
    with app.test_request_context("/healthz"):
        assert app.full_dispatch_request().status_code == 200


def test_a_function_for_after_this_request_runs_in_the_short_way(client):
    assert client.get("/things/mark").headers["X-Mark"] == "1"


def test_a_session_can_be_read_and_a_change_to_it_is_refused_in_plain_words(app):
    with app.test_request_context("/healthz"):
        assert session.get("user") is None
        for change in (
            lambda: session.update(user=1),
            lambda: session.pop("user"),
            lambda: session.setdefault("user", 1),
            lambda: flask.session.__setitem__("user", 1),
        ):
            with pytest.raises(RuntimeError, match=r"app\.session_interface"):
                change()


def test_an_interface_for_sessions_is_used_where_one_is_set(app, client):
    app.session_interface = SecureCookieSessionInterface()
    app.add_url_rule("/sign", "sign", lambda: session.update(user="Bob") or "signed")
    app.add_url_rule("/user", "user", lambda: session.get("user", "nobody"))
    assert client.get("/user").text == "nobody"
    assert "session=" in client.get("/sign").headers["Set-Cookie"]
    assert client.get("/user").text == "Bob"


def test_urls_have_the_host_and_the_prefix_of_the_request(client):
    options = {"base_url": "https://tools.example:8443/quartermaster"}
    assert (
        client.get("/things/answer/url", **options).text
        == "https://tools.example:8443/quartermaster/healthz"
    )
    assert client.get("/things/answer/path", **options).text == "/quartermaster/healthz"
    moved = client.get("/pages/1", **options)
    assert moved.headers["Location"] == "https://tools.example:8443/quartermaster/pages"


def test_urls_are_built_outside_of_requests_by_the_name_of_the_server(app):
    app.config["SERVER_NAME"] = "game.example"
    with app.app_context():
        assert url_for("healthz") == "http://game.example/healthz"


def test_hosts_that_are_not_trusted_are_refused(app, client):
    app.config["TRUSTED_HOSTS"] = ["game.example"]
    assert client.get("/healthz", base_url="http://game.example").status_code == 200
    assert client.get("/healthz", base_url="http://other.example").status_code == 400


def test_subdomains_are_matched_where_flask_is_told_so(app, client):
    app.config["SERVER_NAME"] = "game.example"
    app.subdomain_matching = True
    app.add_url_rule("/tool", "tool", lambda: "tool", subdomain="admin")
    assert client.get("/tool", base_url="http://admin.game.example").text == "tool"
    assert client.get("/tool", base_url="http://game.example").status_code == 404


def test_a_coroutine_is_a_view_as_far_as_flask_allows(app, client):
    async def view():
        return {"a": 1}

    app.add_url_rule("/later", "later", view)
    assert client.get("/later").json == {"a": 1}
    app.before_request(lambda: None)
    assert client.get("/later").json == {"a": 1}


def test_a_coroutine_behind_our_decorators_is_refused_at_the_start():
    things = Blueprint("Things", __name__, url_prefix="/things")

    @guard.required(KeyAccess.NONE)
    async def view():
        return {"a": 1}

    with pytest.raises(AsyncView, match="/later"):
        things.add_url_rule("/later", None, view)


def test_a_request_context_of_its_own_is_dispatched_as_a_request_is(app, world, as_role):
    player = world.add_player()
    path, headers = f"/api/v1/players/{player['_id']}", as_role()
    with app.test_request_context(path, headers=headers):
        answer = app.full_dispatch_request()
        assert (answer.status_code, answer.json["Id"]) == (200, player["_id"])
        assert answer.headers["X-Request-ID"]
    with app.test_request_context("/api/oauth/token", method="POST", data={"grant_type": "x"}):
        assert app.full_dispatch_request().status_code == 400
    with app.app_context():
        assert current(Players).count_online() == 0


def test_an_inner_request_has_the_rights_of_its_own_token(app, client, world, as_role):
    player = world.add_player()

    @app.get("/nested")
    @guard.public
    def nested():
        with app.test_request_context(f"/api/v1/players/{player['_id']}"):
            inner = app.full_dispatch_request()
        return {"inner": inner.status_code, "outer": flask.request.path}

    assert client.get("/nested", headers=as_role()).json == {"inner": 401, "outer": "/nested"}


def test_a_streamed_body_has_the_id_of_its_request(app, client):
    @app.get("/streamed")
    @guard.public
    def streamed():
        return app.response_class(flask.stream_with_context(request_id() for _ in range(2)))

    given = "a-request-of-ours"
    answer = client.get("/streamed", headers={"X-Request-ID": given})
    assert (answer.status_code, answer.text) == (200, 2 * given)
    assert request_id() == "-"


@pytest.mark.parametrize("step", ["preprocess_request", "dispatch_request", "process_response"])
def test_a_step_that_a_tool_has_wrapped_is_called(app, client, monkeypatch, step):
    calls = []
    plain = getattr(app, step)

    def wrapped(*args):
        calls.append(step)
        return plain(*args)

    monkeypatch.setattr(app, step, wrapped)
    assert client.get("/healthz").status_code == 200
    assert calls == [step]
