"""Several gunicorn workers act as one: many clients at once, one key, one limit, one catalogue.

What changes of the same players add up to, the storms of test_chaos.py know.
"""

import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from app.auth.api_keys import new_secret
from app.auth.roles import Role
from tests.factories import guid, make_key, make_player, make_user, numbered_guid, sha256, with_keys
from tests.system.clock import NO_CLOCK, Clock
from tests.system.programs import serving, wait_until

WORKERS = 3
AUTH_CACHE_SECONDS = 2.0
ADDRESS_LIMIT, ACCOUNT_LIMIT, GUESSES = 20, 10, 100
BUDGET = 60
SPENDERS = 16
RELIC = numbered_guid(1)
# So often is asked that each worker has answered for sure.
TIMES = 40


@pytest.fixture(scope="module")
def server(serve):
    settings = {
        **{"WORKERS": str(WORKERS), "SECRET_KEY": "k" * 32, "TRUSTED_PROXIES": "1"},
        **{"ADDRESS_FAILURES": str(ADDRESS_LIMIT), "ACCOUNT_FAILURES": str(ACCOUNT_LIMIT)},
        **{"ACCESS_TOKEN_SECONDS": "900", "AUTH_CACHE_SECONDS": str(AUTH_CACHE_SECONDS)},
        # How dear a hash is does not matter here.
        **{"ARGON2_TIME_COST": "1", "ARGON2_MEMORY_KIB": "64"},
    }
    with serve(**settings) as server:
        server.add_account("boss", "api", "users.query", "users.manage")
        yield server


def add_players(server, count):
    players = [make_player() for _ in range(count)]
    server.db.players.insert_many(players)
    return [player["_id"] for player in players]


def add_key(server, **terms):
    """Store an account with a key, and return both."""
    secret = new_secret()
    user = with_keys(make_user(roles=(Role.API,)), **{guid(): make_key(secret, **terms)})
    server.db.users.insert_one(user)
    return secret, user


class Spender:
    """Gives with a key until not even one item is left of its budget."""

    def __init__(self, server, number, secret, players, item):
        self.server, self.secret, self.players, self.item = server, secret, players, item
        self.rng, self.number = random.Random(number), number
        self.given, self.faults = 0, []

    def spend(self):
        quantity, count = self.rng.randint(1, 5), 0
        with closing(self.server.connection()) as connection:
            while quantity:
                count += 1
                status, body = self.give(connection, quantity, f"{self.number}-{count}")
                if status == 200:
                    self.given += quantity
                    # A repetition is no second gift, and costs nothing.
                    if self.give(connection, quantity, f"{self.number}-{count}")[0] != 200:
                        self.faults.append("a repetition was refused")
                elif status == 403 and "ItemsPerDay" in body["Message"]:
                    quantity -= 1
                elif status != 503:
                    self.faults.append((status, body))

    def give(self, connection, quantity, key):
        body = json.dumps({"itemid": self.item, "quantity": quantity, "bankoverflow": True})
        headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
        # The same player at a repetition: the key is of one player.
        self.rng.seed(key)
        path = f"/api/v1/players/{self.rng.choice(self.players)}/items/give"
        connection.request("POST", path, body, {**headers, "Idempotency-Key": key})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_a_budget_is_never_one_item_over(server):
    ids, item = add_players(server, 8), guid()
    secret, _ = add_key(server, Budget={"ItemsPerDay": BUDGET})
    spenders = [Spender(server, number, secret, ids, item) for number in range(SPENDERS)]
    with ThreadPoolExecutor(SPENDERS) as pool:
        list(pool.map(Spender.spend, spenders))
    assert not [fault for spender in spenders for fault in spender.faults][:3]
    stored = sum(
        held["Quantity"]
        for player in server.db.players.find({"_id": {"$in": ids}})
        for container in ("Inventory", "Bank")
        for held in player[container].values()
    )
    assert stored == sum(spender.given for spender in spenders) == BUDGET


def test_a_revoked_key_is_dead_on_all_workers_in_time(server):
    secret, user = add_key(server)
    # All workers have it cached by then.
    assert {server.status("/api/v1/info", secret) for _ in range(TIMES)} == {200}
    gone = {"$set": {"Keys": {}, "KeyDigests": []}}
    server.db.users.update_one({"_id": user["_id"]}, gone)
    dead_from = time.monotonic() + AUTH_CACHE_SECONDS
    refused = 0
    while refused < TIMES:
        asked = time.monotonic()
        answer = server.status("/api/v1/info", secret)
        refused = refused + 1 if answer == 401 else 0
        assert answer == 401 or asked < dead_from


def test_a_stack_limit_reaches_all_workers(server, tmp_path):
    players = iter(add_players(server, 200))

    def stacks():
        """Give two to somebody new, and return in which stacks they are."""
        path = f"/api/v1/players/{next(players)}/items"
        server.json("POST", f"{path}/give", {"itemid": RELIC, "quantity": 2})
        slots = server.json("GET", f"{path}/inventory")
        return [slot["Quantity"] for slot in slots if slot["ItemId"] == RELIC]

    assert [stacks() for _ in range(8)] == [[2]] * 8
    file = tmp_path / "objects.jsonl"
    file.write_text(json.dumps({"Id": RELIC, "Type": "item", "Name": "Relic", "StackLimit": 1.0}))
    server.command("import", "objects", str(file))
    wait_until(lambda: [stacks() for _ in range(8)] == [[1, 1]] * 8)
    assert server.json("GET", f"/api/v1/gameobjects/item/{RELIC}")["Name"] == "Relic"


def post(server, path, address="198.51.100.1", **body):
    """Ask until there is a verdict: a machine that is busy with other things answers 503."""
    status = 503
    while status == 503:
        status, _, answer = server.ask("POST", path, body, X_Forwarded_For=address)
    return status, json.loads(answer)


def sign_in(server, name, password, address="198.51.100.1"):
    body = {"grant_type": "password", "username": name, "password": sha256(password)}
    return post(server, "/api/oauth/token", address, **body)


def count_at_once(ask, times):
    """Return how often each status was the answer to requests that are made at once."""
    with ThreadPoolExecutor(32) as pool:
        return Counter(status for status, _ in pool.map(ask, range(times)))


def test_of_many_registrations_of_one_name_one_succeeds(server):
    def register(number):
        body = {"username": "Highlander", "email": f"h{number}@example.com"}
        return post(server, "/api/v1/users/register", password=sha256("x"), **body)

    assert count_at_once(register, 30) == {200: 1, 409: 29}
    assert server.db.users.count_documents({"NameKey": "highlander"}) == 1


def test_of_many_wrong_passwords_from_one_address_no_more_than_the_limit_are_hashed(server):
    def guess(number):
        return sign_in(server, f"victim{number % 40}", "wrong", "203.0.113.5")

    # What was hashed was answered with 400; a 429 is given before.
    expected = {400: ADDRESS_LIMIT, 429: GUESSES - ADDRESS_LIMIT}
    assert count_at_once(guess, GUESSES) == expected
    assert sign_in(server, "boss", "secret", "203.0.113.5")[0] == 429
    assert sign_in(server, "boss", "secret", "203.0.113.6")[0] == 200


def test_of_many_wrong_passwords_for_one_account_ten_are_hashed(server):
    def guess(number):
        return sign_in(server, "target", "wrong", f"192.0.2.{number}")

    expected = {400: ACCOUNT_LIMIT, 429: GUESSES - ACCOUNT_LIMIT}
    assert count_at_once(guess, GUESSES) == expected


@pytest.mark.skipif(bool(NO_CLOCK), reason=str(NO_CLOCK))
def test_machines_whose_clocks_differ_count_together(server, tmp_path, monkeypatch):
    """The one is ahead by more than the window; the database's clock is the same for both."""
    ahead = Clock(tmp_path)
    ahead.set(3600)
    for name, value in ahead.environment.items():
        monkeypatch.setenv(name, value)
    with serving(tmp_path, **{**server.settings, "WORKERS": "1"}) as other:
        machines = (server, other)
        statuses = Counter(
            sign_in(machines[number % 2], "divided", "wrong", f"198.51.100.{number}")[0]
            for number in range(40)
        )
        # Tokens of the one are as old to the other as they are.
        here, elsewhere = (sign_in(machine, "boss", "secret")[1] for machine in machines)
        tried = [
            other.status("/api/v1/players", here["access_token"]),
            server.status("/api/v1/players", elsewhere["access_token"]),
        ]
    assert statuses == {400: ACCOUNT_LIMIT, 429: 40 - ACCOUNT_LIMIT}
    assert tried == [200, 200]
