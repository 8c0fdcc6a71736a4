"""Request ids and log lines."""

from __future__ import annotations

import json
import logging
import re

import pytest

import config
from app.core.permissions import Role
from app.http.context import current_environ
from app.http.logs import JsonFormatter, TextFormatter
from tests.factories import World, sha256


def test_a_sane_request_id_is_kept_and_any_other_is_replaced(client):
    kept = client.get("/healthz", headers={"X-Request-ID": "tool-42:a/b"})
    assert kept.headers["X-Request-ID"] == "tool-42:a/b"
    for given in ("", "a b", "x" * 129, "<script>", "é"):
        response = client.get("/healthz", headers={"X-Request-ID": given})
        assert re.fullmatch(r"[0-9a-f]{32}", response.headers["X-Request-ID"])


@pytest.fixture
def lines(app, monkeypatch):
    """Collect log lines as the formatters write them, during the request."""
    written = {"json": [], "text": []}

    class Collector(logging.Handler):
        def emit(self, record):
            written["json"].append(json.loads(JsonFormatter().format(record)))
            written["text"].append(TextFormatter().format(record))

    handler = Collector()
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


def test_every_request_is_one_line_with_its_id(client, as_role, lines):
    headers = {**as_role(), "X-Request-ID": "abc"}
    client.get("/api/v1/players?search=secret", headers=headers)
    (line,) = lines["json"]
    assert line["request_id"] == "abc"
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/players", 200)
    assert line["caller"].startswith("user")
    assert line["ms"] >= 0
    assert "\n" not in lines["text"][0]
    assert "[abc]" in lines["text"][0]


def test_a_name_cannot_break_out_of_its_line(client, as_role, lines):
    client.get("/api/v1/players/a%0D%0Ab%1B[31m", headers=as_role())
    assert "\n" not in lines["text"][0]
    assert "\x1b" not in lines["text"][0]


def test_no_token_hash_or_body_is_logged(client, world, lines):
    world.add_user("hunter2", roles=(), Name="alice")
    user = world.add_user("hunter2", Name="bob")
    user["Power"]["Api"] = True
    world.db.users.replace_one({"_id": user["_id"]}, user)
    hashed = sha256("hunter2")
    body = {"grant_type": "password", "username": "bob", "password": hashed}
    tokens = client.post("/api/oauth/token", json=body).json
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    client.post("/api/oauth/token", json={**body, "username": "alice"})
    client.delete(f"/api/oauth/token/bob/{tokens['refresh_token']}/x", headers=headers)
    client.delete(f"/api/oauth//TOKEN/bob/{tokens['refresh_token']}", headers=headers)
    client.delete(f"/api/oauth/tokens/bob/{tokens['refresh_token']}", headers=headers)
    everything = json.dumps(lines)
    assert len(lines["json"]) == 5
    for secret in (hashed, tokens["access_token"], tokens["refresh_token"], user["PasswordHash"]):
        assert secret not in everything


def test_what_fails_while_a_request_is_traced_leaves_nothing_of_it_behind(client, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("app.core.metrics.record_request", fail)
    with pytest.raises(OSError, match="No space"):
        client.get("/healthz")
    assert current_environ() == {}


TOKEN_REQUESTS = [
    ({"username": "Bob"}, {"user": "Bob", "grant": "password"}, "user=Bob"),
    (
        {"username": "Bob", "password": sha256("wrong")},
        {"user": "Bob", "grant": "password", "error": "invalid_grant"},
        "error=invalid_grant",
    ),
    ({"username": "Gamer"}, {"user": "Gamer", "error": "access_denied"}, "error=access_denied"),
    ({"username": "x" * 900}, {"user": "x" * 40 + "..."}, "xxx..."),
    ({"username": sha256("hunter2")}, {"user": "***"}, "user=***"),
    ({"username": "5e9ac4ee-7d5f-4ea9-a6a5-0d7b5a7f1d8e"}, {"user": "***"}, "user=***"),
    ({"username": "a\r\nb\x1b"}, {"user": "a\r\nb\x1b"}, "user=a\\r\\nb\\x1b"),
    ({"password": "hunter2"}, {"error": "invalid_request"}, "error=invalid_request"),
    ({"grant_type": "magic"}, {"error": "unsupported_grant_type"}, "unsupported_grant_type"),
]


def test_a_token_request_says_whose_it_was_and_why_it_failed(client, world, lines):
    world.add_user("hunter2", roles=(Role.API,), Name="Bob")
    world.add_user("hunter2", Name="Gamer")
    right = {"grant_type": "password", "username": "Bob", "password": sha256("hunter2")}
    for body, noted, text in TOKEN_REQUESTS:
        client.post("/api/oauth/token", json={**right, **body})
        assert lines["json"][-1].items() >= noted.items()
        assert text in lines["text"][-1]
    assert not {sha256("hunter2"), "hunter2"} & set(json.dumps(lines).split('"'))


def test_a_refresh_says_whose_it_was(client, world, lines):
    world.add_user("hunter2", roles=(Role.API,), Name="Bob")
    body = {"grant_type": "password", "username": "Bob", "password": sha256("hunter2")}
    token = client.post("/api/oauth/token", json=body).json["refresh_token"]
    for expected in ({"user": "Bob"}, {"error": "invalid_grant"}):
        refresh = {"grant_type": "refresh_token", "refresh_token": token}
        client.post("/api/oauth/token", json=refresh)
        assert lines["json"][-1].items() >= {"grant": "refresh_token", **expected}.items()
    assert token not in json.dumps(lines)


def test_a_request_can_be_followed_into_mongodb(make_app, real_storage):
    database = {"MONGODB_URI": real_storage.uri, "MONGODB_DATABASE": "traced"}
    app = make_app(config.load({"QM_ENV": "testing"}, **database))
    db = real_storage.client["traced"]
    World(app).add_user("secret", Name="Ann", Power={"Api": True})
    db.command("profile", 2)
    body = {"grant_type": "password", "username": "Ann", "password": sha256("secret")}
    headers = {"X-Request-ID": "tool-42"}
    answer = app.test_client().post("/api/oauth/token", json=body, headers=headers)
    assert answer.status_code == 200
    db.command("profile", 0)
    commands = list(db.system.profile.find({"command.comment": "tool-42"}))
    assert {"find", "insert"} <= {next(iter(entry["command"])) for entry in commands}
    ours = {"ns": {"$not": re.compile("system")}, "command.comment": {"$ne": "tool-42"}}
    assert not list(db.system.profile.find({**ours, "op": {"$in": ["query", "insert", "update"]}}))
    real_storage.client.drop_database("traced")
