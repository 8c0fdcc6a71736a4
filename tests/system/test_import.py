"""Import and export on the real MongoDB: beside other writers, killed in the middle, and damaged.

What they print otherwise: transcripts/import.txt. Any document: tests/domain/test_records.py.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from app.core.errors import Busy
from app.players.items.domain import Limits, give
from app.storage import bulk
from tests.changes import change, deaths, meant
from tests.factories import (
    NOW,
    guid,
    make_factor,
    make_key,
    make_player,
    make_user,
    numbered_guid,
    sha256,
    with_keys,
)

ITEM = numbered_guid(1)


def player(**overrides):
    return {"Id": guid(), "Name": f"Player {guid()[:6]}", "UserId": guid(), **overrides}


def user(**overrides):
    name = f"user{guid()[:8]}"
    return {"Id": guid(), "Name": name, "Email": f"{name}@example.com", **overrides}


@pytest.fixture
def import_(quartermaster):
    """Import records, and return what the command makes of them."""

    def import_(kind, *records):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        return quartermaster("import", kind, "-", stdin=lines)

    return import_


@pytest.fixture
def give_to(real_storage):
    """Give two items as the service does."""
    rule = partial(give, itemid=ITEM, quantity=2, limits=Limits(35, 100, 1000))
    reads = ("Inventory", "Bank")
    return lambda id_, *key: change(real_storage, {"_id": id_}, reads, rule, meant("give", *key))


def history_of(db):
    """Return all entries, the oldest first."""
    return list(db.history.find(sort=[("At", 1), ("_id", 1)]))


def overtaken(patch, *writes):
    """Let somebody else write after an import has read the stored documents."""
    left, real = iter(writes), bulk.Replacer._complete

    def late(*arguments):
        if write := next(left, None):
            with ThreadPoolExecutor(1) as other:
                other.submit(write).result()
        return real(*arguments)

    patch.setattr(bulk.Replacer, "_complete", late)


def test_a_record_that_mongodb_cannot_store_is_refused(import_, real_db):
    refused = import_("players", player(), player(Diary="x" * 17_000_000))
    assert refused.exit_code == 1
    assert "Line 2: the record is too large" in refused.stderr
    assert real_db.players.count_documents({}) == 0


def test_an_import_leaves_what_a_file_does_not_have(quartermaster, import_, real_db):
    """How somebody signs in, and what staff may do."""
    factor = make_factor(codes=["AAAA-BBBB-CCCC-DDDD"])
    linked = {"Issuer": "https://login.example.com", "Subject": "4711"}
    account = {
        **with_keys(make_user("$argon2id$x", Name="Ann"), **{guid(): make_key("qm_secret")}),
        **{"Roles": ["viewer"], "GroupRoles": ["support"], "IsDisabled": True},
        **{"SecondFactor": factor, "OpenId": linked, "LastSignInAt": NOW},
    }
    real_db.users.insert_one(account)
    before, exported = real_db.users.find_one(), quartermaster("export", "users").stdout
    for secret in ("4711", "RecoveryCodes", *factor["RecoveryCodes"], *account["KeyDigests"]):
        assert secret not in exported
    assert import_("users", {**json.loads(exported), "IsMuted": True}).exit_code == 0
    after = real_db.users.find_one()
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed == {"IsMuted", "Version", "PasswordVersion"}


def test_a_key_of_a_change_is_remembered_beyond_an_import(import_, real_db, give_to):
    record = player()
    import_("players", record)
    give_to(record["Id"], "key-1", "f")
    import_("players", {**record, "Level": 4})
    first, gift, second = history_of(real_db)
    assert [entry["Version"] - first["Version"] for entry in (gift, second)] == [1, 2]
    after = real_db.players.find_one()
    assert (after["Version"], after["ChangedAt"]) == (second["Version"], second["At"])
    assert give_to(record["Id"], "key-1", "f").replayed


def test_an_import_loses_no_change_that_is_made_beside_it(import_, real_db, monkeypatch, give_to):
    record = player(Level=3)
    import_("players", record)
    overtaken(monkeypatch, *[partial(give_to, record["Id"])] * 2)
    assert import_("players", {**record, "Level": 9}).exit_code == 0
    found = history_of(real_db)
    assert [entry["Operation"] for entry in found] == ["import", "give", "give", "import"]
    after = real_db.players.find_one({"_id": record["Id"]})
    # The import comes last, and tells what it has replaced.
    assert (after["Level"], after["Inventory"]) == (9, {})
    paths = {change["Path"]: change["Before"] for change in found[-1]["Changes"]}
    assert paths["Inventory.0"]["Quantity"] == 4


@pytest.mark.parametrize("kind", ["players", "users"])
def test_an_import_that_is_killed_can_be_repeated(import_, real_db, monkeypatch, kind):
    monkeypatch.setattr(bulk, "PORTION", 3)
    made = [player() if kind == "players" else user(Password=sha256("pw")) for _ in range(8)]
    import_(kind, *made[:4])
    renamed = [{**one, "Name": f"{one['Name']}x"} for one in made]
    before = 4
    for number in deaths(lambda: import_(kind, *renamed)):
        stored = real_db[kind].distinct("_id", {"Name": {"$regex": "x$"}})
        # Each document that was written has its entry, and the other way round.
        imported = real_db.history.distinct("Subject.Id", {"Subject.Name": {"$regex": "x$"}})
        assert sorted(stored) == sorted(imported), f"died at command {number}"
        count = real_db.history.count_documents({})
        assert count - before in (0, 3)
        before = count
    assert number > 2
    after, entries = list(real_db[kind].find()), history_of(real_db)
    assert len(entries) == 4 + 8
    assert import_(kind, *renamed).exit_code == 0
    assert (list(real_db[kind].find()), history_of(real_db)) == (after, entries)


def test_a_name_that_is_taken_meanwhile_is_a_sentence(import_, real_db, monkeypatch):
    monkeypatch.setattr(bulk, "PORTION", 3)
    records = [player(Name=f"Somebody {n}") for n in range(5)]
    import_("players", *records[3:])
    overtaken(monkeypatch, partial(real_db.players.insert_one, make_player(Name="somebody 4x")))
    changed = [{**record, "Level": 9} for record in records]
    changed[4]["Name"] = "Somebody 4x"
    refused = import_("players", *changed)
    assert refused.exit_code == 1
    assert "Error: Not all players could be written: E11000 duplicate" in refused.stderr
    # The first portion is written, and the second one not at all.
    assert real_db.players.count_documents({"Level": 9}) == 3
    assert real_db.history.count_documents({}) == 2 + 3


@pytest.mark.parametrize("is_owner", [False, True])
def test_nobody_is_imported_who_is_erased_meanwhile(import_, real_db, monkeypatch, is_owner):
    owner = guid()
    mine = player(UserId=owner)
    players = [] if is_owner else [mine["Id"]]
    record = {"_id": owner if is_owner else guid(), "Players": players, "Bags": []}
    real = bulk.Replacer._write_portion

    def late(*arguments):
        real_db.erasures.insert_one({**record, "BegunAt": NOW})
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(bulk.Replacer, "_write_portion", late)
        refused = import_("players", player(), mine)
    assert (refused.exit_code, real_db.players.count_documents({})) == (1, 0)
    assert refused.stderr.endswith("Error: This belongs to a person who is being erased.\n")
    # The next import says so before it writes anything.
    assert "Line 2: the field '" in import_("players", player(), mine).stderr


def test_an_import_that_a_game_overtakes_again_and_again_goes_on_in_smaller_portions(
    import_, real_db, monkeypatch
):
    records = [player() for _ in range(4)]
    busy, real, sizes = records[2]["Id"], bulk.Replacer._replace, []

    def overtaken_unless_alone(self, portion):
        sizes.append(len(portion))
        if len(portion) > 1 and busy in [raw["_id"] for raw in portion]:
            raise Busy("player")
        real(self, portion)

    monkeypatch.setattr(bulk.Replacer, "_replace", overtaken_unless_alone)
    assert import_("players", *records).stdout == "Imported 4 players.\n"
    assert sizes == [4, 2, 2, 1, 1]
    assert real_db.players.count_documents({}) == 4


def test_an_import_mends_what_is_derived_and_tells_no_megabytes(import_, real_db):
    record = player(CreationDate="2026-01-02T03:04:05Z", Diary="a" * 6_000_000)
    import_("players", record)
    real_db.players.update_one({"_id": record["Id"]}, {"$set": {"NameKey": "wrong"}})
    import_("players", record)
    assert real_db.players.find_one()["NameKey"] == record["Name"].lower()
    assert import_("players", {**record, "Diary": "b" * 6_000_000}).exit_code == 0
    (told,) = history_of(real_db)[-1]["Changes"]
    assert (told["Path"], {told["Before"], told["After"]}) == ("Diary", {"(too large to be told)"})


def test_an_export_of_something_damaged_says_what_and_leaves_no_file(
    quartermaster, real_db, tmp_path
):
    damaged = {**make_player(), "Inventory": {"0": {"ItemId": ITEM}}}
    real_db.players.insert_one(damaged, bypass_document_validation=True)
    result = quartermaster("export", "players", tmp_path / "out.jsonl")
    assert result.exit_code == 1
    sentence = f"{damaged['_id']} of the players is damaged: quartermaster db check says how."
    assert result.stderr == f"Error: {sentence}\n"
    assert not (tmp_path / "out.jsonl").exists()
