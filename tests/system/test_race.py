"""Many clients at once, through HTTP and several gunicorn workers, on the same few players.

Every client keeps a ledger of what it was told; afterwards the stored players must equal what the
ledgers add up to.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter

import pytest
from pymongo import MongoClient

from app.auth.api_keys import new_secret
from app.auth.roles import Role
from tests import tiers
from tests.factories import guid, make_key, make_player, make_user, with_keys
from tests.system.programs import run, serving
from tests.tiers import some

CLIENTS, CHANGES = 32, 60 if tiers.is_everything else 15
AUTH_CACHE_SECONDS = 5.0
ITEMS = [guid() for _ in range(3)]
SPELLS = [guid() for _ in range(4)]


class Ledger:
    """What one client was told."""

    def __init__(self):
        self.items = Counter()
        self.spells = Counter()
        self.variables = {}
        self.statuses = Counter()
        self.faults = []


class Client(threading.Thread):
    def __init__(self, number, port, token, players, repeats):
        super().__init__()
        self.rng = random.Random(number)
        self.number, self.players, self.repeats = number, players, repeats
        self.token = token
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.ledger = Ledger()
        self.variable = guid()

    def run(self):
        for count in range(CHANGES):
            operation = self.rng.choice((self.give, self.take, self.teach, self.forget, self.set))
            operation(self.rng.choice(self.players), f"{self.number}-{count}")
        self.connection.close()

    def send(self, player, path, key, **body):
        """Send once, or with its key again at random; the same answer must come each time."""
        times = self.rng.choice((1, 2, 3)) if self.repeats else 1
        answers = [self.post(player, path, key, body) for _ in range(times)]
        status, answer, _ = answers[0]
        self.ledger.statuses[status] += 1
        if status not in (200, 409):
            self.ledger.faults.append((path, answers))
        if status == 200:
            for again in answers[1:]:
                if again != (200, answer, "true"):
                    self.ledger.faults.append((path, answers))
            return True
        # A refusal is not remembered: a repeat may succeed once there is room, and then counts.
        return any(status == 200 and replayed is None for status, _, replayed in answers[1:])

    def post(self, player, path, key, body):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if self.repeats:
            headers["Idempotency-Key"] = key
        self.connection.request(
            "POST", f"/api/v1/players/{player}/{path}", json.dumps(body), headers
        )
        response = self.connection.getresponse()
        return (
            response.status,
            json.loads(response.read()),
            response.headers["Idempotency-Replayed"],
        )

    def give(self, player, key):
        item, quantity = self.rng.choice(ITEMS), self.rng.randint(1, 5)
        if self.send(player, "items/give", key, itemid=item, quantity=quantity):
            self.ledger.items[player, item] += quantity

    def take(self, player, key):
        item, quantity = self.rng.choice(ITEMS), self.rng.randint(1, 5)
        if self.send(player, "items/take", key, itemid=item, quantity=quantity):
            self.ledger.items[player, item] -= quantity

    def teach(self, player, key):
        spell = self.rng.choice(SPELLS)
        if self.send(player, "spells/teach", key, spellid=spell):
            self.ledger.spells[player, spell] += 1

    def forget(self, player, key):
        spell = self.rng.choice(SPELLS)
        if self.send(player, "spells/forget", key, spellid=spell):
            self.ledger.spells[player, spell] -= 1

    def set(self, player, key):
        value = self.rng.choice((self.rng.randrange(1000), self.rng.random() < 0.5))
        if self.send(player, f"variables/{self.variable}", key, value=value):
            self.ledger.variables[player, self.variable] = value


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


@pytest.mark.parametrize("repeats", some([True, False], 1), ids=str)
def test_every_count_spell_and_variable_equals_what_the_answers_add_up_to(server, repeats):
    players = [make_player() for _ in range(3)]
    server.collection.insert_many(players)
    keys = [player["_id"] for player in players]
    clients = [Client(n, server.port, server.token, keys, repeats) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    ledgers = [client.ledger for client in clients]
    assert not [fault for ledger in ledgers for fault in ledger.faults][:3]
    assert sum(ledger.statuses[200] for ledger in ledgers) > 100
    assert_equal_to(ledgers, {key: server.collection.find_one({"_id": key}) for key in keys})


def assert_equal_to(ledgers, players):
    items, spells, variables = Counter(), Counter(), {}
    for ledger in ledgers:
        items.update(ledger.items)
        spells.update(ledger.spells)
        variables |= ledger.variables
    stored_items, stored_spells, stored_variables = Counter(), Counter(), {}
    for key, player in players.items():
        for held in player["Inventory"].values():
            stored_items[key, held["ItemId"]] += held["Quantity"]
        stored_spells.update((key, spell) for spell in player["Spells"].values())
        stored_variables |= {(key, id_): value for id_, value in player["Variables"].items()}
    assert +stored_items == +items
    assert min(items.values()) >= 0
    assert +stored_spells == +spells
    assert max(spells.values()) <= 1
    assert exactly(stored_variables) == exactly(variables)


def exactly(variables):
    return {key: (value, type(value)) for key, value in variables.items()}


BUDGET = 100


class Spender(threading.Thread):
    """Gives with a key until not even one item is left of its budget."""

    def __init__(self, number, port, secret, players, item):
        super().__init__()
        self.rng = random.Random(number)
        self.number, self.players, self.item = number, players, item
        self.headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
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
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
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
