"""Accounts with very many tokens: they are ended as quickly as others, and there is a limit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest
from pymongo.collection import Collection
from pymongo.errors import NetworkTimeout

import config
from app.core.permissions import Role
from app.storage.client import Storage
from app.users.oauth.store import RefreshTokens
from tests.applications import service
from tests.factories import guid, sha256

TOKEN = "/api/oauth/token"
MANY = 50
# A client may sign in for every call (docs/contract.rst, contract-tokens).
SIGN_INS_PER_SECOND = 4.6


@pytest.fixture
def settings(real_db, mongodb_uri):
    return config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri, REFRESH_TOKENS_PER_ACCOUNT=3)


@pytest.fixture
def big_deletes_fail(monkeypatch):
    """Let the database take too long over many documents, as it does where there are 400,000."""
    plain = Collection.delete_many

    def delete_many(self, where, **options):
        if self.count_documents(where) > MANY:
            raise NetworkTimeout("timed out")
        return plain(self, where, **options)

    monkeypatch.setattr(Collection, "delete_many", delete_many)


def sign_in(client, name="Alice"):
    body = {"grant_type": "password", "username": name, "password": sha256("secret")}
    return client.post(TOKEN, json=body).json


def refresh(client, token):
    return client.post(TOKEN, json={"grant_type": "refresh_token", "refresh_token": token})


def status(client, tokens):
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    return client.get("/api/v1/players", headers=headers).status_code


def add_tokens(db, user, count, **fields):
    """Add tokens that are older than any that is issued from now on."""
    now = datetime.now(timezone.utc)
    token = {"Chain": guid(), "UserId": user["_id"], "PasswordVersion": 0, "Used": False}
    db.refresh_tokens.insert_many(
        {"_id": guid(), **token, "ExpiresAt": now + timedelta(seconds=60 + number), **fields}
        for number in range(count)
    )


def test_all_tokens_are_revoked_however_many_there_are(client, alice, db, big_deletes_fail):
    stolen, owners = sign_in(client), sign_in(client)
    add_tokens(db, alice, MANY + 1)
    headers = {"Authorization": f"Bearer {owners['access_token']}"}
    answer = client.delete(f"{TOKEN}/Alice", headers=headers)
    assert (answer.status_code, answer.json) == (200, {"username": "Alice"})
    assert status(client, stolen) == 401
    assert refresh(client, stolen["refresh_token"]).json["error"] == "invalid_grant"
    assert status(client, sign_in(client)) == 200


def test_a_chain_ends_however_many_used_tokens_it_has(client, alice, db, big_deletes_fail):
    first = sign_in(client)
    second = refresh(client, first["refresh_token"]).json
    chain = db.refresh_tokens.find_one()["Chain"]
    add_tokens(db, alice, MANY + 1, Chain=chain, Used=True)
    assert refresh(client, first["refresh_token"]).json["error"] == "invalid_grant"
    assert refresh(client, second["refresh_token"]).json["error"] == "invalid_grant"
    assert [status(client, tokens) for tokens in (first, second)] == [401, 401]


def test_one_of_many_tokens_is_revoked(client, alice, db, big_deletes_fail):
    own, lost = sign_in(client), sign_in(client)
    chain = db.refresh_tokens.find_one({"_id": {"$ne": ""}}, sort=[("ExpiresAt", -1)])["Chain"]
    add_tokens(db, alice, MANY + 1, Chain=chain, Used=True)
    headers = {"Authorization": f"Bearer {own['access_token']}"}
    answer = client.delete(f"{TOKEN}/Alice/{lost['refresh_token']}", headers=headers)
    assert answer.status_code == 200
    assert [status(client, tokens) for tokens in (own, lost)] == [200, 401]


def test_an_account_keeps_its_newest_tokens(client, alice, world):
    world.add_user("secret", roles=(Role.API,), Name="Bob")
    others = sign_in(client, "Bob")
    signed_in = [sign_in(client) for _ in range(5)]
    assert [status(client, tokens) for tokens in signed_in] == [401, 401, 200, 200, 200]
    assert refresh(client, signed_in[0]["refresh_token"]).json["error"] == "invalid_grant"
    assert status(client, others) == 200


def test_a_refresh_takes_nobodys_place(client, alice):
    signed_in = [sign_in(client) for _ in range(3)]
    for number, tokens in enumerate(signed_in):
        for _ in range(4):
            tokens = refresh(client, tokens["refresh_token"]).json
        signed_in[number] = tokens
    assert [status(client, tokens) for tokens in signed_in] == [200] * 3


def test_the_limit_is_exact_after_many_signed_in_at_once(real_storage, real_db):
    refresh_tokens = RefreshTokens(real_storage, 600, 20)
    account = guid()
    with ThreadPoolExecutor(8) as pool:
        issued = list(pool.map(lambda _: refresh_tokens.issue(account, 0), range(60)))
    assert real_db.refresh_tokens.count_documents({}) == 20
    assert {token["Chain"] for token in real_db.refresh_tokens.find()} <= {i.chain for i in issued}


def test_by_default_who_signs_in_for_every_call_keeps_each_access_token():
    settings = config.load({"QM_ENV": "testing"})
    alive = SIGN_INS_PER_SECOND * settings.ACCESS_TOKEN_SECONDS
    assert alive < settings.REFRESH_TOKENS_PER_ACCOUNT


def test_the_surplus_is_found_in_the_index_alone(app, alice, db):
    add_tokens(db, alice, MANY)
    tokens = service(app, Storage).client[db.name]["refresh_tokens"]
    living = {"UserId": alice["_id"], "Used": False}
    cursor = tokens.find(living, ["_id"], skip=3, limit=9).sort([("ExpiresAt", -1), ("_id", 1)])
    done = cursor.explain()["executionStats"]
    assert (done["totalDocsExamined"], done["totalKeysExamined"] <= 13) == (0, True)
