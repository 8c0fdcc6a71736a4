"""What db init makes of a database, on the real server."""

import re

import pytest
from pymongo.errors import WriteError

from app.core.errors import Unavailable
from app.database import COLLECTIONS
from app.storage.schema import collections
from app.storage.schema.collections import FieldTaken, init_database
from app.storage.schema.preparation import Preparation
from app.storage.schema.shapes import TEXT
from tests.collection_plans import NAMES
from tests.factories import guid, make_player, make_user
from tests.system.programs import wait_until


def test_db_init_can_be_repeated(real_db):
    before = {name: real_db[name].index_information() for name in NAMES}
    init_database(real_db, COLLECTIONS)
    init_database(real_db, COLLECTIONS)
    assert {name: real_db[name].index_information() for name in NAMES} == before


def test_a_server_that_is_too_old_is_named_by_whoever_prepares_it(
    real_db, real_storage, monkeypatch
):
    monkeypatch.setattr(collections, "OLDEST_SERVER", (99, 0))
    version = real_db.client.server_info()["version"]
    sentence = f"This is MongoDB {version}; Quartermaster needs 99.0 or newer."
    with pytest.raises(collections.UnfitServer, match=re.escape(sentence)):
        init_database(real_db, COLLECTIONS)
    preparation = Preparation(real_storage, COLLECTIONS, pause=0.0)
    preparation.begin()
    wait_until(lambda: sentence in unreadiness(preparation))
    monkeypatch.undo()
    wait_until(preparation.is_ready)


def unreadiness(preparation):
    """Return why a worker is not ready, as /readyz says it."""
    with pytest.raises(Unavailable) as refusal:
        preparation.check()
    return str(refusal.value)


def test_an_index_of_an_older_shape_is_replaced_and_no_document_is_lost(real_db):
    real_db.players.insert_one(make_player())
    real_db.players.drop_index("rank")
    real_db.players.create_index([("Level", 1)], name="rank")
    real_db.players.drop_index("last_online")
    real_db.players.create_index([("LastOnline", 1), ("NameKey", 1)], name="older_name")
    init_database(real_db, COLLECTIONS)
    keys = {name: index["key"] for name, index in real_db.players.index_information().items()}
    assert keys["rank"] == [("Level", -1), ("Exp", -1), ("NameKey", 1)]
    assert "older_name" not in keys
    assert "last_online" in keys
    assert real_db.players.count_documents({}) == 1


def test_db_init_refuses_a_new_field_that_games_have_stored_with_another_type(real_db):
    (players,) = (plan for plan in COLLECTIONS if plan.name == "players")
    number, text = (make_player(Portrait=stored) for stored in (5, "fox.png"))
    real_db.players.insert_many([number, text])
    wider = {**players.shape["properties"], "Portrait": TEXT}
    plan = players._replace(shape={**players.shape, "properties": wider})
    with pytest.raises(FieldTaken, match=f"the field Portrait in 'players'.*: {number['_id']}.$"):
        init_database(real_db, [plan])
    real_db.players.delete_one({"_id": number["_id"]})
    init_database(real_db, [plan])
    with pytest.raises(WriteError, match="failed validation"):
        real_db.players.insert_one(make_player(Portrait=5))
    init_database(real_db, COLLECTIONS)


STRAYS = [
    {"_id": "not a guid"},
    {"Level": "high"},
    {"Exp": 1.5},
    {"BaseStats": [1, 2, 3]},
    {"Online": 1},
    {"Inventory": {"first": {"ItemId": guid(), "Quantity": 1}}},
    {"Inventory": {"0": {"ItemId": guid(), "Quantity": 0}}},
    {"Inventory": {"0": {"ItemId": guid(), "Quantity": 1, "Colour": "red"}}},
    {"Inventory": {"0": {"ItemId": guid(), "Quantity": 1, "StatBuffs": [1]}}},
    {"Spells": {"0": "fireball"}},
    {"Variables": {guid(): 1.5}},
    {"NameKey": None},
]


def test_a_stray_writer_cannot_store_a_player_that_we_could_not_serve(real_db):
    for stray in STRAYS:
        with pytest.raises(WriteError):
            real_db.players.insert_one({**make_player(), **stray})


def test_names_and_addresses_are_unique_without_case(real_db):
    real_db.users.insert_one(make_user(Name="Bob", Email="bob@example.com"))
    for clash in ({"Name": "BOB"}, {"Email": "BOB@example.com"}):
        with pytest.raises(WriteError, match="duplicate"):
            real_db.users.insert_one(make_user(**clash))
    real_db.players.insert_one(make_player(Name="Straße"))
    with pytest.raises(WriteError, match="duplicate"):
        real_db.players.insert_one(make_player(Name="STRASSE"))
