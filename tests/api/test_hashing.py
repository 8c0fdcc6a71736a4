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
from tests.factories import World, sha256

TOKEN = "/api/oauth/token"
USERS = "/api/v1/users"
LONG = 60.0
# How many passwords are checked at a time, and how many requests wait for that.
PLACES, LINE = 2, 16


@pytest.fixture
def hashed(monkeypatch):
    """Collect at which costs anything is hashed."""
    costs = []

    def noting(name, cost_of):
        real = getattr(PasswordHasher, name)

        def method(self, *args):
            if cost := cost_of(self, *args):
                costs.append(cost)
            return real(self, *args)

        monkeypatch.setattr(PasswordHasher, name, method)

    noting("verify", lambda _, stored, __: "".join(stored.split("$")[3:4]))
    noting("hash", lambda self, _: f"m={self.memory_cost},t={self.time_cost},p={self.parallelism}")
    return costs


def body(name="Alice", password="secret"):
    return {"grant_type": "password", "username": name, "password": sha256(password)}


@pytest.fixture
def sign_in(client):
    return lambda *who: client.post(TOKEN, json=body(*who)).status_code


def test_a_wrong_password_is_hashed_once_whoever_is_asked_for(world, client, hashed):
    """Time must not tell who has an account, nor whether it has a password."""
    world.add_user("secret", roles=(Role.API,), Name="Alice")
    world.add_user(None, Name="Silent")
    world.add_user(None, Name="Odd", PasswordHash="scribble")
    work = {}
    for name in ("Alice", "Silent", "Odd", "Nobody"):
        hashed.clear()
        assert client.post(TOKEN, json=body(name, "wrong")).status_code == 400
        work[name] = list(hashed)
    assert work == {name: ["m=64,t=1,p=1"] for name in work}


def test_a_right_password_is_stored_at_todays_cost_without_any_role(world, client, as_role):
    headers = as_role(Role.API, Role.USERS_QUERY)
    for way in ("sign in", "validate"):
        stored = PasswordHasher(3, 64, 1).hash(sha256("secret").upper())
        guest = world.add_user(Name=f"Guest{len(way)}", PasswordHash=stored)
        if way == "sign in":
            assert client.post(TOKEN, json=body(guest["Name"])).status_code == 403
        else:
            url = f"{USERS}/{guest['_id']}/password/validate"
            right = {"password": sha256("secret")}
            assert client.post(url, json=right, headers=headers).status_code == 200
        assert "t=1," in world.db.users.find_one({"_id": guest["_id"]})["PasswordHash"]


@pytest.fixture
def remembering(make_app, settings):
    settings.PASSWORD_CACHE_SECONDS = LONG
    settings.ACCOUNT_FAILURES = 3
    app = make_app(settings)
    world = World(app)
    world.add_user("secret", roles=Role, Name="Alice")
    return app.test_client(), world


def test_a_right_password_is_not_hashed_again_within_a_moment(remembering, hashed):
    client, _ = remembering
    hashed.clear()
    statuses = [client.post(TOKEN, json=body()).status_code for _ in range(13)]
    assert (statuses, len(hashed)) == ([200] * 13, 1)
    assert client.post(TOKEN, json=body(password="wrong")).status_code == 400
    assert len(hashed) == 2


def test_what_is_remembered_ends_with_the_password(remembering):
    client, _ = remembering
    token = client.post(TOKEN, json=body()).json["access_token"]
    new = {"new": sha256("new")}
    headers = {"Authorization": f"Bearer {token}"}
    changed = client.post(f"{USERS}/Alice/manage/password/change", json=new, headers=headers)
    assert changed.status_code == 200
    assert client.post(TOKEN, json=body()).status_code == 400
    assert client.post(TOKEN, json=body(password="new")).status_code == 200


def test_what_is_remembered_does_not_open_a_closed_account(remembering, hashed):
    """Otherwise it would tell which guess is right, however many there were."""
    client, _ = remembering
    assert client.post(TOKEN, json=body()).status_code == 200
    assert [client.post(TOKEN, json=body(password="x")).status_code for _ in range(3)] == [400] * 3
    hashed.clear()
    assert client.post(TOKEN, json=body()).status_code == 429
    assert hashed == []


@contextmanager
def busy(limit, count):
    """Have so many requests at work or in the line, until the block ends."""
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


def limit_hashing(app, remembered_seconds=0.0):
    """Let the application hash within a limit of the test's, and return that."""
    limit = Limiter("Too many passwords are being checked", PLACES, LINE, LONG)
    replace_service(app, Hasher(service(app, Passwords), limit, remembered_seconds))
    return limit


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (TOKEN, body()),
        (f"{USERS}/register", {"username": "Nova", "email": "n@b.co", "password": sha256("x")}),
        (f"{USERS}/Alice/password/validate", {"password": sha256("x")}),
        (f"{USERS}/Alice/email/change", {"new": "n@b.co", "authorization": sha256("x")}),
        (f"{USERS}/Alice/password/change", {"new": sha256("y"), "authorization": sha256("x")}),
        (f"{USERS}/Alice/password/reset", {"code": "ABCDEFGH", "new": sha256("x")}),
        (f"{USERS}/Alice/manage/password/change", {"new": sha256("x")}),
    ],
)
def test_all_hashing_is_done_in_the_places(app, client, world, db, path, more):
    headers = world.headers(user=world.add_user("secret", roles=Role, Name="Alice"))
    limit = limit_hashing(app)
    before = list(db.quotas.find())
    with busy(limit, PLACES + LINE):
        began = monotonic()
        while (answer := client.post(path, json=more, headers=headers)).status_code != 503:
            assert monotonic() - began < LONG
        assert 1 <= int(answer.headers["Retry-After"]) <= LONGEST_RETRY
        # No attempt is counted that got no place to hash in.
        assert list(db.quotas.find()) == before
    assert client.get("/api/v1/players", headers=headers).status_code == 200


def test_a_cost_that_somebody_stored_by_mistake_holds_nobody_up(world, sign_in, hashed):
    absurd = "$argon2id$v=19$m=19456,t=99999999,p=1"
    world.add_user(Name="Bob", PasswordHash=f"{absurd}$c2FsdHNhbHQ$ZGlnZXN0ZGlnZXN0")
    assert sign_in("Bob", "wrong") == 400
    assert hashed == ["m=64,t=1,p=1"]


def test_who_is_locked_out_or_remembered_needs_no_place_that_others_need(remembering):
    """A flood from a locked address once kept everybody else out of the line."""
    client, world = remembering
    limit = limit_hashing(client.application, LONG)
    world.add_user("secret", roles=Role, Name="Bob")
    assert client.post(TOKEN, json=body()).status_code == 200
    assert [client.post(TOKEN, json=body("Bob", "x")).status_code for _ in range(3)] == [400] * 3
    with busy(limit, PLACES + LINE):
        assert client.post(TOKEN, json=body("Bob")).status_code == 429
        assert client.post(TOKEN, json=body()).status_code == 200
