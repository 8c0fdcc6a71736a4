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
from app.storage.errors import QUERY_PLAN_KILLED, explain, has_only_duplicate_keys
from app.storage.schema import migrations
from app.storage.schema.collections import _repeat, init_database
from app.storage.schema.preparation import Preparation
from tests import older_databases
from tests.applications import service
from tests.callers import bearer
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


def test_a_service_that_starts_upgrades_and_leaves_an_index_of_the_operators_alone(
    older_db, migrated_app
):
    older_databases.make(older_db, FORMER)
    older_db.players.create_index([("ClassName", 1)], name="by_class")
    service(migrated_app, Preparation).begin()
    wait_until(lambda: migrated_app.test_client().get("/readyz").status_code == 200)
    assert migrations.version_of(older_db) == migrations.CURRENT
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


def test_a_newer_database_is_refused_and_left_as_it_is(older_db, migrated_app):
    older_databases.make(older_db, FORMER)
    newer = {"$set": {"SchemaVersion": migrations.CURRENT + 1}}
    older_db.schema.update_one({"_id": "schema"}, newer)
    before = shape_of(older_db), documents_of(older_db)
    sentence = f"is at SchemaVersion {migrations.CURRENT + 1}, and this program knows none above"
    with pytest.raises(migrations.DatabaseTooNew, match=sentence):
        init_database(older_db, COLLECTIONS)
    service(migrated_app, Preparation).begin()
    client = migrated_app.test_client()
    wait_until(lambda: sentence in client.get("/readyz").json.get("Message", ""))
    assert client.get("/readyz").status_code == 503
    assert (shape_of(older_db), documents_of(older_db)) == before


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


def test_a_token_without_the_password_version_is_void(client, world, db, refresh):
    """A game or a former program may have stored one."""
    user, token, chain = world.add_user(roles=[Role.API]), guid(), guid()
    stored = {"_id": sha256(token), "Chain": chain, "UserId": user["_id"], "Credentials": 0}
    later = datetime.now(timezone.utc) + timedelta(days=1)
    stored |= {"Used": False, "ExpiresAt": later}
    db.refresh_tokens.insert_one(stored, bypass_document_validation=True)
    assert refresh(token).json["error"] == "invalid_grant"
    tokens = service(client.application, AccessTokens)
    access = tokens.issue(user["_id"], chain, int(tokens.now()))
    assert client.get("/api/v1/players", headers=bearer(access)).status_code == 401
