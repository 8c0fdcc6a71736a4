"""Request ids and log lines."""

from __future__ import annotations

import json
import logging
import re

import pytest

import config
from app.core.permissions import Role
from app.http.logs import JsonFormatter, TextFormatter
from tests.factories import World, sha256


def test_a_sane_request_id_is_kept_and_any_other_is_replaced(client):
    kept = client.get("/healthz", headers={"X-Request-ID": "tool-42:a/b"})
    assert kept.headers["X-Request-ID"] == "tool-42:a/b"
    for given in ("", "a b", "x" * 129, "<script>", "é"):
        response = client.get("/healthz", headers={"X-Request-ID": given})
        assert re.fullmatch(r"[0-9a-f]{32}", response.headers["X-Request-ID"])


@pytest.fixture
def lines(app):
    """Collect log lines as the formatters write them, during the request."""
    written = {"json": [], "text": []}
    handler = logging.Handler()

    def emit(record):
        written["json"].append(json.loads(JsonFormatter().format(record)))
        written["text"].append(TextFormatter().format(record))

    handler.emit = emit
    logging.getLogger().addHandler(handler)
    yield written
    logging.getLogger().removeHandler(handler)


def test_every_request_is_one_line_with_its_id_and_without_its_query(client, as_role, lines):
    headers = {**as_role(), "X-Request-ID": "abc"}
    client.get("/api/v1/players/a%0D%0Ab%1B[31m?search=secret", headers=headers)
    (line,), (text,) = lines["json"], lines["text"]
    assert line["request_id"] == "abc"
    assert (line["method"], line["status"]) == ("GET", 404)
    assert line["path"].startswith("/api/v1/players/a")
    assert line["caller"].startswith("user")
    assert line["ms"] >= 0
    assert "[abc]" in text
    assert not any(part in text for part in ("\n", "\x1b", "secret"))
    assert "secret" not in json.dumps(line)


def test_no_token_hash_or_body_is_logged(client, world, lines):
    user = world.add_user("hunter2", roles=(Role.API,), Name="bob")
    hashed = sha256("hunter2")
    body = {"grant_type": "password", "username": "bob", "password": hashed}
    tokens = client.post("/api/oauth/token", json=body).json
    refresh, access = tokens["refresh_token"], tokens["access_token"]
    for path in (f"token/bob/{refresh}/x", f"/TOKEN/bob/{refresh}", f"tokens/bob/{refresh}"):
        headers = {"Authorization": f"Bearer {access}"}
        client.delete(f"/api/oauth/{path}", headers=headers)
    assert len(lines["json"]) == 4
    for secret in (hashed, access, refresh, user["PasswordHash"]):
        assert secret not in json.dumps(lines)


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
        client.post(
            "/api/oauth/token", json={"grant_type": "refresh_token", "refresh_token": token}
        )
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
