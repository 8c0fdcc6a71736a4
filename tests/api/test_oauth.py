"""Tokens: issued, used, refreshed, stolen, revoked."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import pytest

from app.auth.api_keys import new_secret
from app.core.permissions import Role
from tests.callers import bearer
from tests.changes import cut_off, deaths
from tests.mongod import on_mongodb

TOKEN = "/api/oauth/token"


@pytest.fixture
def status(client):
    """Return a way to use tokens, which returns the status."""
    return lambda tokens: (
        client.get("/api/v1/players", headers=bearer(tokens["access_token"])).status_code
    )


def test_a_password_gets_a_token_that_works(sign_in, status, alice, db):
    answer = sign_in("aLICE", client_id="ignored")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    body = answer.json
    assert list(body) == [
        *("access_token", "token_type", "expires_in", "refresh_token", ".issued", ".expires")
    ]
    assert (body["token_type"], body["expires_in"]) == ("bearer", 300)
    lifetime = parsedate_to_datetime(body[".expires"]) - parsedate_to_datetime(body[".issued"])
    assert lifetime == timedelta(seconds=300)
    assert status(body) == 200
    assert body["refresh_token"] not in str(list(db.refresh_tokens.find()))


ALICE = {"grant_type": "password", "username": "Alice"}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "invalid_request"),
        ({**ALICE, "password": "secret"}, "invalid_request"),
        ({**ALICE, "username": {"$ne": 1}, "password": "0" * 64}, "invalid_request"),
        ({**ALICE, "password": "0" * 64}, "invalid_grant"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_grant"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
    ],
)
def test_a_refusal_has_its_code_from_the_rfc(client, alice, body, error):
    answer = client.post(TOKEN, json=body)
    assert (answer.status_code, answer.json["error"]) == (400, error)
    assert answer.json["error_description"] == answer.json["Message"]


def test_an_unknown_user_and_a_wrong_password_look_the_same(sign_in, alice, world):
    world.add_user(None, roles=(Role.API,), Name="NoPassword")
    answers = [sign_in(name, "x") for name in ("Alice", "Bob", "NoPassword")]
    assert {(answer.status_code, answer.data) for answer in answers} == {(400, answers[0].data)}


def test_a_used_refresh_token_ends_its_whole_chain_and_no_other(sign_in, refresh, status, alice):
    other, first = sign_in().json, sign_in().json
    second = refresh(first["refresh_token"].upper()).json
    assert second["refresh_token"] != first["refresh_token"]
    assert status(second) == 200
    for used in (first, second):
        assert refresh(used["refresh_token"]).json["error"] == "invalid_grant"
    assert [status(tokens) for tokens in (first, second, other)] == [401, 401, 200]
    assert refresh(other["refresh_token"]).status_code == 200


def test_an_expired_refresh_token_is_refused_before_its_record_is_swept(
    sign_in, refresh, alice, db
):
    token = sign_in().json["refresh_token"]
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    db.refresh_tokens.update_many({}, {"$set": {"ExpiresAt": past}})
    assert refresh(token).json["error"] == "invalid_grant"


def test_who_lost_the_role_cannot_refresh_and_does_not_use_the_token_up(
    sign_in, refresh, alice, db
):
    token = sign_in().json["refresh_token"]
    for is_allowed, status in ((False, 403), (True, 200)):
        db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Api": is_allowed}})
        assert refresh(token).status_code == status


@on_mongodb
def test_of_many_refreshes_at_once_one_gets_a_token_and_the_chain_ends(
    sign_in, refresh, status, alice, app
):
    first = sign_in().json
    body = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: app.test_client().post(TOKEN, json=body), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[400] * 7]
    (second,) = (answer.json for answer in answers if answer.status_code == 200)
    assert refresh(second["refresh_token"]).json["error"] == "invalid_grant"
    assert [status(tokens) for tokens in (first, second)] == [401, 401]


@on_mongodb
def test_a_refresh_that_dies_at_any_command_leaves_the_token_as_it_was(sign_in, refresh, alice, db):
    token = sign_in().json["refresh_token"]
    for number in deaths(lambda: refresh(token)):
        unused = db.refresh_tokens.count_documents({"Used": False})
        assert unused == 1, f"died at command {number}"
    assert number > 2
    assert db.refresh_tokens.count_documents({}) == 2


@on_mongodb
def test_a_refusal_rests_on_what_a_majority_holds(client, sign_in, refresh, alice, monkeypatch):
    tokens, key = sign_in().json, bearer(new_secret())
    token = bearer(tokens["access_token"])
    client.delete("/api/oauth/token/alice", headers=token)
    with monkeypatch.context() as patch:
        cut_off(patch)
        for headers in (token, key):
            assert client.get("/api/v1/players", headers=headers).status_code == 503
        assert refresh(tokens["refresh_token"]).status_code == 503
        assert client.get("/api/v1/players", headers=bearer("nonsense")).status_code == 401
    for headers in (token, key):
        assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_nobody_signs_in_who_is_being_erased(sign_in, refresh, alice, db):
    token = sign_in().json["refresh_token"]
    now = datetime.now(timezone.utc)
    db.erasures.insert_one({"_id": alice["_id"], "BegunAt": now, "Players": [], "Bags": []})
    assert [sign_in().status_code, refresh(token).status_code] == [401, 401]
    assert db.refresh_tokens.count_documents({}) == 1


@pytest.mark.parametrize("plural", ["token", "tokens"])
def test_a_user_revokes_one_of_its_tokens_or_all(client, sign_in, refresh, status, alice, plural):
    one, other = sign_in().json, sign_in().json
    headers, path = bearer(one["access_token"]), f"/api/oauth/{plural}/{alice['_id']}"
    revoked = client.delete(f"{path}/{other['refresh_token']}", headers=headers)
    assert revoked.json == {"username": "Alice", "tokenId": other["refresh_token"]}
    assert [status(one), status(other)] == [200, 401]
    assert client.delete(f"{path}/{other['refresh_token']}", headers=headers).status_code == 404
    assert client.delete(path, headers=headers).json == {"username": "Alice"}
    assert status(one) == 401
    assert refresh(one["refresh_token"]).json["error"] == "invalid_grant"


def test_a_refresh_token_is_its_owners_whoever_shows_it(client, sign_in, refresh, alice, world):
    bob = world.headers(user=world.add_user(roles=(Role.API,), Name="Bob"))
    tokens = refresh(sign_in().json["refresh_token"], headers=bob).json
    for name, headers, status in (
        ("Bob", bob, 404),
        ("Alice", bob, 403),
        ("Alice", bearer(tokens["access_token"]), 200),
    ):
        path = f"/api/oauth/token/{name}/{tokens['refresh_token']}"
        assert client.delete(path, headers=headers).status_code == status
