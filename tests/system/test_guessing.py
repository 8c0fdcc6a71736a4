"""Registering and guessing at once, at several real gunicorn workers."""

import http.client
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo import MongoClient

from tests.factories import sha256
from tests.system.chaos.machine import NO_CLOCK, Clock
from tests.system.programs import exchange, run, serving

LIMIT = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory, mongodb_uri):
    folder = tmp_path_factory.mktemp("guessing")
    settings = {
        "MONGODB_URI": mongodb_uri,
        "MONGODB_DATABASE": "guessing",
        "SECRET_KEY": "k" * 32,
        "ADDRESS_FAILURES": str(LIMIT),
        "ACCOUNT_FAILURES": "10",
        "TRUSTED_PROXIES": "1",
        # How dear a hash is does not matter here.
        **{"ARGON2_TIME_COST": "1", "ARGON2_MEMORY_KIB": "64"},
    }
    with serving(folder, "--workers", "3", **settings) as server:
        account = ("boss", "--email", "boss@example.com", "--password-stdin")
        assert run(folder, "user", "create", *account, stdin="right", **settings).returncode == 0
        for role in ("api", "users.query", "users.manage"):
            run(folder, "api", "grant", "boss", role, **settings)
        server.token = run(folder, "token", "boss", **settings).stdout.strip()
        server.settings = settings
        with MongoClient(mongodb_uri) as client:
            server.db = client.guessing
            yield server
            client.drop_database("guessing")


def post(server, path, address="198.51.100.1", **body):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {server.token}",
        "X-Forwarded-For": address,
    }
    # A machine that is busy with other things answers 503, try again: that is no verdict.
    status = 503
    while status == 503:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        status, answer = response.status, json.loads(response.read())
    connection.close()
    return status, answer


def test_of_50_registrations_of_one_name_one_succeeds(server):
    def register(number):
        body = {"username": "Highlander", "email": f"h{number}@example.com"}
        return post(server, "/api/v1/users/register", password=sha256("x"), **body)[0]

    with ThreadPoolExecutor(50) as pool:
        statuses = Counter(pool.map(register, range(50)))
    assert statuses == {200: 1, 409: 49}
    assert server.db.users.count_documents({"NameKey": "highlander"}) == 1


def test_of_200_wrong_passwords_from_one_address_no_more_than_the_limit_are_hashed(server):
    def guess(number):
        return sign_in(server, f"victim{number % 40}", "wrong", "203.0.113.5")

    with ThreadPoolExecutor(32) as pool:
        statuses = Counter(pool.map(guess, range(200)))
    # What was hashed was answered with 400; a 429 is given before.
    assert statuses == {400: LIMIT, 429: 200 - LIMIT}
    assert sign_in(server, "boss", "right", "203.0.113.5") == 429
    assert sign_in(server, "boss", "right", "203.0.113.6") == 200


def test_of_200_wrong_passwords_for_one_account_ten_are_hashed(server):
    def guess(number):
        return sign_in(server, "target", "wrong", f"192.0.2.{number}")

    with ThreadPoolExecutor(32) as pool:
        assert Counter(pool.map(guess, range(200))) == {400: 10, 429: 190}


def sign_in(server, name, password, address):
    body = {"grant_type": "password", "username": name, "password": sha256(password)}
    return post(server, "/api/oauth/token", address, **body)[0]


@pytest.mark.skipif(bool(NO_CLOCK), reason=str(NO_CLOCK))
def test_machines_whose_clocks_differ_count_together(server, tmp_path, monkeypatch):
    """The one is ahead by more than the window; the database's clock is the same for both."""
    ahead = Clock(tmp_path)
    ahead.set(3600)
    for name, value in ahead.environment.items():
        monkeypatch.setenv(name, value)
    with serving(tmp_path, "--workers", "1", **server.settings) as other:
        other.token = server.token

        def guess(number):
            machine = (server, other)[number % 2]
            return sign_in(machine, "divided", "wrong", f"198.51.100.{number}")

        statuses = Counter(map(guess, range(40)))
        # Tokens of the one are as old to the other as they are.
        elsewhere = call(server, token_of(other, "boss", "right"))
        here = call(other, token_of(server, "boss", "right"))
    assert statuses == {400: 10, 429: 30}
    assert (elsewhere, here) == (200, 200)


def token_of(server, name, password):
    body = {"grant_type": "password", "username": name, "password": sha256(password)}
    return post(server, "/api/oauth/token", **body)[1]["access_token"]


def call(server, token):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {"Authorization": f"Bearer {token}"}
    return exchange(connection, "GET", "/api/v1/players", None, headers)[0]
