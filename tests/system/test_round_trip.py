"""Export from one database and import into another yield the same documents, on real MongoDB."""

import bson
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from pymongo import MongoClient

from app.__main__ import main
from app.core.changes import BOOKKEEPING
from app.database import COLLECTIONS
from app.storage.schema.collections import init_database
from tests.factories import guid, make_bag, make_object, make_player, make_user
from tests.strategies import worlds

KINDS = ("users", "players", "bags", "objects")
FROM, TO = "round_trip_from", "round_trip_to"
# An import initializes these.
INITIALIZED = (*BOOKKEEPING, "PasswordVersion", "Reset")


@pytest.fixture(scope="module")
def client(mongodb_uri):
    """A client with two empty databases that have their validators and indexes."""
    with MongoClient(mongodb_uri, tz_aware=True) as client:
        for name in (FROM, TO):
            init_database(client[name], COLLECTIONS)
        yield client
        for name in (FROM, TO):
            client.drop_database(name)


@pytest.fixture(scope="module")
def round_trip(client, mongodb_uri, tmp_path_factory):
    """Export documents, import them into the other database, export again; yield both files."""
    folder = tmp_path_factory.mktemp("files")

    def quartermaster(database, *arguments):
        env = {"QM_ENV": "testing", "QM_MONGODB_URI": mongodb_uri, "QM_MONGODB_DATABASE": database}
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=env)
        assert result.exit_code == 0, result.output

    def run(documents):
        for database in (FROM, TO):
            for kind in KINDS:
                client[database][kind].delete_many({})
        for kind in KINDS:
            if documents.get(kind):
                client[FROM][kind].insert_many(documents[kind])
            quartermaster(FROM, "export", kind, folder / kind)
            quartermaster(TO, "import", kind, folder / kind)
            quartermaster(TO, "export", kind, folder / f"{kind}.again")
            yield (folder / kind).read_bytes(), (folder / f"{kind}.again").read_bytes()

    return run


def stored(db, kind):
    """Return the BSON of all documents without the fields that an import initializes."""
    return [
        bson.encode(_normalized({k: v for k, v in document.items() if k not in INITIALIZED}))
        for document in db[kind].find(sort=[("_id", 1)])
    ]


def _normalized(value):
    """Sort the names of maps and drop the width of integers: neither carries meaning."""
    if isinstance(value, dict):
        return {name: _normalized(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_normalized(inner) for inner in value]
    return int(value) if isinstance(value, bson.Int64) else value


# tests/domain/test_records.py finds and shrinks counterexamples; here each example takes seconds.
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(worlds())
def assert_the_same(client, round_trip, documents):
    for file, again in round_trip(documents):
        assert again == file
    for kind in KINDS:
        assert stored(client[TO], kind) == stored(client[FROM], kind)
        assert len(stored(client[TO], kind)) == len(documents.get(kind, []))


@pytest.mark.everything
def test_any_world_is_the_same_in_another_database(client, round_trip):
    assert_the_same(client, round_trip)


def test_a_world_that_was_played_in_is_the_same_in_another_database(client, round_trip):
    """With slots out of order, notes and a reset code, as a game and staff leave them."""
    bag = make_bag({"7": slot(), "1": slot()}, size=9, Version=70)
    inventory = {"30": slot(), "2": slot(BagId=bag["_id"]), "11": slot(StatBuffs=[-5, 0, 0, 0, 9])}
    player = make_player(Name="Ægir 👑", Inventory=inventory, Variables={guid(): True, guid(): 1})
    note = {"Text": "two\nlines 👑", "Name": "Ünal", "UserId": guid(), "At": player["CreationDate"]}
    player["Notes"] = {guid(): note, guid(): {**note, "IsHidden": True}}
    reset = {"Code": "ABCDEFGH", "ExpiresAt": player["CreationDate"], "Failures": 2}
    user = make_user(Name="Ünal", Email="u@example.com", Reset=reset, PasswordVersion=3, Version=9)
    user["Notes"] = {guid(): {**note, "IsHidden": False}}
    documents = {
        "users": [user],
        "players": [{**player, "Version": 3}],
        "bags": [bag],
        "objects": [
            make_object(Name="", StackLimit=20.0, At=player["CreationDate"], Own={"a": [1, None]}),
            make_object(Type="servervariable", Name="Schalter", Value=True, Version=4),
        ],
    }
    files = [file for file, again in round_trip(documents) if file == again]
    assert len(files) == len(KINDS)
    assert b"ABCDEFGH" not in b"".join(files)
    for kind in KINDS:
        assert stored(client[TO], kind) == stored(client[FROM], kind)


def slot(**more):
    return {"ItemId": guid(), "Quantity": 2**31 % 1_000_000, **more}
