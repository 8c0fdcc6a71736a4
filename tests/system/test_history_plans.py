"""What a page of history costs on 100,000 entries: asked of the server's own profiler."""

from datetime import timedelta, timezone

import pytest

import config
from app import create_app
from app.core.permissions import Role
from app.database import COLLECTIONS
from app.history.store import History
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from tests import tiers
from tests.applications import service
from tests.factories import NOW, World, numbered_guid

# Enough: whatever reads more than its page reads a hundred times what is allowed here, and the
# indexes of a million entries take a minute of CPU. make bench-growth looks at larger worlds.
COUNT = 100_000 if tiers.is_everything else 20_000
PLAYERS, STAFF, ITEMS = 10_000, 200, 500
PAGE = 50
HISTORY = "/api/v1/history"
# An entry every three seconds: these are three days of a busy game.
STEP = 3
BEGIN = NOW - timedelta(seconds=STEP * COUNT)
OPERATIONS = ("give", "take", "set-variable", "teach", "forget")


def guid_of(number):
    return numbered_guid(10**11 + number)


def make_history():
    """Yield entries of a busy game, changes of one kind or player scattered over all its time."""
    for number in range(COUNT):
        subject = guid_of(number * 7919 % PLAYERS)
        staff = number * 31 % STAFF
        yield {
            "_id": f"player:{subject}:{number}",
            "At": BEGIN + timedelta(seconds=STEP * number),
            "Subject": {"Kind": "player" if number % 20 else "user", "Id": subject, "Name": "One"},
            "Operation": OPERATIONS[number % 5],
            "By": {"UserId": guid_of(staff), "Name": "Staff"},
            **{"Via": "api", "Arguments": {}, "Changes": []},
            "Authors": [guid_of(staff), f"staff{staff}"],
            "Objects": [guid_of(number * 17 % ITEMS)],
            # Every fifth has a reason: to build the index is most of the work.
            **({} if number % 5 else {"Words": ["ticket", str(number % 5000)]}),
        }


@pytest.fixture(scope="module")
def large_app(mongodb_uri):
    settings = config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI=mongodb_uri,
        MONGODB_DATABASE="entries",
        AUTH_CACHE_SECONDS=600.0,
        ACCESS_TOKEN_SECONDS=3600,
    )
    app = create_app(settings)
    storage = service(app, Storage)
    for _ in bulk.insert(storage.db.history, make_history()):
        pass
    # The indexes come last: to build one at once is many times cheaper than entry by entry.
    init_database(storage.db, COLLECTIONS)
    yield app
    storage.client.drop_database("entries")
    storage.close()


@pytest.fixture(scope="module")
def walk(large_app):
    """Ask for a page, and return it with the finds of the collection that it took."""
    headers = World(large_app).headers(Role.API, Role.USERS_QUERY)
    client, db = large_app.test_client(), service(large_app, Storage).db
    client.get(HISTORY, headers=headers)

    def walk(**query):
        db.command("profile", 2)
        try:
            answer = client.get(HISTORY, query_string=query, headers=headers)
        finally:
            db.command("profile", 0)
        assert answer.status_code == 200, answer.json
        asked = {"ns": "entries.history", "command.find": "history"}
        commands = list(db["system.profile"].find(asked))
        db["system.profile"].drop()
        return answer.json, commands

    return walk


def time(number):
    at = BEGIN + timedelta(seconds=STEP * number)
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


# A person's evening: four hours of one of two hundred.
EVENING = {"from": time(COUNT // 2), "to": time(COUNT // 2 + 4800)}
FILTERS = [
    {},
    {"player": guid_of(77)},
    {"by": "staff31"},
    {"by": guid_of(31)},
    {"operation": "teach"},
    {"item": guid_of(17)},
    {"reason": "4710"},
    {"from": EVENING["from"], "to": EVENING["to"]},
    {"by": "staff31", **EVENING},
    {"operation": "give", **EVENING},
    {"item": guid_of(17), **EVENING},
]


@pytest.mark.parametrize("query", FILTERS, ids=str)
def test_every_filter_reads_its_page_by_an_index(walk, query):
    page, commands = walk(**query, pageSize=PAGE)
    assert page["Values"], "the test must find something"
    assert_cheap(commands)


def assert_cheap(commands):
    """See that a page has read little more than its entries, by an index."""
    for command in commands:
        assert "COLLSCAN" not in command["planSummary"], command["planSummary"]
        assert not command.get("hasSortStage"), command
        # A list of players' entries alone leaves out those of users on its way.
        assert command.get("docsExamined", 0) <= 2 * (PAGE + 1), command
        assert command.get("keysExamined", 0) <= 2 * (PAGE + 3), command


@pytest.mark.parametrize("query", [{}, {"by": "staff31"}, {"operation": "teach"}], ids=str)
def test_a_page_far_down_costs_what_the_first_costs(walk, query):
    """Cursors of pages in the middle, as a walk would come by them."""
    middle = {**query, "to": time(COUNT // 2)}
    first, _ = walk(**middle, pageSize=PAGE)
    _, commands = walk(**middle, pageSize=PAGE, after=first["Next"])
    assert_cheap(commands)


def test_a_key_and_an_undo_are_looked_up_in_an_index(large_app):
    db = service(large_app, Storage).db
    for where, index in (
        ({"IdempotencyKey": "k", "Subject.Id": guid_of(1)}, "idempotency_key"),
        ({"Undoes": {"$in": ["player:x:1"]}}, "undoes"),
    ):
        plan = db.history.find(where).explain()
        assert index in str(plan["queryPlanner"]["winningPlan"])
        assert plan["executionStats"]["totalDocsExamined"] == 0


def test_changes_of_a_time_are_counted_in_the_index_alone(large_app):
    db = service(large_app, Storage).db
    begin = BEGIN + timedelta(seconds=STEP * COUNT // 2)
    db.command("profile", 2)
    counts = service(large_app, History).count_changes(begin, begin + timedelta(seconds=STEP * 60))
    db.command("profile", 0)
    (count,) = db["system.profile"].find({"command.aggregate": "history"})
    db.drop_collection("system.profile")
    assert counts == dict.fromkeys(OPERATIONS, 12)
    assert count["docsExamined"] == 0
    # Of the others, no more than the key at which the server sees that the time is over.
    assert 60 <= count["keysExamined"] < 100
