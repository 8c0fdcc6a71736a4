"""Events: all changes in the order in which they became history, each of them once."""

import json
from urllib.parse import urlencode

import pytest
from bson import ObjectId

from app.core.permissions import Role
from app.game.events import EventPageSchema
from app.storage.client import Storage
from app.storage.events import Feed
from tests.applications import service
from tests.changes import cut_off
from tests.factories import numbered_guid
from tests.mongod import on_mongodb
from tests.system.programs import wait_until

ITEM = numbered_guid(1)


@pytest.fixture
def events(staff):
    return lambda status=200, **query: staff(f"GET events?{urlencode(query)}", status=status).json


@pytest.fixture
def give(staff):
    gift = {"itemid": ITEM, "quantity": 1}
    return lambda player: staff(f"POST players/{player['_id']}/items/give", gift)


@pytest.fixture
def log(app):
    """Append what is new to the log of events, as a worker does."""
    return lambda: Feed(service(app, Storage)).catch_up()


def walk(events, size=2, after=""):
    """Read until nothing new comes, and return all values and the last cursor."""
    walked = []
    while True:
        page = events(pageSize=size, after=after)
        # Before has no type, which in OpenAPI includes null, and in its schema does not.
        without_nulls = json.loads(json.dumps(page).replace('"Before": null', '"Before": 0'))
        assert EventPageSchema().validate(without_nulls) == {}
        if not page["Values"]:
            return walked, after or page["Next"]
        walked += page["Values"]
        after = page["Next"]


def test_changes_come_in_their_order_once_with_their_version(db, world, events, give, log):
    both = [world.add_player(), world.add_player()]
    # A game counts the version up as well.
    db.players.update_one({"_id": both[0]["_id"]}, {"$inc": {"Version": 5}})
    for _ in range(3):
        for player in both:
            give(player)
        log()
    walked, after = walk(events)
    assert len({event["Id"] for event in walked}) == len(walked) == 6
    for player, first in zip(both, (6, 1), strict=True):
        own = [event for event in walked if event["Subject"]["Id"] == player["_id"]]
        assert [event["Version"] for event in own] == [first, first + 1, first + 2]
    give(both[0])
    log()
    later, _ = walk(events, after=after)
    assert [event["Version"] for event in later] == [9]


def test_one_may_begin_now_and_there_is_always_a_cursor_to_go_on_from(world, events, give, log):
    player = world.add_player()
    first = events()
    assert (first["Values"], events(after=first["Next"])["Values"]) == ([], [])
    give(player)
    log()
    assert len(events(after=first["Next"])["Values"]) == 1
    now = events(after="now")
    assert (now["Values"], events(after=now["Next"])["Values"]) == ([], [])
    give(player)
    log()
    assert [event["Version"] for event in events(after=now["Next"])["Values"]] == [2]


def test_those_of_users_are_for_those_who_may_read_users(client, staff, world, events, log):
    account = {"username": "Nova", "email": "nova@example.com", "password": "0" * 64}
    staff("POST users/register", account)
    log()
    assert [event["Operation"] for event in walk(events)[0]] == ["register"]
    for others in (world.headers(Role.API), world.key_headers("history.read")):
        page = client.get("/api/v1/events", headers=others).json
        assert page["Values"] == []
        # It goes on behind what it may not see.
        assert client.get(f"/api/v1/events?after={page['Next']}", headers=others).json == page


def test_who_was_away_too_long_or_before_a_restored_backup_is_told(db, world, events, give, log):
    player = world.add_player()
    places = []
    for _ in range(3):
        give(player)
        log()
        places.append(events(after="now")["Next"])
    # The first has expired; the last is that of another past.
    db.events.delete_one({"_id": 1})
    db.events.update_one({"_id": 3}, {"$set": {"Stamp": ObjectId()}})
    for place, status in zip(places, (400, 200, 400), strict=True):
        told = events(status, after=place)
        assert status == 200 or "begin anew" in told["Message"]
    assert len(walk(events)[0]) == 2
    db.events.delete_many({})
    events(400, after=places[1])


def test_a_worker_logs_what_is_new_by_itself(app, db, world, events, give):
    feed = Feed(service(app, Storage))
    feed.begin()
    try:
        give(world.add_player())
        wait_until(lambda: len(events()["Values"]) == 1)
    finally:
        feed.end()


def test_an_entry_that_expired_before_the_log_is_left_out(db, world, events, give, log):
    player = world.add_player()
    for _ in range(3):
        give(player)
    log()
    db.history.delete_one({"Version": 2})
    assert [event["Version"] for event in walk(events)[0]] == [1, 3]


@on_mongodb
def test_a_lost_place_and_a_missing_entry_rest_on_what_a_majority_holds(
    db, world, events, give, log, monkeypatch
):
    player = world.add_player()
    for _ in range(2):
        give(player)
        log()
    place = events(pageSize=1)["Next"]
    db.history.delete_one({"Version": 1})
    with monkeypatch.context() as patch:
        cut_off(patch)
        events(503)
        db.events.delete_one({"_id": 1})
        events(503, after=place)
    events(400, after=place)
