"""Request ids and log lines."""

from __future__ import annotations

import json
import logging
import re

import pytest

from app.http.logs import JsonFormatter, TextFormatter
from app.http.stores import current_environ
from tests.factories import sha256


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

    monkeypatch.setattr("app.metrics.request_ended", fail)
    with pytest.raises(OSError, match="No space"):
        client.get("/healthz")
    assert current_environ.get() == {}
