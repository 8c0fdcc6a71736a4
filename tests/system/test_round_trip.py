"""Export from one database and import into another yield the same documents, on real MongoDB."""

import bson
from click.testing import CliRunner
from pymongo import MongoClient

from app.__main__ import main
from app.core.changes import BOOKKEEPING
from app.database import COLLECTIONS
from app.storage.schema.collections import init_database
from tests.factories import NOW, guid, make_bag, make_object, make_player, make_user

# An import initializes these.
INITIALIZED = (*BOOKKEEPING, "PasswordVersion", "Reset")


def slot(**more):
    return {"ItemId": guid(), "Quantity": 2**31 % 1_000_000, **more}


def played_world():
    """Return documents with slots out of order, notes and a reset code, as a game and staff do."""
    bag = make_bag({"7": slot(), "1": slot()}, size=9, Version=70)
    inventory = {"30": slot(), "2": slot(BagId=bag["_id"]), "11": slot(StatBuffs=[-5, 0, 0, 0, 9])}
    note = {"Text": "two\nlines 👑", "Name": "Ünal", "UserId": guid(), "At": NOW}
    noted = {"Notes": {guid(): {**note, "IsHidden": True}}, "Version": 3}
    player = make_player(Name="Ægir 👑", Inventory=inventory, Variables={guid(): True, guid(): 1})
    reset = {"Code": "ABCDEFGH", "ExpiresAt": NOW, "Failures": 2}
    user = make_user(Name="Ünal", Email="u@example.com", Reset=reset, PasswordVersion=3)
    switch = make_object(Type="servervariable", Name="Schalter", Value=True, Version=4)
    odd = make_object(Name="", StackLimit=20.0, At=NOW, Own={"a": [1, None]})
    documents = [user | noted], [player | noted], [bag], [odd, switch]
    return dict(zip(("users", "players", "bags", "objects"), documents, strict=True))


def stored(db, kind):
    """Return the BSON of all documents without the fields that an import initializes."""
    return [
        bson.encode(normalized({k: v for k, v in document.items() if k not in INITIALIZED}))
        for document in db[kind].find(sort=[("_id", 1)])
    ]


def normalized(value):
    """Sort the names of maps and drop the width of integers: neither carries meaning."""
    if isinstance(value, dict):
        return {name: normalized(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [normalized(inner) for inner in value]
    return int(value) if isinstance(value, bson.Int64) else value


def test_a_world_that_was_played_in_is_the_same_in_another_database(mongodb_uri, tmp_path):
    def quartermaster(db, *arguments):
        env = {"QM_ENV": "testing", "QM_MONGODB_URI": mongodb_uri, "QM_MONGODB_DATABASE": db.name}
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=env)
        assert result.exit_code == 0, result.output

    with MongoClient(mongodb_uri, tz_aware=True) as client:
        before, after = client.round_trip_from, client.round_trip_to
        for db in (before, after):
            init_database(db, COLLECTIONS)
        try:
            for kind, documents in played_world().items():
                before[kind].insert_many(documents)
                first, again = tmp_path / kind, tmp_path / f"{kind}.again"
                quartermaster(before, "export", kind, first)
                quartermaster(after, "import", kind, first)
                quartermaster(after, "export", kind, again)
                assert first.read_bytes() == again.read_bytes()
                assert b"ABCDEFGH" not in first.read_bytes()
                assert stored(after, kind) == stored(before, kind)
        finally:
            for db in (before, after):
                client.drop_database(db)
