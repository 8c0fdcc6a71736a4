"""Hashing passwords: few at a time, for unknown names too, and not twice in a moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic

import pytest
from argon2 import PasswordHasher

from app.core.limits import LONGEST_RETRY, DatabasePlaces, Limiter, RequestScope, working
from app.core.permissions import Role
from app.users.hashing import Hasher
from app.users.passwords import Passwords
from tests.applications import replace_service, service
from tests.factories import sha256

LONG = 60.0
# How many passwords are checked at a time, and how many requests wait for that.
PLACES, LINE = 2, 16


@pytest.fixture
def alice(world):
    return world.add_user("secret", roles=Role, Name="Alice")


@pytest.fixture
def hashed(monkeypatch):
    """Collect at which costs passwords are checked."""
    costs, real = [], PasswordHasher.verify

    def verify(self, stored, word):
        costs.append(stored.split("$")[3])
        return real(self, stored, word)

    monkeypatch.setattr(PasswordHasher, "verify", verify)
    return costs


@pytest.fixture
def limit(app):
    """Remember passwords, and check them within a limit; return that."""
    limit = Limiter("Too many passwords are being checked", PLACES, LINE, LONG)
    replace_service(app, Hasher(service(app, Passwords), limit, LONG))
    return limit


ABSURD = ("m=19456,t=99999999,p=1", "m=4194304,t=2,p=1", f"m=8,t={'9' * 5000},p=1", "m=19456,t=2")
UNUSABLE = [None, "scribble", *(f"$argon2id$v=19${cost}$c2FsdHNhbHQ$ZGlnZXN0" for cost in ABSURD)]


def test_a_wrong_password_is_hashed_once_whoever_is_asked_for(world, alice, sign_in, hashed):
    """Time must not tell who has an account, nor whether it has a password."""
    odd = [world.add_user(PasswordHash=stored)["Name"] for stored in UNUSABLE]
    names = ["Alice", "Nobody", *odd]
    assert [sign_in(name, "wrong").status_code for name in names] == [400] * len(names)
    assert hashed == ["m=64,t=1,p=1"] * len(names)


def test_a_right_password_is_stored_at_todays_cost_without_any_role(world, sign_in, staff):
    stored = PasswordHasher(3, 64, 1).hash(sha256("secret").upper())
    guests = [world.add_user(PasswordHash=stored) for _ in range(2)]
    assert sign_in(guests[0]["Name"]).status_code == 403
    staff(f"POST users/{guests[1]['_id']}/password/validate", {"password": sha256("secret")})
    for guest in guests:
        assert "t=1," in world.db.users.find_one({"_id": guest["_id"]})["PasswordHash"]


def test_a_right_password_is_not_hashed_again_within_a_moment(sign_in, alice, limit, hashed):
    assert [sign_in().status_code for _ in range(13)] == [200] * 13
    assert len(hashed) == 1
    assert sign_in(password="wrong").status_code == 400
    assert len(hashed) == 2


def test_what_is_remembered_ends_with_the_password(caller_of, sign_in, alice, limit):
    assert sign_in().status_code == 200
    caller_of(alice)("POST users/Alice/manage/password/change", {"new": sha256("new")})
    assert sign_in().status_code == 400
    assert sign_in(password="new").status_code == 200


@contextmanager
def busy(limit):
    """Have all places taken and the line full, until the block ends."""
    count = PLACES + LINE
    leave, came = threading.Event(), threading.Semaphore(0)

    def request():
        with RequestScope(DatabasePlaces(1), monotonic() + LONG):
            came.release()
            with working(limit):
                leave.wait(LONG)

    with ThreadPoolExecutor(count) as crowd:
        for _ in range(count):
            crowd.submit(request)
            came.acquire()
        try:
            yield
        finally:
            leave.set()


USERS = "/api/v1/users"
SIGN_IN = {"grant_type": "password", "username": "Alice", "password": sha256("secret")}


def test_all_hashing_is_done_in_the_places(client, caller_of, alice, limit, db):
    own = caller_of(alice)
    before = list(db.quotas.find())
    with busy(limit):
        for path, body in (
            ("/api/oauth/token", SIGN_IN),
            (f"{USERS}/register", {"username": "Nova", "email": "n@b.co", "password": "0" * 64}),
            (f"{USERS}/Alice/password/validate", {"password": "0" * 64}),
            (f"{USERS}/Alice/email/change", {"new": "n@b.co", "authorization": "0" * 64}),
            (f"{USERS}/Alice/password/change", {"new": "1" * 64, "authorization": "0" * 64}),
            (f"{USERS}/Alice/password/reset", {"code": "ABCDEFGH", "new": "0" * 64}),
            (f"{USERS}/Alice/manage/password/change", {"new": "0" * 64}),
        ):
            began = monotonic()
            while (answer := client.post(path, json=body, headers=own.headers)).status_code != 503:
                assert monotonic() - began < LONG, path
            assert 1 <= int(answer.headers["Retry-After"]) <= LONGEST_RETRY
        # No attempt is counted that got no place to hash in.
        assert list(db.quotas.find()) == before
        own("GET players")


def test_who_is_locked_out_or_remembered_needs_no_place_that_others_need(
    app, world, sign_in, alice, limit, hashed
):
    """A flood from a locked address once kept everybody else out of the line."""
    for name in ("Bob", "Carl"):
        world.add_user("secret", roles=Role, Name=name)
    # What is remembered opens no closed account: it would tell which guess is right.
    assert [sign_in(name).status_code for name in ("Alice", "Bob")] == [200, 200]
    for name in ("Bob", "Carl") * app.config["ACCOUNT_FAILURES"]:
        assert sign_in(name, "x", name).status_code == 400
    hashed.clear()
    with busy(limit):
        assert [sign_in(name).status_code for name in ("Bob", "Carl", "Alice")] == [429, 429, 200]
    assert hashed == []
