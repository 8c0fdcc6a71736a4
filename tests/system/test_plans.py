"""What requests cost on 50,000 players: asked of the server's own profiler, not guessed."""

from datetime import datetime, timezone

import pytest
from pymongo import monitoring

import config
from app import create_app
from app.core.naming import name_key, name_tails
from app.database import COLLECTIONS
from app.http.cursors import Cursors
from app.maintenance.demo.catalogue import player_name
from app.maintenance.demo.world import World
from app.players.domain import EMBEDDED
from app.players.store import ORDERS as PLAYER_ORDERS
from app.players.store import Players
from app.storage import bulk
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from tests import factories, tiers
from tests.applications import service
from tests.factories import guid, numbered_guid
from tests.tiers import some

# Enough: whatever reads more than its page reads a hundred times what is allowed here.
COUNT = 50_000 if tiers.is_everything else 10_000


def crowd(now):
    """Yield players of the demo world who own nothing, and share all but their names with some."""
    nothing = {name: {} for name in EMBEDDED}
    alike = [player | nothing for player in World(1000, now, "").players(2000)]
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


@pytest.fixture(scope="module")
def large_app(mongodb_uri):
    """An application on a database with 50,000 seeded players, as a worker would hold it."""
    settings = config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI=mongodb_uri,
        MONGODB_DATABASE="large",
        TOTAL_CACHE_SECONDS=1.0,
        AUTH_CACHE_SECONDS=60.0,
        ACCESS_TOKEN_SECONDS=3600,
        # Those who were online when the world was made stay so, however slow the machine is.
        ONLINE_TTL_SECONDS=24 * 3600,
    )
    app = create_app(settings)
    storage = service(app, Storage)
    for _ in bulk.insert(storage.db.players, crowd(datetime.now(timezone.utc)), skips_known=True):
        pass
    init_database(storage.db, COLLECTIONS)
    yield app
    storage.client.drop_database("large")
    storage.close()


@pytest.fixture(scope="module")
def profiled(large_app):
    """Make a request, and return the commands that it cost on the server."""
    db = service(large_app, Storage).db
    client, headers = large_app.test_client(), factories.World(large_app).headers()
    client.get("/api/v1/players", headers=headers)  # what a worker learns once and keeps

    def profiled(path, method="GET", body=None):
        db.command("profile", 0)
        db.drop_collection("system.profile")
        db.command("profile", 2)
        response = client.open(f"/api/v1/players{path}", method=method, headers=headers, json=body)
        db.command("profile", 0)
        assert response.status_code == 200, response.json
        of_players = {"ns": "large.players", "op": {"$in": ["query", "command", "update"]}}
        commands = list(db["system.profile"].find(of_players))
        return response.json, [c for c in commands if "planSummary" in c]

    return profiled


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
def test_a_list_reads_its_page_and_what_the_offset_skips(profiled, path, method, page):
    body = {"page": page} if method == "POST" else None
    answer, commands = profiled(path.format(page=page), method, body)
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
def test_a_page_far_down_is_counted_in_the_index_and_reads_its_own_documents(profiled, query):
    answer, commands = profiled(f"?page={FAR}&pageSize=100{query}")
    (find,) = [c for c in commands if c["op"] == "query"]
    assert answer["Count"] == find["docsExamined"] == 100
    assert find["keysExamined"] == (FAR + 1) * 100
    assert_indexed(commands)


@pytest.fixture(scope="module")
def cursor_at(large_app):
    """Return the cursor that a walk in some order has after so many players.

    Nobody wants to wait for the walk itself: the page before is read by its number, and its last
    player stands where the walk would.
    """
    db = service(large_app, Storage).db

    def cursor_at(offset, order, ascending, text=""):
        wanted = PLAYER_ORDERS[order, ascending]
        where = {wanted.names[0]: {"$ne": ""}, "NameKey": {"$regex": text}} if text else {}
        keys = {**dict.fromkeys(wanted.names, 1), "_id": 0}
        found = db.players.find(where, keys, sort=list(wanted.sort)).hint(wanted.held_by)
        (last,) = found.skip(offset - 1).limit(1)
        return service(large_app, Cursors).write(wanted.position(f"players {text}", last))

    return cursor_at


def asked(order, ascending, text=""):
    direction = "Ascending" if ascending else "Descending"
    return f"pageSize=100&sortBy={order}&sortDirection={direction}&search={text}".removesuffix(
        "&search="
    )


@pytest.mark.parametrize(("order", "ascending"), PLAYER_ORDERS)
@pytest.mark.parametrize("offset", some([COUNT - 150, 0, 300, COUNT * 3 // 4], 1))
def test_a_page_after_a_cursor_costs_the_same_at_any_depth(
    profiled, cursor_at, order, ascending, offset
):
    after = cursor_at(offset, order, ascending) if offset else ""
    answer, commands = profiled(f"?after={after}&{asked(order, ascending)}")
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


def scanned_keys(commands, answer):
    """Return how many keys each command scanned, but for the count, which may be cached."""
    return [c["keysExamined"] for c in commands if c["keysExamined"] < answer["Total"]]


# Among fewer players, MongoDB may choose to look up and sort what it finds.


TEXTS = ["wyn", "dric", "ashford", "moruelin of", "no such name"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("direction", "page"), some([("Descending", 2), ("Ascending", 0)], 1))
def test_a_search_reads_no_document_but_those_of_its_page(profiled, text, direction, page):
    query = f"?search={text}&page={page}&pageSize=10&sortDirection={direction}"
    answer, commands = profiled(query)
    assert all(text in player["Name"].lower() for player in answer["Values"])
    assert answer["Count"] == min(10, max(0, answer["Total"] - page * 10))
    assert sum(command["docsExamined"] for command in commands) == answer["Count"]
    for command in commands:
        assert command["keysExamined"] <= max(answer["Total"], 2 * answer["Count"]) + 1
        assert "COLLSCAN" not in command["planSummary"]


@pytest.mark.parametrize("query", ["page=0", "after="])
def test_a_search_for_a_common_text_scans_a_few_names(profiled, query):
    answer, commands = profiled(f"?search={COMMON}&{query}&pageSize=2")
    scanned = scanned_keys(commands, answer)
    assert sum(scanned) < answer["Total"]
    assert len(commands) - len(scanned) <= 1


@pytest.mark.parametrize("query", ["moruelin", "no such name", "moruelin&sortBy=level"])
def test_a_search_for_a_rare_text_reads_its_matches_alone(profiled, query):
    answer, commands = profiled(f"?search={query}")
    assert answer["Total"] < 20
    for command in commands:
        assert command["keysExamined"] <= 2 * answer["Total"] + 1
        assert command["docsExamined"] <= answer["Total"]


@pytest.mark.parametrize("key", [player_name(1234), guid])
def test_a_lookup_reads_one_document(profiled, large_app, key):
    if callable(key):
        key = service(large_app, Storage).db.players.find_one({}, ["_id"])["_id"]
    _, (find,) = profiled(f"/{key}")
    assert find["docsExamined"] == 1
    assert find["keysExamined"] == 1
    assert_indexed([find])


def test_the_online_count_is_one_index_look_up(profiled):
    answer, (count,) = profiled("/online/count")
    assert answer["onlineCount"] > 0
    assert count["docsExamined"] == 0
    assert count["keysExamined"] <= answer["onlineCount"] + 1
    assert_indexed([count])


def test_levels_are_counted_in_the_index_alone(large_app):
    db = service(large_app, Storage).db
    db.drop_collection("system.profile")
    db.command("profile", 2)
    levels = service(large_app, Players).count_by_level()
    db.command("profile", 0)
    (count,) = db["system.profile"].find({"command.aggregate": "players"})
    assert sum(levels.values()) == COUNT
    assert (count["docsExamined"], count["keysExamined"]) == (0, COUNT)


def test_the_online_list_reads_its_page(profiled):
    answer, commands = profiled("/online", "POST", {"count": 10, "page": 3})
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
    sent, client, headers = warm
    method = "POST" if body else "GET"
    url = f"/api/v1/players/{player_name(7)}{path}"
    sent.names.clear()
    response = client.open(url, method=method, json=body, headers=headers)
    assert response.status_code == 200
    assert sent.names == expected


@pytest.fixture(scope="module")
def warm(mongodb_uri, large_app):
    """A client of a worker that has served before, and what it sends to MongoDB."""
    sent = Commands()
    with pytest.MonkeyPatch.context() as patch:
        listeners = monitoring._LISTENERS._replace(command_listeners=[sent])
        patch.setattr(monitoring, "_LISTENERS", listeners)
        settings = config.load(
            {"QM_ENV": "testing"},
            MONGODB_URI=mongodb_uri,
            MONGODB_DATABASE="large",
            AUTH_CACHE_SECONDS=60.0,
            CATALOGUE_CACHE_SECONDS=3600.0,
            ACCESS_TOKEN_SECONDS=3600,
        )
        app = create_app(settings)
    client, headers = app.test_client(), factories.World(app).headers()
    give = {"itemid": ITEM, "quantity": 1}
    player = f"/api/v1/players/{player_name(7)}"
    client.post(f"{player}/items/give", json=give, headers=headers)
    for change in ("teach", "forget"):
        client.post(f"{player}/spells/{change}", json={"spellid": SPELL}, headers=headers)
    yield sent, client, headers
    service(app, Storage).close()


OBJECTS = COUNT * 2 // 5


@pytest.fixture(scope="module")
def catalogue(large_app):
    """A large catalogue: of each name there are a few, and one item in five has another type."""
    db = service(large_app, Storage).db
    made = (
        factories.make_object(
            Id=numbered_guid(number),
            Type="item" if number % 5 else "npc",
            Name=f"Thing {number // 3}",
        )
        for number in range(OBJECTS)
    )
    for _ in bulk.insert(db.objects, made, skips_known=True):
        pass
    return db


@pytest.mark.parametrize(
    ("method", "query", "most_keys"),
    [
        ("GET", "?pageSize=50", 110),
        ("GET", "?pageSize=50&search=thing+3333", 400),
        ("POST", "", 20),
    ],
)
def test_the_catalogue_is_read_by_its_indexes(large_app, catalogue, method, query, most_keys):
    client, headers = large_app.test_client(), factories.World(large_app).headers()
    path = f"/api/v1/gameobjects/item{query}"
    client.open(path, method=method, headers=headers)
    catalogue.command("profile", 0)
    catalogue.drop_collection("system.profile")
    catalogue.command("profile", 2)
    answer = client.open(path, method=method, headers=headers)
    catalogue.command("profile", 0)
    assert answer.status_code == 200
    found = list(catalogue["system.profile"].find({"ns": "large.objects", "op": "query"}))
    assert found
    for command in found:
        assert "COLLSCAN" not in command["planSummary"]
        assert command["keysExamined"] <= most_keys, command
        assert command["docsExamined"] <= 60
