"""Tokens: issued, used, refreshed, stolen, revoked."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import pytest
from pymongo.client_session import ClientSession

from app.auth.api_keys import new_secret
from app.core.permissions import Role, without_role
from tests.changes import cut_off, deaths
from tests.factories import sha256
from tests.mongod import on_mongodb

TOKEN = "/api/oauth/token"


def sign_in(client, name="Alice", password="secret"):
    body = {"grant_type": "password", "username": name, "password": sha256(password)}
    return client.post(TOKEN, json=body)


def refresh(client, token):
    return client.post(TOKEN, json={"grant_type": "refresh_token", "refresh_token": token})


def call(client, token):
    return client.get("/api/v1/players", headers={"Authorization": f"Bearer {token}"})


def test_a_password_gets_a_token_that_works(client, alice):
    response = sign_in(client)
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json
    assert list(body) == [
        *("access_token", "token_type", "expires_in", "refresh_token", ".issued", ".expires")
    ]
    assert (body["token_type"], body["expires_in"]) == ("bearer", 300)
    lifetime = parsedate_to_datetime(body[".expires"]) - parsedate_to_datetime(body[".issued"])
    assert lifetime == timedelta(seconds=300)
    assert call(client, body["access_token"]).status_code == 200


def test_a_form_is_as_good_as_json(client, alice):
    form = {"grant_type": "password", "username": "aLICE", "password": sha256("secret").upper()}
    assert client.post(TOKEN, data={**form, "client_id": "ignored"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": 5}, "invalid_request"),
        ({"grant_type": "password"}, "invalid_request"),
        ({"grant_type": "password", "username": "Alice"}, "invalid_request"),
        ({"grant_type": "password", "username": "Alice", "password": "secret"}, "invalid_request"),
        (
            {"grant_type": "password", "username": {"$ne": 1}, "password": "0" * 64},
            "invalid_request",
        ),
        ({"grant_type": "password", "username": "Alice", "password": "0" * 64}, "invalid_grant"),
        ({"grant_type": "password", "username": "Nobody", "password": "0" * 64}, "invalid_grant"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_grant"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
    ],
)
def test_a_refusal_has_its_code_from_the_rfc(client, alice, body, error):
    response = client.post(TOKEN, json=body)
    assert response.status_code == 400
    assert response.json["error"] == error
    assert response.json["error_description"] == response.json["Message"]


def test_an_unknown_user_and_a_wrong_password_look_the_same(client, alice, world):
    world.add_user(None, roles=(Role.API,), Name="NoPassword")
    answers = [sign_in(client, *who) for who in (("Alice", "x"), ("Bob", "x"), ("NoPassword", "x"))]
    assert {answer.status_code for answer in answers} == {400}
    assert len({answer.data for answer in answers}) == 1


def test_a_right_password_without_api_access_is_a_403(client, world):
    world.add_user("secret", Name="Gamer")
    response = sign_in(client, "Gamer")
    assert (response.status_code, response.json["error"]) == (403, "access_denied")
    assert sign_in(client, "Gamer", "wrong").status_code == 400


def test_a_refresh_rotates(client, alice):
    first = sign_in(client).json
    second = refresh(client, first["refresh_token"].upper())
    assert second.status_code == 200
    assert second.json["refresh_token"] != first["refresh_token"]
    assert call(client, second.json["access_token"]).status_code == 200
    assert refresh(client, second.json["refresh_token"]).status_code == 200


def test_a_used_refresh_token_ends_its_whole_chain_and_no_other(client, alice):
    other = sign_in(client).json
    first = sign_in(client).json
    second = refresh(client, first["refresh_token"]).json
    assert refresh(client, first["refresh_token"]).json["error"] == "invalid_grant"
    assert refresh(client, second["refresh_token"]).json["error"] == "invalid_grant"
    for tokens in (first, second):
        assert call(client, tokens["access_token"]).status_code == 401
    assert call(client, other["access_token"]).status_code == 200
    assert refresh(client, other["refresh_token"]).status_code == 200


def test_an_expired_refresh_token_is_refused_before_its_record_is_swept(client, alice, db):
    token = sign_in(client).json["refresh_token"]
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    db.refresh_tokens.update_many({}, {"$set": {"ExpiresAt": past}})
    assert refresh(client, token).json["error"] == "invalid_grant"


def test_a_refresh_token_is_not_stored_in_clear(client, alice, db):
    token = sign_in(client).json["refresh_token"]
    assert token not in str(list(db.refresh_tokens.find()))


def test_a_demoted_or_deleted_user_cannot_refresh(client, alice, app, db):
    one, other = sign_in(client).json, sign_in(client).json
    power = without_role(alice["Power"], Role.API)
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power": power}})
    assert refresh(client, one["refresh_token"]).json["error"] == "access_denied"
    db.users.delete_one({"_id": alice["_id"]})
    response = refresh(client, other["refresh_token"])
    assert (response.status_code, response.json["error"]) == (400, "invalid_grant")


def test_a_refusal_for_want_of_a_role_does_not_use_the_token_up(client, alice, db):
    token = sign_in(client).json["refresh_token"]
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Api": False}})
    assert refresh(client, token).status_code == 403
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Api": True}})
    assert refresh(client, token).status_code == 200


@on_mongodb
def test_of_many_refreshes_at_once_one_gets_a_token_and_the_chain_ends(client, alice, app):
    first = sign_in(client).json
    with ThreadPoolExecutor(8) as pool:
        token = first["refresh_token"]
        answers = list(pool.map(lambda _: refresh(app.test_client(), token), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[400] * 7]
    (second,) = (answer.json for answer in answers if answer.status_code == 200)
    assert refresh(client, second["refresh_token"]).json["error"] == "invalid_grant"
    assert [call(client, tokens["access_token"]).status_code for tokens in (first, second)] == [
        401,
        401,
    ]


@on_mongodb
def test_a_refresh_that_dies_at_any_command_leaves_the_token_as_it_was(client, alice, db):
    token = sign_in(client).json["refresh_token"]
    for number in deaths(lambda: refresh(client, token)):
        unused = db.refresh_tokens.count_documents({"Used": False})
        assert unused == 1, f"died at command {number}"
    assert number > 2
    assert db.refresh_tokens.count_documents({}) == 2


@on_mongodb
def test_a_sign_in_costs_one_transaction(client, alice, monkeypatch):
    commits, plain = [], ClientSession.commit_transaction
    monkeypatch.setattr(
        ClientSession, "commit_transaction", lambda session: (commits.append(1), plain(session))
    )
    token = sign_in(client).json
    assert len(commits) == 1
    assert call(client, token["access_token"]).status_code == 200
    assert len(commits) == 1
    refresh(client, token["refresh_token"])
    assert len(commits) == 2


@on_mongodb
def test_a_refusal_rests_on_what_a_majority_holds(client, alice, world, monkeypatch):
    tokens, key = sign_in(client).json, {"Authorization": f"Bearer {new_secret()}"}
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    client.delete("/api/oauth/token/alice", headers=bearer)
    with monkeypatch.context() as patch:
        cut_off(patch)
        for headers in (bearer, key):
            assert client.get("/api/v1/players", headers=headers).status_code == 503
        assert refresh(client, tokens["refresh_token"]).status_code == 503
        unsigned = {"Authorization": "Bearer nonsense"}
        assert client.get("/api/v1/players", headers=unsigned).status_code == 401
    for headers in (bearer, key):
        assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_nobody_signs_in_who_is_being_erased(client, alice, db):
    token = sign_in(client).json["refresh_token"]
    now = datetime.now(timezone.utc)
    db.erasures.insert_one({"_id": alice["_id"], "BegunAt": now, "Players": [], "Bags": []})
    assert [sign_in(client).status_code, refresh(client, token).status_code] == [401, 401]
    assert db.refresh_tokens.count_documents({}) == 1


@pytest.mark.parametrize("plural", ["token", "tokens"])
def test_a_user_revokes_its_own_tokens(client, alice, plural):
    one, other = sign_in(client).json, sign_in(client).json
    headers = {"Authorization": f"Bearer {one['access_token']}"}
    response = client.delete(f"/api/oauth/{plural}/alice", headers=headers)
    assert (response.status_code, response.json) == (200, {"username": "Alice"})
    for tokens in (one, other):
        assert call(client, tokens["access_token"]).status_code == 401
        assert refresh(client, tokens["refresh_token"]).json["error"] == "invalid_grant"


@pytest.mark.parametrize("plural", ["token", "tokens"])
def test_a_user_revokes_one_of_its_tokens(client, alice, plural):
    one, other = sign_in(client).json, sign_in(client).json
    headers = {"Authorization": f"Bearer {one['access_token']}"}
    path = f"/api/oauth/{plural}/{alice['_id']}/{other['refresh_token']}"
    response = client.delete(path, headers=headers)
    assert response.json == {"username": "Alice", "tokenId": other["refresh_token"]}
    assert call(client, one["access_token"]).status_code == 200
    assert call(client, other["access_token"]).status_code == 401
    assert client.delete(path, headers=headers).status_code == 404


def test_another_users_refresh_token_is_not_found(client, alice, world, as_role):
    bob = world.add_user("secret", roles=(Role.API,), Name="Bob")
    token = sign_in(client).json["refresh_token"]
    headers = as_role(user=bob)
    assert client.delete(f"/api/oauth/token/Bob/{token}", headers=headers).status_code == 404
    assert refresh(client, token).status_code == 200
