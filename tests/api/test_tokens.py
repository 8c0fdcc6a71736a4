"""Tokens in the hands of an enemy: altered, forged, borrowed, outlived."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import Signer

import config
from app.auth.tokens import AccessTokens
from app.core.errors import Unauthorized
from app.core.permissions import Role
from tests.applications import service
from tests.callers import bearer
from tests.factories import guid, sha256

KEY, OTHER_KEY = "k" * 32, "x" * 32
FAR = 10**10
PLAYERS = "/api/v1/players"


@pytest.fixture
def tokens(sign_in, alice):
    return sign_in().json


@pytest.fixture
def chain(tokens, db):
    return db.refresh_tokens.find_one()["Chain"]


@pytest.fixture
def status(client):
    return lambda token: client.get(PLAYERS, headers=bearer(token)).status_code


MALFORMED = [
    *(None, "", "Bearer", "Bearer ", "Basic abc", "Bearer abc", "Bearer a.b", "bearer null.null"),
    *("Bearer " + "a" * 8000, "Bearer é", "Bearer a b", "Bearer ..", "Bearer \x7f"),
]


def test_a_missing_or_malformed_token_is_denied(client):
    for header in MALFORMED:
        headers = {} if header is None else {"Authorization": header}
        answer = client.get(PLAYERS, headers=headers)
        assert answer.status_code == 401, header
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json["Message"] == "Authorization has been denied for this request."


def test_a_token_counts_in_its_header_and_scheme_alone(client, tokens):
    token = tokens["access_token"]
    for header in (token, f"Basic {token}", f"Bearer{token}", f"Bearer,{token}"):
        headers = {"Authorization": header}
        assert client.get(PLAYERS, headers=headers).status_code == 401, header
    assert client.get(f"{PLAYERS}?access_token={token}").status_code == 401
    client.set_cookie("access_token", token)
    assert client.post(PLAYERS, json={"access_token": token}).status_code == 401


@given(st.data())
def test_no_edit_of_a_token_is_a_token(data):
    ours = AccessTokens([KEY, OTHER_KEY], 300)
    token = ours.issue(guid(), guid(), FAR)
    begin = data.draw(st.integers(0, len(token)))
    end = data.draw(st.integers(begin, min(len(token), begin + 3)))
    # Signs of base64 and of its other alphabet are likelier to be passed over than any others.
    signs = st.characters(max_codepoint=255) | st.sampled_from("+/-_=.")
    altered = token[:begin] + data.draw(st.text(signs, max_size=3)) + token[end:]
    if altered != token:
        with pytest.raises(Unauthorized):
            ours.check(altered)


@pytest.mark.parametrize("salt", ["itsdangerous.Signer", "another purpose"])
def test_what_our_key_signs_for_another_purpose_is_no_token(salt):
    ours = AccessTokens([KEY], 300)
    payload = ours.issue(guid(), guid(), FAR).rpartition(".")[0]
    signer = Signer(KEY, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256)
    with pytest.raises(Unauthorized):
        ours.check(signer.sign(payload).decode())


def test_an_expired_token_is_denied_though_it_was_known():
    times = iter([1299, 1300])
    tokens = AccessTokens([KEY], 300, lambda: next(times))
    token = tokens.issue("u", "c", 1000)
    assert tokens.check(token).user_id == "u"
    with pytest.raises(Unauthorized):
        tokens.check(token)


def test_a_retired_secret_still_opens_and_no_longer_signs(make_app):
    """So does one that is to come, where several machines change it one after the other."""
    secrets = {"SECRET_KEY": OTHER_KEY, "SECRET_KEY_FALLBACKS": [KEY]}
    former, later = (
        service(make_app(config.load({"QM_ENV": "testing"}, **settings)), AccessTokens)
        for settings in ({"SECRET_KEY": KEY}, secrets)
    )
    assert later.check(former.issue("u", "c", FAR)).user_id == "u"
    with pytest.raises(Unauthorized):
        former.check(later.issue("u", "c", FAR))


def test_a_token_is_for_a_user_by_an_own_chain(status, alice, world, app, chain):
    bob = world.add_user(roles=(Role.API,), Name="Bob")
    issue = service(app, AccessTokens).issue
    assert status(issue(alice["_id"], chain, FAR)) == 200
    assert status(issue(alice["_id"], guid(), FAR)) == 401
    assert status(issue(bob["_id"], chain, FAR)) == 401
    assert status(AccessTokens([OTHER_KEY], 300).issue(alice["_id"], chain, FAR)) == 401


def test_a_token_of_a_deleted_user_is_denied(status, refresh, tokens, alice, world):
    world.db.users.delete_one({"_id": alice["_id"]})
    assert status(tokens["access_token"]) == 401
    # Nor does it become that of the next one to take the name.
    world.add_user("secret", roles=Role, Name="Alice")
    assert status(tokens["access_token"]) == 401
    assert refresh(tokens["refresh_token"]).json["error"] == "invalid_grant"


def test_a_token_from_before_a_change_of_password_is_denied(
    caller_of, sign_in, refresh, status, world
):
    alice = world.add_user("secret", roles=Role, Name="Alice")
    tokens = sign_in().json
    body = {"new": sha256("new"), "authorization": sha256("secret")}
    caller_of(alice)("POST users/Alice/password/change", body)
    assert status(tokens["access_token"]) == 401
    assert refresh(tokens["refresh_token"]).json["error"] == "invalid_grant"
    assert status(sign_in(password="new").json["access_token"]) == 200


def test_a_refresh_token_is_no_access_token_nor_the_reverse(status, refresh, tokens):
    assert status(tokens["refresh_token"]) == 401
    for wrong in (tokens["access_token"], "", "null", "é" * 40, "a" * 100_000):
        answer = refresh(wrong)
        assert (answer.status_code, answer.json["error"]) == (400, "invalid_grant")
    # Nor did the attempts cost the chain anything.
    assert refresh(tokens["refresh_token"]).status_code == 200
