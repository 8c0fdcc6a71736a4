"""Reads of one document by a command are those of the driver's find_one."""

from datetime import datetime, timezone

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from pymongo.database import Database
from pymongo.errors import AutoReconnect, NotPrimaryError, ServerSelectionTimeoutError

from app.storage.commands import read_one
from tests.factories import NOW

DOCUMENT = {
    "_id": "one",
    "At": NOW,
    "Far": datetime(9999, 12, 31, tzinfo=timezone.utc),
    "Count": Int64(2**60),
    "Level": 3,
    "Odd": [Decimal128("1.5"), ObjectId(), Binary(b"x"), None, float("inf"), {"a": {"b": "ß"}}],
}
PROJECTIONS = [None, ["At"], ("At", "Missing"), {"Odd": 0}, {"Odd.a": 1}, {}, []]


@pytest.fixture
def collection(real_storage):
    found = real_storage.db["reads"]
    found.insert_one(DOCUMENT)
    yield found
    found.drop()


@pytest.mark.parametrize("fields", PROJECTIONS)
@pytest.mark.parametrize("where", [{"_id": "one"}, {"Level": {"$gt": 1}}, {"_id": "none"}])
def test_a_command_reads_what_find_one_reads(collection, real_storage, where, fields):
    wanted = collection.find_one(where, fields)
    assert repr(read_one(collection, where, fields)) == repr(wanted)
    inside = real_storage.transactions.run(lambda: read_one(collection, where, fields))
    assert repr(inside) == repr(wanted)


@pytest.mark.parametrize("error", [AutoReconnect("away"), NotPrimaryError("stepped down")])
def test_a_read_that_failed_is_made_again(collection, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Database, "command", fail)
    assert read_one(collection, {"_id": "one"}, ["Level"]) == {"_id": "one", "Level": 3}


def test_a_read_whose_time_is_over_is_not_made_again(collection, monkeypatch):
    def fail(*_, **__):
        raise ServerSelectionTimeoutError("nobody there")

    monkeypatch.setattr(Database, "command", fail)
    with pytest.raises(ServerSelectionTimeoutError):
        read_one(collection, {"_id": "one"})
