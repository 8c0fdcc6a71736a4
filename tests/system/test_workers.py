"""Several gunicorn workers act as one: many clients at once, one key, one limit, one catalogue.

What changes of the same players add up to, the storms of test_chaos.py know.
"""

import json
import time

import pytest

from app.auth.api_keys import new_secret
from app.core.permissions import Role
from tests.factories import guid, make_key, make_player, make_user, numbered_guid, sha256, with_keys
from tests.system.programs import wait_until

WORKERS = 3
AUTH_CACHE_SECONDS = 2.0
ADDRESS_LIMIT, ACCOUNT_LIMIT, GUESSES = 20, 10, 100
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
