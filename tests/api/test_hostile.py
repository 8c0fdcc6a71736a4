"""The table of hostile requests, on a real MongoDB, whose operators many of them are about."""

from datetime import datetime, timezone

import pytest

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
from tests.hostile import FORGED, all_rows
from tests.openapi_document import OPERATIONS

# What is only counted is not looked at: refusing is what these are for.
KEPT = ["players", "users", "bags", "objects", "refresh_tokens", "actions"]
KEPT += ["batches", "batch_rows"]


@pytest.fixture(scope="module")
def app(request, mongodb_uri):
    """The application on a database of its own, with what the documented examples are about."""
    settings = config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI=mongodb_uri,
        MONGODB_DATABASE="hostile",
        ACCOUNT_FAILURES=10**6,
        ADDRESS_FAILURES=10**6,
        # Who the caller is, is looked up once: it is the same one in all of them.
        AUTH_CACHE_SECONDS=3600.0,
        LENIENT_BODIES=request.param == "lenient",
    )
    app = create_app(settings)
    storage = service(app, Storage)
    init_database(storage.db, COLLECTIONS)
    fill(storage.db, service(app, Passwords))
    yield app
    storage.client.drop_database("hostile")
    storage.close()


def fill(db, passwords):
    hashed = passwords.hash(DemoWorld.PASSWORD)
    demo = DemoWorld(100, datetime.now(timezone.utc), hashed)
    player = next(p for p in demo.players(500) if p["_id"] == examples.PLAYER_ID)
    db.players.insert_one(player)
    db.history.insert_one(make_entry(player, _id=examples.ENTRY))
    db.users.insert_one(next(u for u in demo.users() if u["_id"] == examples.USER_ID))
    db.objects.insert_many(catalogue.objects())
    db.guilds.insert_many(demo.guilds(500))
    db.approvals.insert_one(make_approval(player, make_user(), _id=examples.BATCH))
    db.actions.insert_one(make_action(_id=examples.ACTION))
    add_batch(db, examples.BATCH, player)
    db.bags.insert_one(next(bag for bag in demo.bags(500) if bag["_id"] == examples.BAG))


@pytest.fixture(scope="module")
def world(app):
    world = World(app)
    world.add_user("demo", roles=(Role.API,), Name="demo")
    return world


@pytest.fixture(scope="module")
def caller(world):
    key = {examples.KEY_ID: make_key(new_secret())}
    user = with_keys(make_user(roles=Role, Roles=["senior-support"]), **key)
    world.db.users.insert_one(user)
    return world.headers(user=user)


class Watch:
    """Tells whether the database has changed since it was last asked."""

    def __init__(self, db):
        self._db = db
        self._seen = self._hashes()

    def _hashes(self):
        return self._db.command("dbHash", collections=KEPT)["collections"]

    def sees_no_change(self):
        before, self._seen = self._seen, self._hashes()
        return self._seen == before


@pytest.fixture(scope="module")
def watch(world, caller):
    return Watch(world.db)


def send(app, caller, row):
    options = {"data": row.body, "content_type": row.type} if row.type else {}
    headers = {**caller, **row.headers}
    return app.test_client().open(row.path, method=row.method, headers=headers, **options)


def names_field(refusal, field):
    """Tell whether a refusal names a field, or a part of it, in its sentence and in its errors."""
    named = [name for name in refusal.get("Errors", ()) if f"{name}.".startswith(f"{field}.")]
    return any(f"'{name}'" in refusal["Message"] for name in named)


def faults(app, caller, row):
    """Send a hostile request, and return what is wrong with its answer."""
    answer = send(app, caller, row)
    if answer.status_code != row.status:
        return [f"{row.name}: {answer.status_code}, not {row.status}: {answer.text[:500]}"]
    is_refused = row.status >= 400
    wrong = {
        "believes a forged name": FORGED in answer.text + str(answer.headers),
        "no sentence": is_refused and not answer.json["Message"].endswith((".", "?")),
        "a long answer": is_refused and len(answer.data) >= 10_000,
        "does not name its field": row.field is not None
        and not names_field(answer.json, row.field),
        "finds another number": row.count is not None and len(answer.json["Values"]) != row.count,
    }
    return [f"{row.name}: {fault}: {answer.text[:500]}" for fault, is_so in wrong.items() if is_so]


def may_change(row):
    return row.status == 200 and row.method in ("POST", "PUT")


STEP = 12


def chosen(operation):
    """Return the rows of an operation, or in short a twelfth of them.

    Each operation begins elsewhere, so that every field still meets some values, and every value
    some fields. What only one operation takes is tried whole.
    """
    rows = [row for row in all_rows() if row.operation == operation]
    if tiers.is_everything:
        return rows
    begin = sorted(OPERATIONS).index(operation) % STEP
    own = [row for row in rows if row.name.split()[1] in ("form", "file", "doubled,")]
    return [*own, *(row for row in rows[begin::STEP] if row not in own)]


@pytest.mark.parametrize("app", ["strict"], indirect=True)
@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_hostile_requests_are_refused_in_a_sentence_or_taken_as_harmless(
    app, caller, watch, operation
):
    rows = chosen(operation)
    harmless = [row for row in rows if not may_change(row)]
    watch.sees_no_change()  # what was taken before does not matter
    found = [fault for row in harmless for fault in faults(app, caller, row)]
    if not watch.sees_no_change():
        found.append(f"one of the {len(harmless)} that must change nothing changes the database")
    for row in filter(may_change, rows):
        found += faults(app, caller, row)
    assert found == []


@pytest.mark.parametrize("app", ["lenient"], indirect=True)
def test_no_hostile_body_breaks_a_lenient_service(app, caller):
    """What is taken differs there; that it does no harm does not."""
    # The same code reads them as in the test above, which sends all of them.
    hostile = tiers.some([row for row in all_rows() if row.type], 250)[
        :: 3 if tiers.is_everything else 1
    ]
    with playing(service(app, Storage).db):
        answers = [(row, send(app, caller, row).status_code) for row in hostile]
    # Somebody whose erasure is taken has to settle.
    settling = ("eraseUser", 503)
    broken = [
        r.name for r, status in answers if status >= 500 and (r.operation, status) != settling
    ]
    assert broken == []


def test_the_table_is_as_long_as_it_says():
    rows = all_rows()
    assert len(rows) > 2900
    assert len({row.name for row in rows}) == len(rows)
    assert {row.operation for row in rows} == {*OPERATIONS}
