"""What requests cost on 50,000 players: asked of the server's own profiler, not guessed."""

from contextlib import contextmanager
from datetime import datetime, timezone

import pytest
from pymongo import monitoring

import config
from app import create_app
from app.core.naming import name_key, name_tails
from app.database import COLLECTIONS
from app.http.cursors import Cursors
from app.maintenance.demo.catalogue import player_name
from app.maintenance.demo.world import World as DemoWorld
from app.players.domain import EMBEDDED
from app.players.store import ORDERS as PLAYER_ORDERS
from app.players.store import Players
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from tests import tiers
from tests.applications import service
from tests.callers import Caller
from tests.factories import World, make_object, numbered_guid
from tests.tiers import some

# Enough: whatever reads more than its page reads a hundred times what is allowed here.
COUNT = 50_000 if tiers.is_everything else 10_000


def crowd(now):
    """Yield players of the demo world who own nothing, and share all but their names with some."""
    nothing = {name: {} for name in EMBEDDED}
    alike = [player | nothing for player in DemoWorld(1000, now, "").players(2000)]
    for number in range(COUNT):
        name = player_name(number)
        key = name_key(name)
        yield {
            **alike[number % len(alike)],
            "_id": numbered_guid(number),
            "Name": name,
            "NameKey": key,
            "NameTails": name_tails(key),
        }


SETTINGS = {
    **{"MONGODB_DATABASE": "large", "AUTH_CACHE_SECONDS": 60.0, "ACCESS_TOKEN_SECONDS": 3600},
    **{"TOTAL_CACHE_SECONDS": 1.0, "CATALOGUE_CACHE_SECONDS": 3600.0},
    # Those who were online when the world was made stay so, however slow the machine is.
    "ONLINE_TTL_SECONDS": 24 * 3600,
}


@pytest.fixture(scope="module")
def large_app(mongodb_uri):
    """An application on a database with 50,000 seeded players, as a worker would hold it."""
    app = create_app(config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri, **SETTINGS))
    storage = service(app, Storage)
    for _ in bulk.insert(storage.db.players, crowd(datetime.now(timezone.utc)), skips_known=True):
        pass
    init_database(storage.db, COLLECTIONS)
    yield app
    storage.client.drop_database("large")
    storage.close()


@pytest.fixture(scope="module")
def db(large_app):
    return service(large_app, Storage).db


@pytest.fixture(scope="module")
def staff(large_app):
    """A caller of a worker that has served before: what it learns once, it has learned."""
    headers = World(large_app).headers()
    staff = Caller(large_app.test_client(), headers, "/api/v1/")
    staff("GET players")
    return staff


@contextmanager
def profiled(db, **where):
    """Yield a list that has at the end what the block has cost the server."""
    db.drop_collection("system.profile")
    db.command("profile", 2)
    commands = []
    try:
        yield commands
    finally:
        db.command("profile", 0)
    commands += [c for c in db["system.profile"].find(where) if "planSummary" in c]


@pytest.fixture(scope="module")
def cost(staff, db):
    """Make a request about players; return its answer, and the commands that it has cost."""

    def cost(path, method="GET", body=None):
        ops = {"$in": ["query", "command", "update"]}
        with profiled(db, ns="large.players", op=ops) as commands:
            answer = staff(f"{method} players{path}", body).json
        return answer, commands

    return cost


def assert_indexed(commands):
    for command in commands:
        assert "COLLSCAN" not in command["planSummary"], command["planSummary"]
        assert not command.get("hasSortStage"), command["planSummary"]


LISTS = [
    *(("?page={page}&pageSize=100", "GET"), ("?sortDirection=Descending&page={page}", "GET")),
    *(("?sortBy=level&page={page}", "GET"), ("?sortBy=lastonline&page={page}", "GET")),
    ("?sortBy=level&sortDirection=Descending&page={page}", "GET"),
    ("?sortBy=lastonline&sortDirection=Descending&page={page}", "GET"),
    *(("/rank?page={page}", "GET"), ("/rank?page={page}&sortDirection=Ascending", "GET")),
    ("", "POST"),
]


@pytest.mark.parametrize(("path", "method"), LISTS)
@pytest.mark.parametrize("page", some([7, 0], 1))
def test_a_list_reads_its_page_and_what_the_offset_skips(cost, path, method, page):
    body = {"page": page} if method == "POST" else None
    answer, commands = cost(path.format(page=page), method, body)
    size = answer.get("PageSize", 5)
    (find,) = [c for c in commands if c["op"] == "query"]
    assert find["nreturned"] == size
    assert find["docsExamined"] <= (page + 1) * size
    assert find["keysExamined"] <= (page + 1) * size
    assert_indexed(commands)
    total = answer.get("Total", answer.get("total"))
    assert total == COUNT


FAR = COUNT * 3 // 400
ORDERS = [
    "",
    "&sortDirection=Descending",
    "&sortBy=level",
    "&sortBy=level&sortDirection=Descending",
]
ORDERS += ["&sortBy=lastonline", "&sortBy=lastonline&sortDirection=Descending"]


@pytest.mark.parametrize("query", ORDERS)
def test_a_page_far_down_is_counted_in_the_index_and_reads_its_own_documents(cost, query):
    answer, commands = cost(f"?page={FAR}&pageSize=100{query}")
    (find,) = [c for c in commands if c["op"] == "query"]
    assert answer["Count"] == find["docsExamined"] == 100
    assert find["keysExamined"] == (FAR + 1) * 100
    assert_indexed(commands)


@pytest.fixture(scope="module")
def cursor_at(large_app, db):
    """Return the cursor that a walk in some order has after so many players.

    Nobody wants to wait for the walk itself: the page before is read by its number, and its last
    player stands where the walk would.
    """

    def cursor_at(offset, order, ascending):
        wanted = PLAYER_ORDERS[order, ascending]
        keys = {**dict.fromkeys(wanted.names, 1), "_id": 0}
        found = db.players.find({}, keys, sort=list(wanted.sort)).hint(wanted.held_by)
        (last,) = found.skip(offset - 1).limit(1)
        return service(large_app, Cursors).write(wanted.position("players ", last))

    return cursor_at


@pytest.mark.parametrize(("order", "ascending"), PLAYER_ORDERS)
@pytest.mark.parametrize("offset", some([COUNT - 150, 0, 300, COUNT * 3 // 4], 1))
def test_a_page_after_a_cursor_costs_the_same_at_any_depth(
    cost, cursor_at, order, ascending, offset
):
    after = cursor_at(offset, order, ascending) if offset else ""
    direction = "Ascending" if ascending else "Descending"
    query = f"?after={after}&pageSize=100&sortBy={order}&sortDirection={direction}"
    answer, commands = cost(query)
    *choices, page = [c for c in commands if c["op"] == "query"]
    assert answer["Count"] == page["nreturned"] == 100
    # The page, one more, and the beginning of each range.
    assert sum(choice["keysExamined"] for choice in choices) <= 110
    assert page["docsExamined"] == 100
    # MongoDB looks into the documents of a range unless its last key is the name.
    looked_into = sum(choice["docsExamined"] for choice in choices)
    assert looked_into <= (110 if order in ("level", "lastonline") else 2)
    assert_indexed(choices)


# Thousands of players have it; what fewer have, MongoDB may look up and sort instead.
COMMON = "ria"
TEXTS = ["wyn", "dric", "ashford", "moruelin of", "no such name"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("direction", "page"), some([("Descending", 2), ("Ascending", 0)], 1))
def test_a_search_reads_no_document_but_those_of_its_page(cost, text, direction, page):
    query = f"?search={text}&page={page}&pageSize=10&sortDirection={direction}"
    answer, commands = cost(query)
    assert all(text in player["Name"].lower() for player in answer["Values"])
    assert answer["Count"] == min(10, max(0, answer["Total"] - page * 10))
    assert sum(command["docsExamined"] for command in commands) == answer["Count"]
    for command in commands:
        assert command["keysExamined"] <= max(answer["Total"], 2 * answer["Count"]) + 1
        assert "COLLSCAN" not in command["planSummary"]


@pytest.mark.parametrize("query", ["page=0", "after="])
def test_a_search_for_a_common_text_scans_a_few_names(cost, query):
    answer, commands = cost(f"?search={COMMON}&{query}&pageSize=2")
    # But for the count, which may be cached.
    scanned = [c["keysExamined"] for c in commands if c["keysExamined"] < answer["Total"]]
    assert sum(scanned) < answer["Total"]
    assert len(commands) - len(scanned) <= 1


@pytest.mark.parametrize("query", ["moruelin", "no such name", "moruelin&sortBy=level"])
def test_a_search_for_a_rare_text_reads_its_matches_alone(cost, query):
    answer, commands = cost(f"?search={query}")
    assert answer["Total"] < 20
    for command in commands:
        assert command["keysExamined"] <= 2 * answer["Total"] + 1
        assert command["docsExamined"] <= answer["Total"]


def test_a_lookup_reads_one_document(cost, db):
    for key in (player_name(1234), db.players.find_one({}, ["_id"])["_id"]):
        _, (find,) = cost(f"/{key}")
        assert (find["docsExamined"], find["keysExamined"]) == (1, 1)
        assert_indexed([find])


def test_the_online_count_is_one_index_look_up(cost):
    answer, (count,) = cost("/online/count")
    assert answer["onlineCount"] > 0
    assert count["docsExamined"] == 0
    assert count["keysExamined"] <= answer["onlineCount"] + 1
    assert_indexed([count])


def test_levels_are_counted_in_the_index_alone(large_app, db):
    with profiled(db, **{"command.aggregate": "players"}) as commands:
        levels = service(large_app, Players).count_by_level()
    (count,) = commands
    assert sum(levels.values()) == COUNT
    assert (count["docsExamined"], count["keysExamined"]) == (0, COUNT)


def test_the_online_list_reads_its_page(cost):
    answer, commands = cost("/online", "POST", {"count": 10, "page": 3})
    (find,) = [c for c in commands if c["op"] == "query"]
    assert find["docsExamined"] <= 40
    assert find["keysExamined"] <= 41
    assert answer["count"] == 10
    assert_indexed(commands)


class Commands(monitoring.CommandListener):
    """Remembers what was sent; every command is a round trip."""

    def __init__(self):
        self.names = []

    def started(self, event):
        self.names.append(event.command_name)

    def succeeded(self, event):
        """It does not matter here."""

    failed = succeeded


ITEM, SPELL, VARIABLE = map(numbered_guid, range(3))
# The player, the records of erasures, and what a change writes.
CHANGE = ["find", "find", "update", "insert", "commitTransaction"]


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("", None, ["find"]),
        ("/variables", None, ["find"]),
        ("/items", None, ["find"]),
        ("/spells", None, ["find"]),
        ("/items/give", {"itemid": ITEM, "quantity": 1}, CHANGE),
        ("/items/take", {"itemid": ITEM, "quantity": 1}, CHANGE),
        ("/spells/teach", {"spellid": SPELL}, CHANGE),
        ("/spells/forget", {"spellid": SPELL}, CHANGE),
        (f"/variables/{VARIABLE}", {"value": 1}, CHANGE),
    ],
)
def test_a_read_is_one_round_trip_and_a_change_five(warm, path, body, expected):
    sent, staff = warm
    sent.names.clear()
    staff(f"{'POST' if body else 'GET'} {path}", body)
    assert sent.names == expected


@pytest.fixture(scope="module")
def warm(mongodb_uri, large_app):
    """A caller of a worker that has served before, and what it sends to MongoDB."""
    sent = Commands()
    with pytest.MonkeyPatch.context() as patch:
        listeners = monitoring._LISTENERS._replace(command_listeners=[sent])
        patch.setattr(monitoring, "_LISTENERS", listeners)
        app = create_app(config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri, **SETTINGS))
    player = f"/api/v1/players/{player_name(7)}"
    staff = Caller(app.test_client(), World(app).headers(), player)
    staff("POST /items/give", {"itemid": ITEM, "quantity": 1})
    for change in ("teach", "forget"):
        staff(f"POST /spells/{change}", {"spellid": SPELL})
    yield sent, staff
    service(app, Storage).close()


@pytest.fixture(scope="module")
def catalogue(db):
    """A large catalogue: of each name there are a few, and one item in five has another type."""
    for first in range(0, COUNT * 2 // 5, 1000):
        db.objects.insert_many(
            make_object(Type="item" if number % 5 else "npc", Name=f"Thing {number // 3}")
            for number in range(first, first + 1000)
        )


@pytest.mark.parametrize(
    ("request_", "most_keys"),
    [
        ("GET gameobjects/item?pageSize=50", 110),
        ("GET gameobjects/item?pageSize=50&search=thing+3333", 400),
        ("POST gameobjects/item", 20),
    ],
)
def test_the_catalogue_is_read_by_its_indexes(db, staff, catalogue, request_, most_keys):
    staff(request_)
    with profiled(db, ns="large.objects", op="query") as found:
        staff(request_)
    assert found
    for command in found:
        assert "COLLSCAN" not in command["planSummary"]
        assert command["keysExamined"] <= most_keys, command
        assert command["docsExamined"] <= 60
