"""Tokens in the hands of an enemy: altered, forged, borrowed, outlived."""

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import Signer, TimestampSigner, URLSafeSerializer

import config
from app.auth.tokens import AccessTokens
from app.core.errors import Unauthorized
from app.core.permissions import Role
from tests.applications import service
from tests.factories import guid, sha256

KEY, OTHER_KEY = "k" * 32, "x" * 32
FAR = 10**10
DENIED = "Authorization has been denied for this request."
SALT = "quartermaster access token"


@pytest.fixture
def alice(world):
    return world.add_user("secret", roles=Role, Name="Alice")


@pytest.fixture
def tokens(client, alice):
    return sign_in(client)


def sign_in(client, password="secret"):
    body = {"grant_type": "password", "username": "Alice", "password": sha256(password)}
    return client.post("/api/oauth/token", json=body).json


def refresh(client, token, **more):
    body = {"grant_type": "refresh_token", "refresh_token": token}
    return client.post("/api/oauth/token", json=body, **more)


def call(client, token, path="/api/v1/players"):
    return client.get(path, headers={"Authorization": f"Bearer {token}"})


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def web_token(header, claims, key):
    """A JWT, signed with our own key: what a library that trusts the header would let in."""
    signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
    signature = hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{'' if header['alg'] == 'none' else base64url(signature)}"


MALFORMED = [
    *(None, "", "Bearer", "Bearer ", "Basic abc", "Bearer abc", "Bearer a.b", "Token x"),
    *("Bearer " + "a" * 600, "Bearer é", "Bearer a b", "bearer null.null"),
    *("Bearer .", "Bearer ..", "Bearer \x7f", "Bearer [object Object]", "Bearer undefined"),
]


def test_a_missing_or_malformed_token_is_denied(client):
    for header in MALFORMED:
        headers = {} if header is None else {"Authorization": header}
        response = client.get("/api/v1/players", headers=headers)
        assert response.status_code == 401, header
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.json["Message"] == DENIED


def test_a_token_counts_in_its_header_and_scheme_alone(client, tokens):
    token = tokens["access_token"]
    for header in (token, f"Basic {token}", f"Token {token}", f"Bearer{token}", f"Bearer,{token}"):
        response = client.get("/api/v1/players", headers={"Authorization": header})
        assert response.status_code == 401, header
    assert client.get(f"/api/v1/players?access_token={token}").status_code == 401
    client.set_cookie("access_token", token)
    assert client.post("/api/v1/players", json={"access_token": token}).status_code == 401


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


@given(st.text(st.characters(max_codepoint=255)) | st.text("abcXYZ019_-=."))
def test_no_text_is_a_token(text):
    with pytest.raises(Unauthorized):
        AccessTokens([KEY], 300).check(text)


def test_a_token_as_long_as_a_header_may_be_is_none(client):
    # gunicorn reads no longer ones.
    assert call(client, "a" * 8000).status_code == 401


def test_a_web_token_is_denied_though_our_key_signed_it(app, client, alice):
    key = app.config["SECRET_KEY"]
    claims = {"sub": alice["_id"], "name": "Alice", "exp": FAR, "roles": ["api"]}
    for algorithm in ("none", "None", "NONE", "HS256", "HS512", "RS256"):
        token = web_token({"alg": algorithm, "typ": "JWT"}, claims, key)
        assert call(client, token).status_code == 401, algorithm


SIGNERS = [
    Signer(KEY),
    Signer(KEY, salt=SALT),
    Signer(KEY, salt=SALT, key_derivation="hmac"),
    Signer(KEY, salt=SALT, key_derivation="none", digest_method=hashlib.sha256),
    Signer(KEY, salt=SALT, key_derivation="hmac", digest_method=hashlib.sha512),
    Signer(KEY, salt="another", key_derivation="hmac", digest_method=hashlib.sha256),
    Signer(OTHER_KEY, salt=SALT, key_derivation="hmac", digest_method=hashlib.sha256),
    TimestampSigner(KEY, salt=SALT, key_derivation="hmac", digest_method=hashlib.sha256),
]


def test_another_way_to_sign_is_denied_though_the_key_be_ours():
    ours = AccessTokens([KEY], 300)
    payload = ours.issue(guid(), guid(), FAR).rpartition(".")[0]
    forged = [signer.sign(payload).decode() for signer in SIGNERS]
    for token in (*forged, URLSafeSerializer(KEY, SALT).dumps([guid(), guid(), FAR])):
        with pytest.raises(Unauthorized):
            ours.check(token)


def test_the_signature_of_one_token_is_not_that_of_another():
    ours = AccessTokens([KEY], 300)
    one, other = (ours.issue(guid(), guid(), FAR).rpartition(".") for _ in range(2))
    with pytest.raises(Unauthorized):
        ours.check(f"{one[0]}.{other[2]}")


def test_an_expired_token_is_denied_though_it_was_known():
    times = iter([1299, 1300])
    tokens = AccessTokens([KEY], 300, lambda: next(times))
    token = tokens.issue("u", "c", 1000)
    assert tokens.check(token).user_id == "u"
    with pytest.raises(Unauthorized):
        tokens.check(token)


def test_a_token_of_another_secret_is_denied(client, alice, db, tokens):
    chain = db.refresh_tokens.find_one({"UserId": alice["_id"]})["Chain"]
    forged = AccessTokens([OTHER_KEY], 300).issue(alice["_id"], chain, FAR)
    assert call(client, forged).status_code == 401


def test_a_retired_secret_still_opens_and_no_longer_signs():
    old, new = AccessTokens([KEY], 300), AccessTokens([OTHER_KEY, KEY], 300)
    assert new.check(old.issue("u", "c", FAR)).user_id == "u"
    with pytest.raises(Unauthorized):
        old.check(new.issue("u", "c", FAR))


def test_a_secret_that_is_to_come_opens_before_it_signs():
    """Where several machines change their secret one after the other."""
    old, between = AccessTokens([KEY], 300), AccessTokens([KEY, OTHER_KEY], 300)
    assert between.check(AccessTokens([OTHER_KEY, KEY], 300).issue("u", "c", FAR)).user_id == "u"
    assert old.check(between.issue("u", "c", FAR)).user_id == "u"


def test_the_secrets_of_the_settings_are_those_of_the_service(make_app):
    secrets = {"SECRET_KEY": OTHER_KEY, "SECRET_KEY_FALLBACKS": [KEY]}
    former, later = (
        service(make_app(config.load({"QM_ENV": "testing"}, **settings)), AccessTokens)
        for settings in ({"SECRET_KEY": KEY}, secrets)
    )
    assert later.check(former.issue("u", "c", FAR)).user_id == "u"
    with pytest.raises(Unauthorized):
        former.check(later.issue("u", "c", FAR))


def test_a_token_of_a_chain_that_was_never_begun_is_denied(client, alice, app):
    token = service(app, AccessTokens).issue(alice["_id"], guid(), FAR)
    assert call(client, token).status_code == 401


def test_a_token_for_one_user_by_the_chain_of_another_is_denied(client, tokens, alice, world, app):
    bob = world.add_user(roles=(Role.API,), Name="Bob")
    chain = world.db.refresh_tokens.find_one({"UserId": alice["_id"]})["Chain"]
    token = service(app, AccessTokens).issue(bob["_id"], chain, FAR)
    assert call(client, token).status_code == 401


def test_a_token_of_a_deleted_user_is_denied(client, tokens, alice, world):
    world.db.users.delete_one({"_id": alice["_id"]})
    assert call(client, tokens["access_token"]).status_code == 401
    # Nor does it become that of the next one to take the name.
    world.add_user("secret", roles=Role, Name="Alice")
    assert call(client, tokens["access_token"]).status_code == 401
    assert refresh(client, tokens["refresh_token"]).json["error"] == "invalid_grant"


def test_a_demoted_user_loses_what_the_role_opened(client, tokens, alice, db):
    paths = ("/api/v1/users", "/api/v1/players")
    for flag, left in (("ApiPersonalInformation", [403, 200]), ("Api", [403, 403])):
        db.users.update_one({"_id": alice["_id"]}, {"$set": {f"Power.{flag}": False}})
        answers = [call(client, tokens["access_token"], path).status_code for path in paths]
        assert answers == left


@pytest.mark.parametrize("way", ["change", "manage", "reset"])
def test_a_token_from_before_a_change_of_password_is_denied(client, tokens, alice, db, way):
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    new = {"new": sha256("new")}
    path, body = {
        "change": ("password/change", {**new, "authorization": sha256("secret")}),
        "manage": ("manage/password/change", new),
        "reset": ("password/reset", new),
    }[way]
    if way == "reset":
        assert client.get("/api/v1/users/Alice/password/reset", headers=headers).status_code == 200
        body["code"] = db.users.find_one({"_id": alice["_id"]})["Reset"]["Code"]
    answer = client.post(f"/api/v1/users/Alice/{path}", headers=headers, json=body)
    assert answer.status_code == 200
    assert call(client, tokens["access_token"]).status_code == 401
    assert refresh(client, tokens["refresh_token"]).json["error"] == "invalid_grant"
    assert call(client, sign_in(client, "new")["access_token"]).status_code == 200


def test_a_refresh_token_is_no_access_token_nor_the_reverse(client, tokens):
    assert call(client, tokens["refresh_token"]).status_code == 401
    for wrong in (tokens["access_token"], "", "null", "é" * 40, "a" * 100_000):
        answer = refresh(client, wrong)
        assert (answer.status_code, answer.json["error"]) == (400, "invalid_grant")
    # Nor did the attempts cost the chain anything.
    assert refresh(client, tokens["refresh_token"]).status_code == 200


def test_a_refresh_token_is_its_owners_whoever_shows_it(client, tokens, alice, world):
    """What else a request says of its sender changes nothing of whose token comes out."""
    bob = world.headers(user=world.add_user(roles=(Role.API,), Name="Bob"))
    got = refresh(client, tokens["refresh_token"], headers=bob).json
    path = f"/api/oauth/token/Alice/{got['refresh_token']}"
    assert client.delete(path.replace("Alice", "Bob"), headers=bob).status_code == 404
    assert client.delete(path, headers=bob).status_code == 403
    own = {"Authorization": f"Bearer {got['access_token']}"}
    assert client.delete(path, headers=own).json["username"] == "Alice"
