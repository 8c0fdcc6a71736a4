"""Hooks, signals, sessions, hosts and return values work as Flask documents them."""

from __future__ import annotations

import logging

import flask
import pytest
from flask import Response, session, signals

import config
from app.auth import guard
from app.core.errors import NotFound
from app.core.limits import wait_deadline
from app.http.context import current
from app.http.tracing import request_id
from app.http.uploads import download
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


def test_what_a_hook_answers_is_what_is_sent_and_logged(app, client, caplog):
    app.before_request(lambda: ({"Message": f"Closed: {current(Storage).db.name}."}, 503))
    app.after_request(lambda response: Response(response.data, 410))
    with caplog.at_level(logging.INFO, "quartermaster.access"):
        response = client.get("/healthz")
    assert (response.status_code, "Closed: quartermaster." in response.text) == (410, True)
    assert response.headers["X-Request-ID"]
    (record,) = [record for record in caplog.records if hasattr(record, "details")]
    assert record.details["status"] == 410


def test_an_error_in_a_hook_is_a_500_in_our_shape(app, client):
    @app.after_request
    def fail(response):
        raise BUG

    response = client.get("/healthz", headers={"X-Request-ID": "mine"})
    assert response.status_code == 500
    assert response.json.keys() == {"Message", "Code"}
    assert response.headers["X-Request-ID"] == "mine"


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


def test_an_inner_request_has_the_rights_of_its_own_token(app, client, world, as_role):
    path, headers = f"/api/v1/players/{world.add_player()['_id']}", as_role()

    @app.get("/nested")
    @guard.public
    def nested():
        inner = []
        for sent in ({}, headers):
            with app.test_request_context(path, headers=sent):
                inner.append(app.full_dispatch_request().status_code)
        return {"inner": inner, "outer": flask.request.path}

    answer = client.get("/nested", headers=headers).json
    assert answer == {"inner": [401, 200], "outer": "/nested"}


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
