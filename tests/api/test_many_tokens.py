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
def sign_in(client, alice):
    def sign_in(name="Alice"):
        body = {"grant_type": "password", "username": name, "password": sha256("secret")}
        return client.post(TOKEN, json=body).json

    return sign_in


@pytest.fixture
def refresh(client):
    def refresh(tokens):
        body = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return client.post(TOKEN, json=body).json

    return refresh


def bearer(tokens):
    return {"Authorization": f"Bearer {tokens['access_token']}"}


@pytest.fixture
def statuses(client):
    """Return what requests with some tokens answer."""
    return lambda *several: [
        client.get("/api/v1/players", headers=bearer(tokens)).status_code for tokens in several
    ]


def add_tokens(db, user, **fields):
    """Add many tokens that are older than any that is issued from now on."""
    soon = datetime.now(timezone.utc) + timedelta(seconds=60)
    token = {"Chain": guid(), "UserId": user["_id"], "PasswordVersion": 0, "Used": False}
    db.refresh_tokens.insert_many(
        {"_id": guid(), **token, "ExpiresAt": soon + timedelta(seconds=number), **fields}
        for number in range(MANY + 1)
    )


def test_tokens_are_revoked_however_many_there_are(
    client, alice, db, sign_in, refresh, statuses, monkeypatch
):
    stolen, lost, own = (sign_in() for _ in range(3))
    for chain in db.refresh_tokens.distinct("Chain"):
        add_tokens(db, alice, Chain=chain, Used=True)
    plain = Collection.delete_many

    def delete_few(self, where, **options):
        """The database takes too long over many documents, as it does where it has 400,000."""
        if self.count_documents(where) > MANY:
            raise NetworkTimeout("timed out")
        return plain(self, where, **options)

    monkeypatch.setattr(Collection, "delete_many", delete_few)
    newer = refresh(stolen)
    # A token that is used twice ends its chain.
    assert {refresh(tokens)["error"] for tokens in (stolen, newer)} == {"invalid_grant"}
    assert statuses(stolen, newer, lost, own) == [401, 401, 200, 200]
    one = client.delete(f"{TOKEN}/Alice/{lost['refresh_token']}", headers=bearer(own))
    assert [one.status_code, *statuses(lost, own)] == [200, 401, 200]
    add_tokens(db, alice)
    everything = client.delete(f"{TOKEN}/Alice", headers=bearer(own))
    assert (everything.status_code, everything.json) == (200, {"username": "Alice"})
    assert refresh(own)["error"] == "invalid_grant"
    assert statuses(own, sign_in()) == [401, 200]


def test_an_account_keeps_its_newest_tokens(world, sign_in, refresh, statuses):
    world.add_user("secret", roles=(Role.API,), Name="Bob")
    others = sign_in("Bob")
    signed_in = [sign_in() for _ in range(5)]
    assert statuses(*signed_in) == [401, 401, 200, 200, 200]
    assert refresh(signed_in[0])["error"] == "invalid_grant"
    # A refresh takes nobody's place.
    for _ in range(4):
        signed_in[4] = refresh(signed_in[4])
    assert statuses(others, *signed_in[2:]) == [200] * 4


def test_the_limit_is_exact_after_many_signed_in_at_once(real_storage, real_db):
    refresh_tokens, account = RefreshTokens(real_storage, 600, 20), guid()
    with ThreadPoolExecutor(8) as pool:
        issued = list(pool.map(lambda _: refresh_tokens.issue(account, 0), range(60)))
    assert real_db.refresh_tokens.count_documents({}) == 20
    assert {token["Chain"] for token in real_db.refresh_tokens.find()} <= {i.chain for i in issued}


def test_by_default_who_signs_in_for_every_call_keeps_each_access_token():
    settings = config.load({"QM_ENV": "testing"})
    alive = SIGN_INS_PER_SECOND * settings.ACCESS_TOKEN_SECONDS
    assert alive < settings.REFRESH_TOKENS_PER_ACCOUNT


def test_the_surplus_is_found_in_the_index_alone(app, alice, db):
    add_tokens(db, alice)
    tokens = service(app, Storage).client[db.name]["refresh_tokens"]
    living = {"UserId": alice["_id"], "Used": False}
    cursor = tokens.find(living, ["_id"], skip=3, limit=9).sort([("ExpiresAt", -1), ("_id", 1)])
    done = cursor.explain()["executionStats"]
    assert (done["totalDocsExamined"], done["totalKeysExamined"] <= 13) == (0, True)
