"""What commands leave in history, and quartermaster history, on the real MongoDB."""

import os
from datetime import datetime, timedelta, timezone
from functools import partial
from pwd import getpwuid

import pytest

from app.core.errors import Busy
from app.players.items.domain import Limits, give
from app.storage import bulk
from tests.changes import change, deaths, meant
from tests.factories import NOW, guid, make_entry, make_player, make_user, numbered_guid, sha256
from tests.system.test_commands import lines_of, overtaken, player, user, write

SYSTEM_USER = getpwuid(os.getuid()).pw_name
ITEM = numbered_guid(1)


@pytest.fixture
def give_to(real_storage):
    """Give two items as the service does."""
    rule = partial(give, itemid=ITEM, quantity=2, limits=Limits(35, 100, 1000))
    reads = ("Inventory", "Bank")
    return lambda id_, *key: change(real_storage, {"_id": id_}, reads, rule, meant("give", *key))


def history_of(db):
    """Return all entries, the oldest first."""
    return list(db.history.find(sort=[("At", 1), ("_id", 1)]))


def test_accounts_and_roles_leave_entries_of_the_system_user(quartermaster, real_db):
    create = ("user", "create", "Nova", "--email", "nova@example.com", "--password-stdin")
    assert quartermaster(*create, "--reason", "New colleague", stdin="pw\n").exit_code == 0
    assert quartermaster("api", "grant", "Nova", "api").exit_code == 0
    assert quartermaster("api", "revoke", "Nova", "api", "--reason", "left").exit_code == 0
    registered, granted, revoked = history_of(real_db)
    operations = [entry["Operation"] for entry in (registered, granted, revoked)]
    assert operations == ["register", "grant-role", "revoke-role"]
    for entry in (registered, granted, revoked):
        assert entry["By"] == {"UserId": None, "Name": SYSTEM_USER}
        assert (entry["Via"], entry["RequestId"]) == ("cli", None)
    assert [e["Reason"] for e in (registered, granted, revoked)] == ["New colleague", None, "left"]
    assert granted["Arguments"] == {"Role": "api"}
    assert granted["Changes"] == [{"Path": "Power.Api", "Before": False, "After": True}]
    kept = str(history_of(real_db))
    assert "nova@example.com" not in kept
    assert "argon2" not in kept


def test_a_reason_that_is_too_long_is_refused(quartermaster):
    failed = quartermaster("api", "grant", "Nova", "api", "--reason", "x" * 501)
    assert failed.exit_code == 2
    assert "at most 500" in failed.stderr


@pytest.mark.parametrize("are_others_there", [False, True])
def test_an_import_leaves_one_entry_for_each_record(
    quartermaster, real_db, tmp_path, are_others_there
):
    if are_others_there:
        real_db.players.insert_one(make_player())
    records = [player(Level=3), player(Inventory=[])]
    file = write(tmp_path / "players.jsonl", *records)
    quartermaster("import", "players", file, "--reason", "moved here")
    found = history_of(real_db)
    assert {entry["Subject"]["Id"] for entry in found} == {record["Id"] for record in records}
    for entry in found:
        assert (entry["Operation"], entry["Via"], entry["Reason"]) == (
            "import",
            "cli",
            "moved here",
        )
        assert entry["Changes"] == []


def test_an_import_of_what_is_there_changes_nothing(quartermaster, real_db, tmp_path):
    time = "2026-01-02T03:04:05Z"
    for kind, record in (
        ("players", player(CreationDate=time, Guild={"a": [1, {"b": None}]})),
        ("users", user(CreationDate=time, Password=sha256("x"))),
        ("bags", {"Id": guid(), "SlotCount": 2, "Slots": []}),
    ):
        file = write(tmp_path / f"{kind}.jsonl", record)
        quartermaster("import", kind, file)
        exported = tmp_path / f"exported-{kind}.jsonl"
        quartermaster("export", kind, exported)
        before = list(real_db[kind].find())
        assert quartermaster("import", kind, exported).exit_code == 0
        assert list(real_db[kind].find()) == before
    assert real_db.history.count_documents({}) == 3


def test_an_import_tells_what_it_changed(quartermaster, real_db, tmp_path, give_to):
    record = player(Level=3, Guild="Red")
    quartermaster("import", "players", write(tmp_path / "a.jsonl", record))
    before = real_db.players.find_one()
    give_to(record["Id"], "key-1", "f")
    del record["Guild"]
    quartermaster("import", "players", write(tmp_path / "b.jsonl", {**record, "Level": 4}))
    first, gift, second = history_of(real_db)
    assert [entry["Version"] - first["Version"] for entry in (gift, second)] == [1, 2]
    changes = {change["Path"]: change for change in second["Changes"]}
    assert changes.keys() == {"Level", "Guild", "Inventory.0"}
    assert changes["Guild"] == {"Path": "Guild", "Before": "Red", "After": None}
    assert changes["Inventory.0"]["Before"] == {"ItemId": ITEM, "Quantity": 2}
    after = real_db.players.find_one()
    assert (after["Version"], after["ChangedAt"]) == (second["Version"], second["At"])
    assert after["CreationDate"] == before["CreationDate"]
    # The key of the gift is remembered, though the import has replaced the player.
    assert give_to(record["Id"], "key-1", "f").replayed


def test_an_import_loses_no_change_that_is_made_beside_it(
    quartermaster, real_db, tmp_path, monkeypatch, give_to
):
    record = player(Level=3)
    quartermaster("import", "players", write(tmp_path / "a.jsonl", record))
    overtaken(monkeypatch, *[partial(give_to, record["Id"])] * 2)
    imported = quartermaster(
        "import", "players", write(tmp_path / "b.jsonl", {**record, "Level": 9})
    )
    assert imported.exit_code == 0, imported.output
    found = history_of(real_db)
    assert [entry["Operation"] for entry in found] == ["import", "give", "give", "import"]
    after = real_db.players.find_one({"_id": record["Id"]})
    # The import comes last, and tells what it has replaced.
    assert (after["Level"], after["Inventory"]) == (9, {})
    paths = {change["Path"]: change["Before"] for change in found[-1]["Changes"]}
    assert paths["Inventory.0"]["Quantity"] == 4


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(bulk, "PORTION", 3)


@pytest.mark.parametrize("kind", ["players", "users"])
def test_an_import_that_is_killed_can_be_repeated(
    quartermaster, real_db, tmp_path, monkeypatch, small_portions, kind
):
    made = [player() if kind == "players" else user(Password=sha256("pw")) for _ in range(8)]
    quartermaster("import", kind, write(tmp_path / "a.jsonl", *made[:4]))
    file = write(tmp_path / "b.jsonl", *({**one, "Name": f"{one['Name']}x"} for one in made))
    before = 4
    for number in deaths(lambda: quartermaster("import", kind, file)):
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
    assert quartermaster("import", kind, file).exit_code == 0
    assert (list(real_db[kind].find()), history_of(real_db)) == (after, entries)


def test_a_name_that_is_taken_meanwhile_is_a_sentence(
    quartermaster, real_db, tmp_path, monkeypatch, small_portions
):
    records = [player(Name=f"Somebody {n}") for n in range(5)]
    quartermaster("import", "players", write(tmp_path / "a.jsonl", *records[3:]))
    changed = [{**record, "Level": 9} for record in records]
    overtaken(monkeypatch, partial(real_db.players.insert_one, make_player(Name="somebody 4x")))
    changed[4]["Name"] = "Somebody 4x"
    refused = quartermaster("import", "players", write(tmp_path / "b.jsonl", *changed))
    assert refused.exit_code == 1
    assert "Error: Not all players could be written: E11000 duplicate" in refused.stderr
    # The first portion is written, and the second one not at all.
    assert real_db.players.count_documents({"Level": 9}) == 3
    assert real_db.history.count_documents({}) == 2 + 3


def test_nobody_is_imported_who_is_erased_meanwhile(quartermaster, real_db, tmp_path, monkeypatch):
    owner = make_user()
    real_db.users.insert_one(owner)
    mine, erased = player(UserId=owner["_id"]), {"_id": guid(), "BegunAt": NOW, "Bags": []}
    file, records = (
        write(tmp_path / "a.jsonl", player(), mine),
        [
            {**erased, "Players": [mine["Id"]]},
            {**erased, "_id": owner["_id"], "Players": []},
        ],
    )
    for record in records:
        write_portion = bulk.Replacer._write_portion

        def late(*arguments, record=record, write_portion=write_portion):
            real_db.erasures.insert_one(record)
            return write_portion(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(bulk.Replacer, "_write_portion", late)
            refused = quartermaster("import", "players", file)
        assert (refused.exit_code, real_db.players.count_documents({})) == (1, 0)
        sentence = "Error: This belongs to a person who is being erased.\n"
        assert refused.stderr.endswith(sentence)
        # The next import says so before it writes anything.
        assert "Line 2: the field '" in quartermaster("import", "players", file).stderr
        real_db.erasures.delete_many({})
    assert quartermaster("import", "players", file).exit_code == 0


def test_an_import_that_a_game_overtakes_again_and_again_goes_on_in_smaller_portions(
    quartermaster, real_db, tmp_path, monkeypatch
):
    records = [player() for _ in range(4)]
    quartermaster("import", "players", write(tmp_path / "a.jsonl", *records))
    busy, real, sizes = records[2]["Id"], bulk.Replacer._replace, []

    def overtaken_unless_alone(self, portion):
        sizes.append(len(portion))
        if len(portion) > 1 and busy in [raw["_id"] for raw in portion]:
            raise Busy("player")
        real(self, portion)

    monkeypatch.setattr(bulk.Replacer, "_replace", overtaken_unless_alone)
    file = write(tmp_path / "b.jsonl", *({**record, "Level": 9} for record in records))
    assert quartermaster("import", "players", file).stdout == "Imported 4 players.\n"
    assert sizes == [4, 2, 2, 1, 1]
    assert real_db.players.count_documents({"Level": 9}) == 4


def test_an_import_mends_what_is_derived_and_tells_no_megabytes(quartermaster, real_db, tmp_path):
    record = player(CreationDate="2026-01-02T03:04:05Z", Diary="a" * 6_000_000)
    quartermaster("import", "players", write(tmp_path / "a.jsonl", record))
    real_db.players.update_one({"_id": record["Id"]}, {"$set": {"NameKey": "wrong"}})
    quartermaster("import", "players", write(tmp_path / "a.jsonl", record))
    assert real_db.players.find_one({"_id": record["Id"]})["NameKey"] == record["Name"].lower()
    changed = {**record, "Diary": "b" * 6_000_000}
    assert quartermaster("import", "players", write(tmp_path / "b.jsonl", changed)).exit_code == 0
    assert real_db.players.find_one({"_id": record["Id"]})["Diary"] == changed["Diary"]
    told = history_of(real_db)[-1]["Changes"]
    assert told == [
        {
            "Path": "Diary",
            "Before": "(too large to be told)",
            "After": "(too large to be told)",
        }
    ]


def test_a_repair_leaves_an_entry(quartermaster, real_db):
    broken = {**make_player(Name="Bob"), "NameKey": "wrong"}
    del broken["Online"]
    real_db.players.insert_one(broken, bypass_document_validation=True)
    quartermaster("db", "check", "--repair", "--reason", "after the crash")
    assert quartermaster("db", "check").stdout.count("refers to a user") == 1
    (entry,) = history_of(real_db)
    assert (entry["Operation"], entry["Reason"]) == ("repair", "after the crash")
    assert entry["Changes"] == [{"Path": "Online", "Before": None, "After": False}]


def test_db_init_adds_entries_to_the_events_that_a_dump_has_lost(quartermaster, real_db):
    before = make_entry(make_player(), At=NOW)  # from before there were events
    now = datetime.now(timezone.utc)
    lost = [make_entry(make_player(), At=now - timedelta(minutes=n)) for n in (3, 2, 1)]
    real_db.history.insert_many([before, *lost])
    for _ in range(2):
        assert quartermaster("db", "init").exit_code == 0
        told = [id_ for event in real_db.events.find() for id_ in event["Entries"]]
        assert told == [entry["_id"] for entry in lost]


@pytest.fixture
def told(real_db):
    """Three entries of two players."""
    ann, bob = make_player(Name="Ann"), make_player(Name="Bob \x1b[2J")
    real_db.players.insert_many([ann, bob])
    entries = [
        make_entry(ann, Version=1, Arguments={"ItemId": ITEM, "Quantity": 5}, Reason="Lost sword"),
        make_entry(ann, Version=2, Operation="take", At=NOW.replace(day=3)),
        make_entry(bob, Version=1, At=NOW.replace(day=4)),
    ]
    real_db.history.insert_many(entries)
    return entries


def test_history_is_printed_as_a_table(quartermaster, told):
    lines = quartermaster("history").stdout.splitlines()
    assert lines[0].split("  ")[0] == "TIME (UTC)"
    assert [line.split()[0] for line in lines[1:]] == ["2026-01-04", "2026-01-03", "2026-01-02"]
    assert "tester (api)" in lines[3]
    assert f"ItemId={ITEM} Quantity=5" in lines[3]
    assert "Lost sword" in lines[3]
    assert lines[3].endswith(told[0]["_id"])
    assert "\x1b" not in "".join(lines)


def test_history_is_printed_as_json_lines(quartermaster, told):
    found = lines_of(quartermaster("history", "--json", "--player", "ann"))
    assert [entry["Id"] for entry in found] == [told[1]["_id"], told[0]["_id"]]
    assert found[1]["Subject"]["Name"] == "Ann"


FILTERS = {
    **{("--by", "tester"): 3, ("--by", "nobody"): 0, ("--operation", "take"): 1},
    **{("--item", ITEM): 1, ("--reason", "sword"): 1, ("--from", "2026-01-03"): 2},
    **{("--to", "2026-01-03T00:00:00Z"): 1, ("--limit", "2"): 2},
}


def test_history_is_filtered(quartermaster, told):
    for options, count in FILTERS.items():
        found = lines_of(quartermaster("history", "--json", *options))
        assert (options, len(found)) == (options, count)


WRONG_FILTERS = {
    ("--player", "nobody"): (1, "nobody"),
    ("--from", "yesterday"): (1, "must be a time"),
    ("--from", "9999-12-31T23:59:59-14:00"): (1, "must be a time"),
    ("--player", ""): (1, "No player"),
    ("--operation", "nope"): (1, "must be one of"),
    ("--limit", "99999999999999999999"): (2, "limit"),
    ("--item", "42"): (1, "must be a guid"),
}


def test_a_wrong_filter_is_a_sentence(quartermaster, told):
    for options, (code, fault) in WRONG_FILTERS.items():
        failed = quartermaster("history", *options)
        assert (options, failed.exit_code, fault in failed.stderr) == (options, code, True)


def test_more_than_a_page_is_walked(quartermaster, real_db):
    someone = make_player()
    real_db.history.insert_many([make_entry(someone, Version=n) for n in range(250)])
    found = lines_of(quartermaster("history", "--json", "--limit", "240"))
    assert len({entry["Id"] for entry in found}) == 240
