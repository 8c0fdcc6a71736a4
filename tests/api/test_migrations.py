"""Databases of former versions are brought up to date, and none of a newer one is touched."""

import hashlib
import json
from datetime import datetime, timedelta, timezone

import pytest
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

import config
from app.auth.tokens import AccessTokens
from app.core.errors import Conflict
from app.core.permissions import Role
from app.database import COLLECTIONS
from app.storage import bulk
from app.storage.client import Storage
from app.storage.errors import QUERY_PLAN_KILLED, explain, has_only_duplicate_keys
from app.storage.schema import migrations
from app.storage.schema.collections import _repeat, init_database
from app.storage.schema.preparation import Preparation
from tests import older_databases
from tests.applications import service
from tests.collection_plans import NAMES, PLANS
from tests.factories import guid, sha256
from tests.system.programs import wait_until

# The SchemaVersion, and the digest of all validators and indexes, but for optional fields. Where
# the second changes, a step belongs to the end of migrations.STEPS, and both numbers change here.
PLANNED = (36, "66503f4f0e34")

FORMER = "release_0_3_0"


@pytest.fixture
def older_db(real_storage):
    """A database of its own, which does not outlive the test."""
    yield real_storage.client["older"]
    real_storage.client.drop_database("older")


@pytest.fixture
def migrated_app(older_db, real_storage, make_app):
    """The application on that database, once it is ready."""
    settings = config.load(
        {"QM_ENV": "testing"}, MONGODB_URI=real_storage.uri, MONGODB_DATABASE=older_db.name
    )
    return make_app(settings)


def shape_of(db):
    """Return what a database has beside documents."""
    return {
        name: (db[name].index_information(), db[name].options())
        for name in sorted(db.list_collection_names())
    }


def documents_of(db):
    return {name: {d["_id"]: d for d in db[name].find()} for name in NAMES}


@pytest.mark.parametrize("name", older_databases.NAMES)
def test_the_service_works_on_what_was_a_former_database(older_db, migrated_app, name):
    before = older_databases.make(older_db, name)
    service(migrated_app, Preparation).begin()
    client = migrated_app.test_client()
    wait_until(lambda: client.get("/readyz").status_code == 200)
    body = {"grant_type": "password", "username": "Clerk", "password": sha256("secret")}
    token = client.post("/api/oauth/token", json=body).json["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
    player = before["players"][0]
    path = f"/api/v1/players/{player['Name']}"
    found = client.get(
        "/api/v1/players", query_string={"search": player["NameKey"][1:4]}, headers=headers
    )
    assert player["_id"] in [record["Id"] for record in found.json["Values"]]
    gift = {"itemid": guid(), "quantity": 1}
    first, again = (client.post(f"{path}/items/give", json=gift, headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert "Idempotency-Replayed" in again.headers


def test_an_index_of_the_operators_own_is_left_alone(older_db):
    older_databases.make(older_db, FORMER)
    older_db.players.create_index([("ClassName", 1)], name="by_class")
    init_database(older_db, COLLECTIONS)
    assert "by_class" in older_db.players.index_information()


def test_a_step_whose_index_another_process_dropped_is_taken_again(older_db):
    killed = []

    def read_while_another_drops_the_index(db):
        """Read in two batches, between which the index of the first try is dropped."""
        cursor = db.others.find().batch_size(1)
        if "by_level" in db.others.index_information():
            cursor.hint("by_level")
        next(cursor)
        if "by_level" in db.others.index_information():
            db.others.drop_index("by_level")
        try:
            list(cursor)
        except OperationFailure as error:
            killed.append(error)
            raise

    older_db.others.insert_many([{"Level": number} for number in range(3)])
    older_db.others.create_index("Level", name="by_level")
    _repeat(migrations.migrate, older_db, [read_while_another_drops_the_index])
    assert [error.code for error in killed] == [QUERY_PLAN_KILLED]
    assert explain(killed[0])  # A request that meets it is told to try again.
    assert migrations.version_of(older_db) == migrations.TRANSACTIONS


def test_whoever_was_slower_takes_no_version_back(older_db):
    later = {"$set": {"SchemaVersion": migrations.CURRENT + 1}}
    overtaken = [lambda db: db.schema.update_one({"_id": "schema"}, later, upsert=True)]
    migrations.migrate(older_db, overtaken)
    assert migrations.version_of(older_db) == migrations.CURRENT + 1


@pytest.fixture
def newer_db(older_db):
    """A database that a later program has been at, and that it has shaped otherwise."""
    older_databases.make(older_db, FORMER)
    newer = {"$set": {"SchemaVersion": migrations.CURRENT + 1}}
    older_db.schema.update_one({"_id": "schema"}, newer)
    return older_db


SENTENCE = f"is at SchemaVersion {migrations.CURRENT + 1}, and this program knows none above"


def test_a_newer_database_is_refused_and_left_as_it_is(newer_db):
    before = shape_of(newer_db), documents_of(newer_db)
    with pytest.raises(migrations.DatabaseTooNew, match=SENTENCE):
        init_database(newer_db, COLLECTIONS)
    assert (shape_of(newer_db), documents_of(newer_db)) == before


def test_a_worker_on_a_newer_database_is_not_ready_and_says_why(newer_db, migrated_app):
    service(migrated_app, Preparation).begin()
    client = migrated_app.test_client()
    wait_until(lambda: SENTENCE in client.get("/readyz").json.get("Message", ""))
    assert client.get("/readyz").status_code == 503
    newer_db.schema.delete_many({})
    wait_until(lambda: client.get("/readyz").status_code == 200)


def test_what_is_asked_of_a_database_changes_with_its_version():
    plans = {}
    for name, plan in PLANS.items():
        shapes = {field: plan.shape["properties"][field] for field in plan.shape["required"]}
        plans[name] = [{**plan.shape, "properties": shapes}, [i.document for i in plan.indexes]]
    digest = hashlib.sha256(json.dumps(plans, sort_keys=True).encode()).hexdigest()
    assert (migrations.CURRENT, digest[:12]) == PLANNED


@pytest.mark.parametrize(
    ("codes", "unconfirmed", "is_fine"),
    [([11000], [], True), ([11000, 121], [], False), ([], [{"code": 64}], False)],
)
def test_a_write_counts_as_made_only_where_a_majority_has_it(codes, unconfirmed, is_fine):
    faults = [{"code": code} for code in codes]
    error = BulkWriteError({"writeErrors": faults, "writeConcernErrors": unconfirmed})
    assert has_only_duplicate_keys(error) is is_fine


def test_an_import_that_no_majority_confirms_says_so(real_db, monkeypatch):
    def unconfirmed(*_, **__):
        late = {"code": 64, "errmsg": "waiting for replication timed out"}
        raise BulkWriteError({"writeErrors": [], "writeConcernErrors": [late]})

    monkeypatch.setattr(Collection, "insert_many", unconfirmed)
    with pytest.raises(Conflict, match="waiting for replication timed out"):
        list(bulk.insert(real_db.players, [{}]))


def test_a_token_of_a_program_before_the_password_version_had_its_name_is_void(app, world, db):
    """While a release is replaced, the former program may still store Credentials."""
    user = world.add_user(roles=[Role.API])
    token = guid()
    hashed = hashlib.sha256(token.encode()).hexdigest()
    stored = {"_id": hashed, "Chain": guid(), "UserId": user["_id"], "Credentials": 0}
    later = datetime.now(timezone.utc) + timedelta(days=1)
    bypass = {} if service(app, Storage).is_mock else {"bypass_document_validation": True}
    db.refresh_tokens.insert_one({**stored, "Used": False, "ExpiresAt": later}, **bypass)
    body = {"grant_type": "refresh_token", "refresh_token": token}
    answer = app.test_client().post("/api/oauth/token", json=body)
    assert (answer.status_code, answer.json["error"]) == (400, "invalid_grant")
    tokens = service(app, AccessTokens)
    access = tokens.issue(user["_id"], stored["Chain"], int(tokens.now()))
    headers = {"Authorization": f"Bearer {access}"}
    assert app.test_client().get("/api/v1/players", headers=headers).status_code == 401
