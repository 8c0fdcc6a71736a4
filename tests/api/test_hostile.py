"""Wrong requests are refused in a sentence and change nothing, whoever makes them up.

schemathesis makes most of them from the OpenAPI document, and judges the answers by it; the tables
have what it cannot think of. ``make fuzz`` runs the same with more examples.
"""

import gzip
import json
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings

import config
from app import create_app
from app.auth.api_keys import new_secret
from app.core.permissions import Role
from app.database import COLLECTIONS
from app.http import examples
from app.maintenance.demo import catalogue
from app.maintenance.demo.world import World as DemoWorld
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from app.users.passwords import Passwords
from tests import tiers
from tests.applications import service
from tests.factories import (
    World,
    add_batch,
    make_approval,
    make_entry,
    make_key,
    make_user,
    with_keys,
)
from tests.game import make_action, playing
from tests.openapi_document import OPERATIONS, SPEC

FORGED = "evil.example"
# What refusals only count, such as attempts, may change, and the game takes actions at any time.
KEPT = ["players", "users", "bags", "objects", "refresh_tokens", "batches", "batch_rows"]


@pytest.fixture(scope="module")
def app(request, mongodb_uri):
    """The application on a database of its own, with what the documented examples are about."""
    settings = config.load(
        {"QM_ENV": "testing"},
        **{"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "hostile"},
        **{"ACCOUNT_FAILURES": 10**6, "ADDRESS_FAILURES": 10**6},
        # Who the caller is, is looked up once: it is the same one in all of them.
        **{"AUTH_CACHE_SECONDS": 3600.0, "ACCESS_TOKEN_SECONDS": 86400},
        LENIENT_BODIES=getattr(request, "param", "strict") == "lenient",
    )
    app = create_app(settings)
    storage = service(app, Storage)
    init_database(storage.db, COLLECTIONS)
    fill(storage.db, service(app, Passwords).hash(DemoWorld.PASSWORD))
    with playing(storage.db):
        yield app
    storage.client.drop_database("hostile")
    storage.close()


def fill(db, hashed):
    demo = DemoWorld(100, datetime.now(timezone.utc), hashed)
    player = next(one for one in demo.players(500) if one["_id"] == examples.PLAYER_ID)
    db.players.insert_one(player)
    db.history.insert_one(make_entry(player, _id=examples.ENTRY))
    db.users.insert_one(next(one for one in demo.users() if one["_id"] == examples.USER_ID))
    db.users.insert_one(make_user(hashed, roles=(Role.API,), Name="demo"))
    db.bags.insert_one(next(one for one in demo.bags(500) if one["_id"] == examples.BAG))
    db.objects.insert_many(catalogue.objects())
    db.guilds.insert_many(demo.guilds(500))
    db.approvals.insert_one(make_approval(player, make_user(), _id=examples.BATCH))
    db.actions.insert_one(make_action(_id=examples.ACTION))
    add_batch(db, examples.BATCH, player)


@pytest.fixture(scope="module")
def caller(app):
    """The headers of somebody who may do everything."""
    world = World(app)
    key = {examples.KEY_ID: make_key(new_secret())}
    user = with_keys(make_user(roles=Role, Roles=["senior-support"]), **key)
    world.db.users.insert_one(user)
    return world.headers(user=user)


@pytest.fixture
def check(app):
    """Return a check of answers: a refusal is a short sentence, and has changed nothing."""
    db = service(app, Storage).db

    def stored():
        return db.command("dbHash", collections=KEPT)["collections"]

    before = stored()

    def check(status, text, about):
        nonlocal before
        # An erasure that is asked for twice may have to wait.
        assert status < 500 or (status == 503 and "eras" in text.lower()), (about, text)
        assert FORGED not in text, about
        if status >= 400:
            assert json.loads(text)["Message"].endswith((".", "?")), (about, text)
            assert len(text) < 10_000, about
            assert stored() == before, (about, text)
        else:
            before = stored()

    return check


@pytest.fixture
def send(app, caller, check):
    """Return a function that sends a request, and checks and returns its answer."""

    def send(method, path, data=None, content_type="application/json", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {} if data is None else {"data": data, "content_type": content_type}
        ask = {"method": method.upper(), "headers": {**caller, **named}, **body}
        answer = app.test_client().open(path, **ask)
        check(answer.status_code, answer.text, (method, path, str(data)[:300], headers))
        return answer

    return send


@pytest.fixture(scope="module")
def strategies(app):
    """Return a maker of strategies, for requests of an operation that are right or wrong."""
    # To import it takes seconds, which every process that collects tests would need.
    import schemathesis
    from schemathesis.config import SchemathesisConfig
    from schemathesis.generation import GenerationMode

    settings = SchemathesisConfig.from_path(Path(__file__).with_name("schemathesis.toml"))
    schema = schemathesis.openapi.from_wsgi("/api/openapi.json", app, config=settings)
    operations = [result.ok() for result in schema.get_all_operations()]
    described = {one.definition.raw["operationId"]: one for one in operations}
    return lambda name, mode: described[name].as_strategy(generation_mode=GenerationMode(mode))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mode", ["negative", "positive"])
def test_answers_are_those_of_the_document(
    caller, check, strategies, pytestconfig, operation, mode
):
    few = 20 if tiers.is_everything else 2
    many = pytestconfig.getoption("--examples")

    @hypothesis_settings(
        max_examples=many or few,
        derandomize=not many,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategies(operation, mode))
    def ask(case):
        answer = case.call(headers=caller)
        check(answer.status_code, answer.text, case.as_curl_command())
        case.validate_response(answer, headers=caller)

    ask()


# Operators, paths of fields, injections, and letters that take long to compare.
TEXTS = [
    *("$ne", "$where", "a.b", "a.$.b", "__proto__", "a\0b", "\0", "' || '1'=='1", "{$ne:1}"),
    *("\r\nBcc: all@example.com", "\x1b[2J", "\u202e\u2066", "{{7*7}}", "x" * 100_000),
    # Joined to their letter by somebody who is not careful, these take seconds.
    "a" + "\u0301\u0323" * 50_000,
]
# As they stand in a body, JSON or not.
VALUES = [
    *('{"$ne": null}', '{"$gt": ""}', '{"$where": "sleep(9999)"}', '{"$regex": "^"}', "null"),
    *('["$ne"]', '{"__proto__": {"Api": true}}', '{"a.b": 1}', '"\\ud800"', "1e999", "1.5", "NaN"),
    *("-Infinity", "0x10", "01", "9" * 400, "-9223372036854775809", "9223372036854775808"),
    *map(json.dumps, TEXTS),
]
UNKNOWN = ["$where", "$set", "a.b", "a\0", "__proto__", "", "_id", "Version", "PasswordHash"]
# As they stand in a path; the last are no UTF-8, or longer than any name.
SEGMENTS = [
    *(quote(text, safe="") for text in TEXTS if len(text) < 100),
    *('{"$ne":null}', "[$ne]", "..", ".", "%2524ne", "%EF%BC%84ne", "-1", "9" * 5000),
    *("%FF", "%C0%AE%C0%AE", "%ED%A0%80", "x" * 5000),
]
FILTERS = ["$ne", "", "%00", "1e2", "-1", "%D9%A1", ".*.*", "(((((", "[" * 4_000, "%FF.%FF"]


def with_body():
    """Yield each operation that has a body: its name, method, path, example and fields."""
    for name, (path, method, operation) in OPERATIONS.items():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            schema = content["schema"]["$ref"].rpartition("/")[2]
            fields = SPEC["components"]["schemas"][schema]["properties"]
            yield name, method, path_of(path, operation), content["example"], fields
            break


def path_of(path, operation, **parts):
    known = {p["name"]: p["example"] for p in operation["parameters"] if p["in"] == "path"}
    return path.format(**{**known, **parts})


def few(values, number, count=2):
    """Return all of the values, or in short a few, others for each number."""
    return values if tiers.is_everything else [*values, *values][number % len(values) :][:count]


@pytest.mark.parametrize("app", ["strict", "lenient"], indirect=True)
def test_no_value_in_a_body_does_harm(send, app):
    number = 0
    for name, method, path, example, fields in with_body():
        for field in fields:
            number += 2
            for value in few(VALUES, number):
                body = json.dumps({**example, field: "@@"}).replace('"@@"', value)
                send(method, path, body)
        for key in few(UNKNOWN, number, 1) if name not in ("createToken", "savePlayer") else ():
            answer = send(method, path, json.dumps({**example, key: {"$ne": 1}}))
            # A lenient service ignores what it does not know.
            assert answer.status_code == 400 or app.config["LENIENT_BODIES"], (name, key)
            assert (
                answer.status_code != 400
                or f"'{key}'" in answer.json["Message"]
                or not key.isalpha()
            ), answer.text


def test_no_text_in_a_path_or_a_query_does_harm(send):
    for number, (path, method, operation) in enumerate(OPERATIONS.values()):
        for parameter in operation["parameters"]:
            name, where = parameter["name"], parameter["in"]
            for text in few(SEGMENTS, number) if where == "path" else ():
                answer = send(method, path_of(path, operation, **{name: text}))
                assert answer.status_code in (400, 404, 405), (path, text)
            for text in few(FILTERS, number, 2) if where == "query" and method == "get" else ():
                at = f"{path_of(path, operation)}?{name}"
                send(method, f"{at}={text}")
                answer = send(method, f"{at}[$ne]={text}")
                assert answer.status_code in (200, 404), (at, answer.text)


def test_no_header_makes_another_request_of_it(send):
    path = f"/api/v1/players/{examples.PLAYER}"
    for name in ("X_HTTP_Method_Override", "X_HTTP_Method", "X_Method_Override"):
        assert send("GET", f"{path}?_method=DELETE", **{name: "DELETE"}).status_code == 200
        assert send("PATCH", path, **{name: "DELETE"}).status_code == 405
    for name in ("Host", "X_Forwarded_Host", "X_Host", "X_Forwarded_Server", "X_Original_URL"):
        for at in (path, "/api/docs", "/", "/api/openapi.json"):
            answer = send("GET", at, **{name: FORGED, "Accept": "text/html"})
            assert FORGED not in str(answer.headers), (at, name)


def deep(begin):
    return begin * 100_000


GIVE, TOKEN = f"/api/v1/players/{examples.PLAYER}/items/give", "/api/oauth/token"
VARIABLE = f"/api/v1/players/{examples.PLAYER}/variables/{examples.VARIABLE}"
FORM, CSV = "application/x-www-form-urlencoded", "text/csv"
HEAD = b"Player,Operation,ItemId,Quantity\n"
ROW = HEAD + f"{examples.PLAYER},give,{examples.ITEM},1\n".encode()
# Many of a kind that are answered alike: where to, of what type, the status, and the bodies.
BODIES = [
    (GIVE, "application/json", 400, [deep(b"["), deep(b'{"a":'), b'{"a":"\xff"}', b"NaN", b"null"]),
    (GIVE, "application/json", 400, [b"\xff\xfe{\0}\0", b"{}{}", b"{'a':1}", b"\xef\xbb\xbf{}"]),
    (GIVE, "application/json", 400, [b'"$ne"', b"[]", b"\0", b" ", b"\x0b", b'{"a":1']),
    (GIVE, "application/json", 400, [gzip.compress(b"{}", mtime=0)]),
    *(
        (GIVE, kind, 415, [b"{}"])
        for kind in ("text/plain", "text/xml", "json", "application/jsonp")
    ),
    # The last one counts, as most readers of JSON have it.
    (VARIABLE, "application/json", 200, [b'{"value": "$ne", "value": 294}']),
    (VARIABLE, "application/json", 400, [b'{"value": 294, "value": "$ne"}']),
    (TOKEN, FORM, 400, [b"grant_type[$ne]=x&username[$ne]=x", b"&" * 500, b"a=1&" * 200, b"%"]),
    (TOKEN, FORM, 400, [b"grant_type=password&username[$gt]=&password[$gt]=", b"\xff"]),
    (TOKEN, FORM, 400, [b"grant_type=password&username=demo&username=demo&password=x"]),
    (
        "/api/v1/batches",
        CSV,
        400,
        [b"", b"\n\n", HEAD, HEAD + b",,,\n", b"\xff" + ROW, ROW + b"\xff"],
    ),
    ("/api/v1/batches", CSV, 400, [HEAD + b'"a', b'"Pla\nyer",Operation\n', b"[" * 2**18]),
    ("/api/v1/batches", CSV, 400, [b"Player,player,Operation\na,b,give\n", b"\xff\xfeP\0"]),
    # What is wrong with one row alone does not refuse the others.
    ("/api/v1/batches", CSV, 200, [HEAD + b"a\0b,give,$ne,1\n", ROW + b"\n,,,\n", b"$set\n1\n"]),
]
HEADERS = {
    "Idempotency-Key": {"$ne": 200, '{"$ne":1}': 200, "é": 400, "x" * 256: 400, "": 400},
    "X-Reason": {"$ne": 200, '{"$ne":1}': 200, "é": 400, "x" * 501: 400, "%00": 400, "%": 400},
}
SEARCHES = {**dict.fromkeys((".*.*", "^...", "[a-z]{3}", "%7C%7C%7C", "$where"), 200)}
SEARCHES |= dict.fromkeys(("", "ab", "a%00b", "%1B[2J", "[" * 256), 400)


def test_odd_bodies_headers_and_searches_are_read_as_they_should_be(send):
    for path, kind, status, bodies in BODIES:
        for body in bodies:
            assert send("POST", path, body, kind).status_code == status, (path, body[:100])
    gift = json.dumps({"itemid": examples.ITEM, "quantity": 1})
    for name, values in HEADERS.items():
        for value, status in values.items():
            assert send("POST", GIVE, gift, **{name: value}).status_code == status, (name, value)
    for search, status in SEARCHES.items():
        answer = send("GET", f"/api/v1/players?search={search}")
        assert (answer.status_code, answer.json.get("Values", [])) == (status, []), search
