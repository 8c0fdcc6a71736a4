"""Tokens: issued, used, refreshed, stolen, revoked."""

from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

import pytest

from app.auth.roles import Role, without_role
from app.naming import Lookup
from app.oauth.domain import TokenRefused
from app.oauth.store import RefreshTokens
from app.users.store import Users
from tests.applications import service
from tests.factories import sha256
from tests.swaps import meant

TOKEN = "/api/oauth/token"


@pytest.fixture
def alice(world):
    return world.add_user("secret", roles=(Role.API,), Name="Alice")


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
    service(app, Users).change_power(Lookup.parse("Alice"), lambda _: power, meant("revoke-role"))
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


def test_two_refreshes_at_once_end_the_chain(client, alice, app):
    token = sign_in(client).json["refresh_token"]
    tokens = service(app, RefreshTokens)
    one, other = tokens.find(token), tokens.find(token)
    issued = tokens.rotate(one)
    with pytest.raises(TokenRefused):
        tokens.rotate(other)
    assert refresh(client, issued.token).json["error"] == "invalid_grant"


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
