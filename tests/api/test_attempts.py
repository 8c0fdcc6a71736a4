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

RIGHT, WRONG = sha256("right"), sha256("wrong")
SITE = "198.51.100.1"
LIMITS = {"account": 3, "address": 6, "caller": 5}


def limits_of(storage, **most):
    window = timedelta(seconds=600)
    return Limits(storage, {kind: Limit(count, window) for kind, count in most.items()})


@pytest.fixture
def settings(settings):
    for kind, count in LIMITS.items():
        setattr(settings, f"{kind.upper()}_FAILURES", count)
    return settings


@pytest.fixture
def alice(world):
    return world.add_user("right", roles=(Role.API,), Name="Alice")


@pytest.fixture
def try_(sign_in):
    """Return a way to sign in with the right password, or as somebody else; return the status."""
    return lambda name="Alice", password="right", address=SITE: (
        sign_in(name, password, address).status_code
    )


@pytest.fixture
def guess(try_):
    """Return a way to guess a password so many times; it returns the statuses."""
    return lambda count, name="Alice", address=SITE: [
        try_(name.format(number), "wrong", address.format(number)) for number in range(count)
    ]


def test_an_account_is_closed_after_its_failures_wherever_they_come_from(guess, sign_in, alice):
    assert guess(3, address="198.51.100.{}") == [400] * 3
    closed = sign_in(password="right", address="198.51.100.9")
    assert closed.status_code == 429
    assert 0 < int(closed.headers["Retry-After"]) <= 600
    assert closed.json["Message"].startswith("Too many failed attempts; please try again in ")


def test_an_unknown_name_is_closed_like_a_known_one(guess, db):
    assert guess(4, "Nobody") == [400, 400, 400, 429]
    guess(1, "x" * 900_000)
    assert max(len(document["_id"]) for document in db.quotas.find()) < 100


def test_an_address_is_closed_after_its_failures_whomever_they_are_at(guess, try_, alice, db):
    assert guess(6, "name{}") == [400] * 6
    assert [try_() for _ in range(5)] == [429] * 5
    # The account is not used up by them.
    assert db.quotas.find_one({"_id": f"account {alice['_id']}"}) is None
    assert try_(address="198.51.100.2") == 200


def test_only_failures_count(guess, try_, alice, world):
    assert [try_() for _ in range(20)] == [200] * 20
    assert guess(2) == [400, 400]
    assert try_() == 200
    # A right password without access is none.
    world.add_user("right", Name="Gamer")
    assert [try_("Gamer") for _ in range(5)] == [403] * 5


def test_all_ways_to_guess_count_together(caller, guess, alice):
    send = caller("/api/v1/users/", Role.API, Role.USERS_QUERY)
    guess(1)
    send(f"POST {alice['_id']}/password/validate", {"password": WRONG}, 400)
    send("POST ALICE/password/change", {"new": WRONG, "authorization": WRONG}, 403)
    for path, body in [
        ("password/validate", {"password": RIGHT}),
        ("password/change", {"new": WRONG, "authorization": RIGHT}),
        ("email/change", {"new": "a@b.co", "authorization": RIGHT}),
        ("password/reset", {"code": "ABCDEFGH", "new": RIGHT}),
    ]:
        send(f"POST Alice/{path}", body, 429)


def test_asking_for_nobody_closes_a_caller_and_not_its_address(caller, try_, alice):
    """One visitor of a web site must not take the site off the API."""
    for _ in range(2):
        site = caller("/api/v1/users/", Role.API, Role.USERS_QUERY)
        for number, status in enumerate([404] * 5 + [429]):
            site(f"GET nobody{number}/password/reset", status=status)
    site("POST Alice/password/validate", {"password": RIGHT}, 429)
    assert try_(address="127.0.0.1") == 200


def test_a_valid_refresh_token_is_not_refused_for_the_failures_of_others(
    guess, sign_in, refresh, alice
):
    address = {"environ_base": {"REMOTE_ADDR": SITE}}
    token = sign_in(password="right").json["refresh_token"]
    # Refresh tokens are guessed at a price, too.
    wrong = [refresh("x", **address).status_code for _ in range(7)]
    assert wrong == [400] * 6 + [429]
    fresh = refresh(token, **address)
    assert fresh.status_code == 200
    # One that was used before is refused, and still ends the tokens that came of it.
    for used in (token, fresh.json["refresh_token"]):
        assert refresh(used, **address).status_code == 429


def test_an_id_and_an_unknown_name_of_the_same_text_are_two(guess, try_, alice):
    assert guess(4, alice["_id"])[-1] == 429
    assert try_() == 200


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


@pytest.mark.parametrize("days", [-1, 30])
def test_a_window_ends(sign_in, guess, try_, alice, db, days):
    """So does one of a clock that was wrong, when it is right."""

    def ends_in(**time):
        end = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(**time)
        db.quotas.update_many({}, {"$set": {"ExpiresAt": end}})

    guess(3)
    ends_in(seconds=77)
    # The clock of the database may be some seconds off on a busy machine.
    assert int(sign_in().headers["Retry-After"]) in range(67, 88)
    ends_in(days=days)
    assert try_() == 200
    assert guess(4) == [400, 400, 400, 429]


@pytest.mark.parametrize("proxies", [0, 1, 2])
def test_an_address_is_believed_from_trusted_proxies_alone(make_app, settings, proxies, caplog):
    settings.TRUSTED_PROXIES = proxies
    client = make_app(settings).test_client()
    caplog.set_level(logging.INFO)
    headers = {"X-Forwarded-For": "203.0.113.66, 203.0.113.1, 203.0.113.2"}
    headers |= dict.fromkeys(("X-Real-IP", "Forwarded", "Client-IP"), "203.0.113.7")
    client.get("/healthz", headers=headers, environ_base={"REMOTE_ADDR": "127.0.0.1"})
    expected = ["127.0.0.1", "203.0.113.2", "203.0.113.1"][proxies]
    assert caplog.records[-1].details["address"] == expected


@pytest.mark.parametrize(
    ("addresses", "same", "other"),
    [
        ("2001:db8:1:2::{}", "2001:db8:1:2:ffff::1", "2001:db8:1:3::1"),
        ("[2001:db8:9::1]:500{}", "2001:db8:9::2", "::ffff:198.51.100.1"),
        # A port that a proxy adds is not part of an address.
        ("198.51.100.9:500{}", "198.51.100.9", "198.51.100.8"),
    ],
)
def test_addresses_of_one_ipv6_network_are_one(guess, try_, alice, addresses, same, other):
    guess(6, "name{}", addresses)
    assert [try_(address=address) for address in (same, other)] == [429, 200]


def test_no_guess_is_looked_at_that_cannot_be_counted(try_, alice, app):
    class Away:
        def __getattr__(self, name):
            raise ServerSelectionTimeoutError("away")

    away = storage_with(service(app, Storage), quotas=Away())
    replace_service(app, limits_of(away, **LIMITS))
    assert [try_(password=word) for word in ("right", "wrong")] == [503, 503]


@pytest.mark.parametrize("verdict", [Forbidden("wrong"), None])
def test_an_attempt_whose_time_is_over_before_it_ends_counts(real_storage, real_db, verdict):
    """On a busy machine; it was counted before, so a wrong one never goes uncounted."""
    limits = limits_of(real_storage, account=3)
    scope = RequestScope(DatabasePlaces(1, partial(pymongo.timeout, 0.6)), monotonic())
    answer = pytest.raises(Forbidden) if verdict else contextlib.nullcontext()
    with scope, at_database(), answer, limits.use(is_failure, account="x"):
        sleep(0.65)
        if verdict:
            raise verdict
    assert real_db.quotas.find_one()["Used"] == 1


def test_no_more_than_the_limit_are_looked_at_however_many_come_at_once(real_storage, real_db):
    limits, looked_at = limits_of(real_storage, account=10, address=100), []

    def guess(number):
        try:
            with limits.use(is_failure, account="alice", address=SITE):
                looked_at.append(number)
                raise Forbidden("wrong")
        except (RateLimited, Forbidden) as error:
            return type(error)

    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(guess, range(40)))
    assert len(looked_at) == results.count(Forbidden) == 10
    assert results.count(RateLimited) == 30


def test_the_limit_stands_before_the_hash_function(guess, alice, app, monkeypatch):
    hashed, passwords = [], service(app, Passwords)
    real = passwords.matches
    monkeypatch.setattr(passwords, "matches", lambda *a: hashed.append(a) or real(*a))
    guess(20)
    assert len(hashed) == 3
