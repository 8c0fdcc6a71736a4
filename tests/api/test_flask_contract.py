"""Hooks, signals, sessions, hosts and return values work as Flask documents them."""

from __future__ import annotations

import logging

import flask
import pytest
from flask import Response, session, signals
from flask.sessions import SecureCookieSessionInterface

import config
from app.auth import guard
from app.core.errors import NotFound
from app.core.limits import wait_deadline
from app.http.context import current
from app.http.tracing import request_id
from app.http.uploads import download
from app.players.store import Players
from app.storage.client import Storage

BUG = ZeroDivisionError("a bug")
FAILURES = {"bug": BUG, "missing": NotFound("player", "Bob")}


@pytest.fixture
def app(make_app):
    app = make_app(config.load({"QM_ENV": "testing"}))

    @app.get("/fail/<kind>")
    def fail(kind):
        raise FAILURES[kind]

    return app


@pytest.fixture
def client(app):
    return app.test_client()


def test_a_hook_may_answer_instead_of_the_view(app, client):
    app.before_request(lambda: ({"Message": "Closed."}, 503))
    response = client.get("/healthz")
    assert (response.status_code, response.json["Message"]) == (503, "Closed.")
    assert response.headers["X-Request-ID"]


def test_an_error_in_a_hook_is_a_500_in_our_shape(app, client):
    @app.after_request
    def fail(response):
        raise BUG

    response = client.get("/healthz", headers={"X-Request-ID": "mine"})
    assert response.status_code == 500
    assert response.json.keys() == {"Message", "Code"}
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


@pytest.mark.parametrize(("kind", "is_signalled"), [("bug", True), ("missing", False)])
def test_only_unexpected_errors_are_signalled_and_handed_to_teardown(
    app, client, kind, is_signalled
):
    signalled, handed = [], []
    app.teardown_request(handed.append)
    with signals.got_request_exception.connected_to(
        lambda sender, exception: signalled.append(exception), app
    ):
        client.get(f"/fail/{kind}")
    assert (signalled, handed) == (([BUG], [BUG]) if is_signalled else ([], [None]))


def test_a_session_can_be_read_and_not_changed(app):
    with app.test_request_context("/healthz"):
        assert session.get("user") is None
        with pytest.raises(RuntimeError):
            session["user"] = 1


def test_an_interface_for_sessions_is_used_where_one_is_set(app, client):
    app.session_interface = SecureCookieSessionInterface()
    app.add_url_rule("/sign", "sign", lambda: session.update(user="Bob") or "signed")
    app.add_url_rule("/user", "user", lambda: session.get("user", "nobody"))
    assert client.get("/user").text == "nobody"
    assert "session=" in client.get("/sign").headers["Set-Cookie"]
    assert client.get("/user").text == "Bob"


def test_a_request_context_of_its_own_is_dispatched_as_a_request_is(app, world, as_role):
    player = world.add_player()
    path, headers = f"/api/v1/players/{player['_id']}", as_role()
    with app.test_request_context(path, headers=headers):
        answer = app.full_dispatch_request()
        assert (answer.status_code, answer.json["Id"]) == (200, player["_id"])
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


def test_a_request_and_each_piece_of_a_download_have_a_time_limit(app, client):
    seen = []

    @app.get("/pieces")
    @guard.public
    def pieces():
        seen.append(wait_deadline(0))
        return download(
            lambda: ((str(seen.append(wait_deadline(0))) for _ in range(2)), {}), "somebody"
        )

    assert client.get("/pieces").text == 2 * "None"
    assert len(seen) == 3
    assert seen == sorted(set(seen))
