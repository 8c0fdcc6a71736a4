"""Several workers act as one: a key that is revoked, and a catalogue that is changed, reach all."""

import time

import pytest

from tests.callers import Caller
from tests.factories import guid
from tests.mongod import on_mongodb
from tests.system.programs import wait_until

pytestmark = on_mongodb
CACHE_SECONDS = 1.0


@pytest.fixture
def workers(settings, make_app):
    """Three applications of one database, each with caches of its own."""
    settings.AUTH_CACHE_SECONDS = settings.CATALOGUE_CACHE_SECONDS = CACHE_SECONDS
    return [make_app(settings).test_client() for _ in range(3)]


def test_a_revoked_key_is_dead_on_all_workers_in_time(workers, world, db):
    headers = world.key_headers()
    callers = [Caller(client, headers, "/api/v1/") for client in workers]
    for caller in callers:
        caller("GET info")
    db.users.update_one({}, {"$set": {"Keys": {}, "KeyDigests": []}})
    dead_from = time.monotonic() + CACHE_SECONDS
    while time.monotonic() < dead_from:
        for caller in callers:
            caller("GET info", status=None)
    for caller in callers:
        caller("GET info", status=401)


def test_a_stack_limit_reaches_all_workers(workers, world):
    relic, headers = guid(), world.headers()

    def stacks(client):
        """Give two to somebody new, and return in which stacks they are."""
        caller = Caller(client, headers, f"/api/v1/players/{world.add_player()['_id']}/items")
        caller("POST /give", {"itemid": relic, "quantity": 2})
        slots = caller("GET /inventory").json
        return [slot["Quantity"] for slot in slots if slot["ItemId"] == relic]

    assert [stacks(client) for client in workers] == [[2]] * 3
    world.add_object(Id=relic, StackLimit=1)
    wait_until(lambda: [stacks(client) for client in workers] == [[1, 1]] * 3)
