"""Many clients at once with one key, through several gunicorn workers.

What changes of the same players add up to, the storms of test_chaos.py know.
"""

import http.client
import json
import random
import threading
import time

import pytest
from pymongo import MongoClient

from app.auth.api_keys import new_secret
from app.auth.roles import Role
from tests.factories import guid, make_key, make_player, make_user, with_keys
from tests.system.programs import run, serving

CLIENTS = 32
AUTH_CACHE_SECONDS = 5.0


@pytest.fixture(scope="module")
def server(tmp_path_factory, mongodb_uri):
    folder = tmp_path_factory.mktemp("race")
    settings = {
        "MONGODB_URI": mongodb_uri,
        "MONGODB_DATABASE": "race",
        "ACCESS_TOKEN_SECONDS": "900",
        "AUTH_CACHE_SECONDS": str(AUTH_CACHE_SECONDS),
    }
    account = ("racer", "--email", "racer@example.com", "--password-stdin")
    with serving(folder, "--workers", "3", **settings) as server:
        assert run(folder, "user", "create", *account, stdin="secret", **settings).returncode == 0
        run(folder, "api", "grant", "racer", "api", **settings)
        server.token = run(folder, "token", "racer", **settings).stdout.strip()
        with MongoClient(mongodb_uri) as client:
            server.collection = client.race.players
            yield server
            client.drop_database("race")


BUDGET = 100


class Spender(threading.Thread):
    """Gives with a key until not even one item is left of its budget."""

    def __init__(self, number, port, secret, players, item):
        super().__init__()
        self.rng = random.Random(number)
        self.number, self.players, self.item = number, players, item
        self.headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.given, self.faults = 0, []

    def run(self):
        quantity, count = self.rng.randint(1, 5), 0
        while quantity:
            count += 1
            status, body = self.give(quantity, f"{self.number}-{count}")
            if status == 200:
                self.given += quantity
                # A repetition is no second gift, and costs nothing.
                if self.give(quantity, f"{self.number}-{count}")[0] != 200:
                    self.faults.append("a repetition was refused")
            elif status == 403 and "ItemsPerDay" in body["Message"]:
                quantity -= 1
            elif status != 503:
                self.faults.append((status, body))
        self.connection.close()

    def give(self, quantity, key):
        body = json.dumps({"itemid": self.item, "quantity": quantity, "bankoverflow": True})
        # The same player at a repetition: the key is of one player.
        self.rng.seed(key)
        path = f"/api/v1/players/{self.rng.choice(self.players)}/items/give"
        self.connection.request("POST", path, body, {**self.headers, "Idempotency-Key": key})
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


def add_key(server, **terms):
    """Store an account with a key, and return the key."""
    secret, key_id = new_secret(), guid()
    user = with_keys(make_user(roles=(Role.API,)), **{key_id: make_key(secret, **terms)})
    server.collection.database.users.insert_one(user)
    return secret, user


def test_a_budget_is_never_one_item_over(server):
    players = [make_player() for _ in range(8)]
    server.collection.insert_many(players)
    ids, item = [player["_id"] for player in players], guid()
    secret, _ = add_key(server, Budget={"ItemsPerDay": BUDGET})
    clients = [Spender(n, server.port, secret, ids, item) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert not [fault for client in clients for fault in client.faults][:3]
    stored = sum(
        held["Quantity"]
        for player in server.collection.find({"_id": {"$in": ids}})
        for container in ("Inventory", "Bank")
        for held in player[container].values()
    )
    assert stored == sum(client.given for client in clients) == BUDGET


def test_a_revoked_key_is_dead_on_all_workers_in_time(server):
    secret, user = add_key(server)

    def status():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        headers = {"Authorization": f"Bearer {secret}"}
        connection.request("GET", "/api/v1/info", headers=headers)
        answer = connection.getresponse().status
        connection.close()
        return answer

    # All workers have it cached by then.
    assert {status() for _ in range(60)} == {200}
    server.collection.database.users.update_one(
        {"_id": user["_id"]}, {"$set": {"Keys": {}, "KeyDigests": []}}
    )
    dead_from = time.monotonic() + AUTH_CACHE_SECONDS
    refused = 0
    while refused < 60:
        asked = time.monotonic()
        answer = status()
        refused = refused + 1 if answer == 401 else 0
        assert answer == 401 or asked < dead_from
