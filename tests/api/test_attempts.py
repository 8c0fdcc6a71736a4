"""Guessing made expensive: limits by account, by address and by caller, shared."""

from __future__ import annotations

import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from time import monotonic, sleep

import pymongo
import pytest
from pymongo.errors import ServerSelectionTimeoutError

from app.auth.guesses import is_failure
from app.core.errors import Forbidden, RateLimited, Unavailable
from app.core.limits import DatabasePlaces, RequestScope, at_database
from app.core.permissions import Role
from app.storage.client import Storage
from app.storage.limits import Limit, Limits
from app.users.passwords import Passwords
from tests.applications import replace_service, service, storage_with
from tests.factories import sha256

TOKEN = "/api/oauth/token"
QUERY = (Role.API, Role.USERS_QUERY)
RIGHT, WRONG = sha256("right"), sha256("wrong")


LIMITS = {"account": 3, "address": 6, "caller": 5}


def limits_of(storage, **most):
    window = timedelta(seconds=600)
    return Limits(storage, {kind: Limit(count, window) for kind, count in most.items()})


@pytest.fixture
def settings(settings):
    settings.ACCOUNT_FAILURES = LIMITS["account"]
    settings.ADDRESS_FAILURES = LIMITS["address"]
    settings.CALLER_FAILURES = LIMITS["caller"]
    return settings


@pytest.fixture
def alice(world):
    return world.add_user("right", roles=(Role.API,), Name="Alice")


@pytest.fixture
def sign_in(client):
    def sign_in(name="Alice", password=WRONG, address="198.51.100.1"):
        body = {"grant_type": "password", "username": name, "password": password}
        return client.post(TOKEN, json=body, environ_base={"REMOTE_ADDR": address})

    return sign_in


def test_an_account_is_closed_after_its_failures_wherever_they_come_from(sign_in, alice):
    for number in range(3):
        assert sign_in(address=f"198.51.100.{number}").status_code == 400
    closed = sign_in(password=RIGHT, address="198.51.100.9")
    assert closed.status_code == 429
    assert 0 < int(closed.headers["Retry-After"]) <= 600
    assert closed.json["Message"].startswith("Too many failed attempts; please try again in ")


def test_an_unknown_name_is_closed_like_a_known_one(sign_in):
    statuses = [sign_in("Nobody").status_code for _ in range(4)]
    assert statuses == [400, 400, 400, 429]


def test_an_address_is_closed_after_its_failures_whomever_they_are_at(sign_in, alice):
    for number in range(6):
        assert sign_in(f"name{number}").status_code == 400
    assert sign_in(password=RIGHT).status_code == 429
    assert sign_in(password=RIGHT, address="198.51.100.2").status_code == 200


def test_only_failures_count(sign_in, alice):
    for _ in range(20):
        assert sign_in(password=RIGHT).status_code == 200
    assert [sign_in().status_code for _ in range(2)] == [400, 400]
    assert sign_in(password=RIGHT).status_code == 200


def test_a_right_password_without_access_is_no_failure(sign_in, world):
    world.add_user("right", Name="Gamer")
    assert [sign_in("Gamer", RIGHT).status_code for _ in range(5)] == [403] * 5


def test_all_ways_to_guess_count_together(client, as_role, sign_in, alice):
    headers = as_role(*QUERY)
    sign_in()
    url = f"/api/v1/users/{alice['_id']}"
    validate = client.post(f"{url}/password/validate", json={"password": WRONG}, headers=headers)
    assert validate.status_code == 400
    body = {"new": WRONG, "authorization": WRONG}
    change = client.post("/api/v1/users/ALICE/password/change", json=body, headers=headers)
    assert change.status_code == 403
    for path, body in [
        ("password/validate", {"password": RIGHT}),
        ("password/change", {"new": WRONG, "authorization": RIGHT}),
        ("email/change", {"new": "a@b.co", "authorization": RIGHT}),
        ("password/reset", {"code": "ABCDEFGH", "new": RIGHT}),
    ]:
        assert client.post(f"{url}/{path}", json=body, headers=headers).status_code == 429, path


def test_asking_for_nobody_closes_a_caller_and_not_its_address(client, as_role, sign_in, alice):
    """One visitor of a web site must not take the site off the API."""
    site, other = as_role(*QUERY), as_role(*QUERY)
    address = {"environ_base": {"REMOTE_ADDR": "198.51.100.1"}}
    urls = [f"/api/v1/users/nobody{number}/password/reset" for number in range(6)]
    token = sign_in(password=RIGHT).json["refresh_token"]
    for headers in (site, other):
        asked = [client.get(url, headers=headers, **address).status_code for url in urls]
        assert asked == [404] * 5 + [429]
    body = {"password": RIGHT}
    path = "/api/v1/users/Alice/password/validate"
    assert client.post(path, json=body, headers=site, **address).status_code == 429
    assert sign_in(password=RIGHT).status_code == 200
    refresh = {"grant_type": "refresh_token", "refresh_token": token}
    assert client.post(TOKEN, json=refresh, **address).status_code == 200


def test_retry_after_tells_when_the_window_ends(sign_in, alice, db):
    for _ in range(3):
        sign_in()
    end = datetime.now(timezone.utc) + timedelta(seconds=77)
    db.quotas.update_many({}, {"$set": {"ExpiresAt": end}})
    # The clock of the database may be some seconds off on a busy machine.
    assert int(sign_in().headers["Retry-After"]) in range(67, 88)


def test_refresh_tokens_are_guessed_at_a_price_too(client):
    body = {"grant_type": "refresh_token", "refresh_token": "x"}
    statuses = [client.post(TOKEN, json=body).status_code for _ in range(7)]
    assert statuses == [400] * 6 + [429]


def test_a_valid_refresh_token_is_not_refused_for_the_failures_of_others(client, sign_in, alice):
    address = {"environ_base": {"REMOTE_ADDR": "198.51.100.1"}}
    tokens = sign_in(password=RIGHT).json
    for number in range(7):
        status = sign_in(f"name{number}").status_code
    assert status == 429

    def refresh(token):
        body = {"grant_type": "refresh_token", "refresh_token": token}
        return client.post(TOKEN, json=body, **address)

    fresh = refresh(tokens["refresh_token"])
    assert fresh.status_code == 200
    # One that was used before is refused, and still ends the tokens that came of it.
    assert refresh(tokens["refresh_token"]).status_code == 429
    assert refresh(fresh.json["refresh_token"]).status_code == 429


def test_a_closed_address_does_not_use_up_an_account(sign_in, alice, db):
    for number in range(6):
        sign_in(f"name{number}")
    for _ in range(5):
        assert sign_in(password=RIGHT).status_code == 429
    assert db.quotas.find_one({"_id": f"account {alice['_id']}"}) is None


def test_an_id_and_an_unknown_name_of_the_same_text_are_two(sign_in, alice):
    for _ in range(3):
        sign_in(alice["_id"])
    assert sign_in(alice["_id"]).status_code == 429
    assert sign_in(password=RIGHT).status_code == 200


def test_a_long_name_costs_no_storage(sign_in, db):
    sign_in("x" * 900_000)
    assert max(len(document["_id"]) for document in db.quotas.find()) < 100


def test_what_succeeds_is_given_back_to_the_window_in_which_it_began(app, db):
    limits, account = limits_of(service(app, Storage), account=3), {"_id": "account x"}
    with limits.use(is_failure, account="x"):
        end = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=60)
        db.quotas.update_one(account, {"$set": {"ExpiresAt": end}})
    assert db.quotas.find_one(account)["Used"] == 1


@pytest.mark.parametrize("fault", [Unavailable("away"), ZeroDivisionError()])
def test_a_fault_of_ours_is_nobodys_failure(app, db, fault):
    limits = limits_of(service(app, Storage), account=3, address=6)
    for _ in range(10):
        with pytest.raises(type(fault)), limits.use(is_failure, account="x", address="y"):
            raise fault
    assert {document["Used"] for document in db.quotas.find()} == {0}


def test_a_window_ends(sign_in, alice, db):
    for _ in range(3):
        sign_in()
    assert sign_in(password=RIGHT).status_code == 429
    past = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(seconds=1)
    db.quotas.update_many({}, {"$set": {"ExpiresAt": past}})
    assert sign_in(password=RIGHT).status_code == 200
    assert [sign_in().status_code for _ in range(4)] == [400, 400, 400, 429]


def test_a_window_of_a_clock_that_was_wrong_is_over_when_it_is_right(sign_in, alice, db):
    for _ in range(3):
        sign_in()
    next_month = datetime.now(timezone.utc) + timedelta(days=30)
    db.quotas.update_many({}, {"$set": {"ExpiresAt": next_month}})
    assert sign_in(password=RIGHT).status_code == 200
    assert [sign_in().status_code for _ in range(4)] == [400, 400, 400, 429]


@pytest.mark.parametrize("proxies", [0, 1, 2])
def test_an_address_is_believed_from_trusted_proxies_alone(make_app, settings, proxies, caplog):
    settings.TRUSTED_PROXIES = proxies
    client = make_app(settings).test_client()
    caplog.set_level(logging.INFO)
    headers = {"X-Forwarded-For": "203.0.113.66, 203.0.113.1, 203.0.113.2"}
    client.get("/healthz", headers=headers, environ_base={"REMOTE_ADDR": "127.0.0.1"})
    expected = ["127.0.0.1", "203.0.113.2", "203.0.113.1"][proxies]
    assert caplog.records[-1].details["address"] == expected


def test_a_forged_address_does_not_open_a_closed_one(client, sign_in, alice):
    for number in range(6):
        sign_in(f"name{number}")
    body = {"grant_type": "password", "username": "Alice", "password": RIGHT}
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Client-IP"):
        forged = client.post(
            TOKEN,
            json=body,
            headers={header: "203.0.113.7"},
            environ_base={"REMOTE_ADDR": "198.51.100.1"},
        )
        assert forged.status_code == 429, header


def test_addresses_of_one_ipv6_network_are_one(sign_in, alice):
    for number in range(6):
        sign_in(f"name{number}", address=f"2001:db8:1:2::{number}")
    assert sign_in(password=RIGHT, address="2001:db8:1:2:ffff::1").status_code == 429
    assert sign_in(password=RIGHT, address="2001:db8:1:3::1").status_code == 200
    assert sign_in(password=RIGHT, address="::ffff:198.51.100.1").status_code == 200


def test_a_port_that_a_proxy_adds_is_not_part_of_an_address(sign_in, alice):
    for number in range(6):
        sign_in(f"name{number}", address=f"198.51.100.9:{5000 + number}")
    assert sign_in(password=RIGHT, address="198.51.100.9").status_code == 429
    for number in range(6):
        sign_in(f"other{number}", address=f"[2001:db8:9::1]:{5000 + number}")
    assert sign_in(password=RIGHT, address="2001:db8:9::2").status_code == 429


def test_no_guess_is_looked_at_that_cannot_be_counted(sign_in, alice, app):
    class Away:
        def __getattr__(self, name):
            raise ServerSelectionTimeoutError("away")

    away = storage_with(service(app, Storage), quotas=Away())
    replace_service(app, limits_of(away, **LIMITS))
    assert [sign_in(password=word).status_code for word in (RIGHT, WRONG)] == [503, 503]


@pytest.mark.parametrize("verdict", [Forbidden("wrong"), None])
def test_an_attempt_whose_time_is_over_before_it_ends_counts(real_storage, real_db, verdict):
    """On a busy machine; it was counted before, so a wrong one never goes uncounted."""
    limits = limits_of(real_storage, account=3)
    scope = RequestScope(DatabasePlaces(1, partial(pymongo.timeout, 1.0)), monotonic())
    answer = pytest.raises(Forbidden) if verdict else contextlib.nullcontext()
    with scope, at_database(), answer, limits.use(is_failure, account="x"):
        sleep(1.1)
        if verdict:
            raise verdict
    assert real_db.quotas.find_one()["Used"] == 1


def test_no_more_than_the_limit_are_looked_at_however_many_come_at_once(real_storage, real_db):
    limits = limits_of(real_storage, account=10, address=100)
    looked_at = []

    def guess(number):
        try:
            with limits.use(is_failure, account="alice", address="198.51.100.1"):
                looked_at.append(number)
                raise Forbidden("wrong")
        except RateLimited:
            return "limited"
        except Forbidden:
            return "wrong"

    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(guess, range(40)))
    assert len(looked_at) == results.count("wrong") == 10
    assert results.count("limited") == 30


def test_right_passwords_within_the_limit_all_get_in_at_once(real_storage, real_db):
    limits = limits_of(real_storage, account=8, address=8)

    def right(_):
        with limits.use(is_failure, account="alice", address="198.51.100.1"):
            return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(80)))
    assert {document["Used"] for document in real_db.quotas.find()} == {0}


def test_the_limit_stands_before_the_hash_function(sign_in, alice, app, monkeypatch):
    hashed = []
    passwords = service(app, Passwords)
    real = passwords.matches
    monkeypatch.setattr(passwords, "matches", lambda *a: hashed.append(a) or real(*a))
    for _ in range(20):
        sign_in()
    assert len(hashed) == 3
