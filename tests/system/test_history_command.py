"""What commands leave in history, and quartermaster history, on the real MongoDB."""

import os
from datetime import datetime, timedelta, timezone
from functools import partial
from pwd import getpwuid

import pytest

from app.database import SUBJECTS
from app.items.domain import Limits, give
from app.storage import import_replace as replace
from app.storage.journal import HAS_ENTRIES
from tests.factories import NOW, guid, make_entry, make_player, numbered_guid, sha256
from tests.swaps import journals_of, meant, move_all, swap
from tests.system.test_commands import lines_of, player, user, write

SYSTEM_USER = getpwuid(os.getuid()).pw_name
ITEM = numbered_guid(1)


def give_to(db, player, *key):
    """Give two items as the service does."""
    rule = partial(give, itemid=ITEM, quantity=2, limits=Limits(35, 100, 1000))
    return swap(db, {"_id": player}, ("Inventory", "Bank"), rule, meant("give", *key))


def history_of(db, name="players"):
    """Return all entries, the oldest first, once nothing is left in a journal."""
    assert db[name].count_documents(HAS_ENTRIES) == 0
    return list(db.history.find(sort=[("At", 1), ("_id", 1)]))


def test_accounts_and_roles_leave_entries_of_the_system_user(quartermaster, real_db):
    create = ("user", "create", "Nova", "--email", "nova@example.com", "--password-stdin")
    assert quartermaster(*create, "--reason", "New colleague", stdin="pw\n").exit_code == 0
    assert quartermaster("api", "grant", "Nova", "api").exit_code == 0
    assert quartermaster("api", "revoke", "Nova", "api", "--reason", "left").exit_code == 0
    registered, granted, revoked = history_of(real_db, "users")
    operations = [entry["Operation"] for entry in (registered, granted, revoked)]
    assert operations == ["register", "grant-role", "revoke-role"]
    for entry in (registered, granted, revoked):
        assert entry["By"] == {"UserId": None, "Name": SYSTEM_USER}
        assert (entry["Via"], entry["RequestId"]) == ("cli", None)
    assert [e["Reason"] for e in (registered, granted, revoked)] == ["New colleague", None, "left"]
    assert granted["Arguments"] == {"Role": "api"}
    assert granted["Changes"] == [{"Path": "Power.Api", "Before": False, "After": True}]
    kept = str(history_of(real_db, "users"))
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


def test_an_import_tells_what_it_changed_and_keeps_what_had_not_moved(
    quartermaster, real_db, tmp_path
):
    record = player(CreationDate="2026-01-02T03:04:05Z", Level=3, Guild="Red")
    quartermaster("import", "players", write(tmp_path / "a.jsonl", record))
    give_to(real_db, record["Id"], "key-1", "f")
    del record["Guild"]
    quartermaster("import", "players", write(tmp_path / "b.jsonl", {**record, "Level": 4}))
    first, gift, second = history_of(real_db)
    assert [entry["Number"] for entry in (first, gift, second)] == [1, 2, 3]
    changes = {change["Path"]: change for change in second["Changes"]}
    assert changes.keys() == {"Level", "Guild", "Inventory.0"}
    assert changes["Guild"] == {"Path": "Guild", "Before": "Red", "After": None}
    assert changes["Inventory.0"]["Before"] == {"ItemId": ITEM, "Quantity": 2}
    # The key of the gift is remembered, though the import has replaced the player.
    assert give_to(real_db, record["Id"], "key-1", "f").replayed


def test_an_import_loses_no_change_that_is_made_beside_it(
    quartermaster, real_db, tmp_path, monkeypatch
):
    record = player(CreationDate="2026-01-02T03:04:05Z", Level=3)
    quartermaster("import", "players", write(tmp_path / "a.jsonl", record))
    gifts = iter([1, 2])
    real = replace._write_all

    def overtaken(*args):
        if next(gifts, None):
            give_to(real_db, record["Id"])
        return real(*args)

    monkeypatch.setattr(replace, "_write_all", overtaken)
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


def test_an_import_that_loses_one_race_replaces_no_other_record_twice(
    quartermaster, real_db, tmp_path, monkeypatch
):
    """A change that comes after the replacement of its player stays."""
    records = [player(CreationDate="2026-01-02T03:04:05Z", Level=3) for _ in range(2)]
    quartermaster("import", "players", write(tmp_path / "a.jsonl", *records))
    attempts = iter([1])
    real = replace._write_all

    def overtaken(*args):
        if next(attempts, None) is None:
            return real(*args)
        give_to(real_db, records[0]["Id"])
        are_all_written = real(*args)
        give_to(real_db, records[1]["Id"])
        return are_all_written

    monkeypatch.setattr(replace, "_write_all", overtaken)
    changed = [{**record, "Level": 9} for record in records]
    quartermaster("import", "players", write(tmp_path / "b.jsonl", *changed))
    after = [real_db.players.find_one({"_id": record["Id"]}) for record in records]
    assert [found["Level"] for found in after] == [9, 9]
    assert [len(found["Inventory"]) for found in after] == [0, 1]


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
    move_all(real_db)
    (entry,) = history_of(real_db)
    assert (entry["Operation"], entry["Reason"]) == ("repair", "after the crash")
    assert entry["Changes"] == [{"Path": "Online", "Before": None, "After": False}]


def check_lines(quartermaster):
    return [line for line in quartermaster("db", "check").stdout.splitlines() if "Journal" in line]


def test_db_check_finds_entries_that_nobody_moves_and_moves_them(quartermaster, real_db):
    someone = make_player()
    real_db.players.insert_one(someone)
    give_to(real_db, someone["_id"])
    assert check_lines(quartermaster) == []
    past = {"$set": {"Journal.0.At": NOW}}
    real_db.players.update_one({"_id": someone["_id"]}, past)
    (line,) = check_lines(quartermaster)
    assert "Journal holds 1 entry that should be in history (can be repaired)" in line
    repaired = quartermaster("db", "check", "--repair").stdout
    assert "should be in history (repaired)" in repaired
    assert check_lines(quartermaster) == []
    assert real_db.history.count_documents({"Operation": "give"}) == 1


def test_db_check_finds_a_change_whose_entry_is_lost(quartermaster, real_db):
    someone = make_player()
    real_db.players.insert_one(someone)
    for _ in range(5):
        give_to(real_db, someone["_id"])
    journals_of(real_db).move(SUBJECTS["players"], [someone["_id"]])
    # The versions that a game counts up are no gap.
    real_db.players.update_one({"_id": someone["_id"]}, {"$inc": {"Version": 7}})
    give_to(real_db, someone["_id"])
    assert check_lines(quartermaster) == []
    real_db.history.delete_one({"Number": 1})  # expired
    assert check_lines(quartermaster) == []
    real_db.history.delete_one({"Number": 4})
    (line,) = check_lines(quartermaster)
    assert "JournalCount counts 1 entry that history lacks: --repair records" in line
    real_db.history.delete_many({})
    real_db.players.update_one({"_id": someone["_id"]}, {"$set": {"Journal": []}})
    (line,) = check_lines(quartermaster)
    assert "history lacks" in line
    assert "as lost (repaired)" in quartermaster("db", "check", "--repair").stdout
    assert check_lines(quartermaster) == []
    noted = real_db.history.find_one({"Operation": "repair"})
    assert noted["Arguments"] == {"LostEntries": [[6, 6]]}


def test_db_init_adds_entries_to_the_events_that_a_dump_has_lost(quartermaster, real_db):
    before = make_entry(make_player(), At=NOW)  # from before there were events
    now = datetime.now(timezone.utc)
    lost = [make_entry(make_player(), At=now - timedelta(minutes=n)) for n in (3, 2, 1)]
    real_db.history.insert_many([before, *lost])
    for _ in range(2):
        assert quartermaster("db", "init").exit_code == 0
        told = [id_ for event in real_db.events.find() for id_ in event["Entries"]]
        assert told == [entry["_id"] for entry in lost]


def test_db_check_copes_with_what_a_game_made_of_an_entry(quartermaster, real_db):
    for number in ([], "x", None, {}):
        someone = make_player(JournalCount=1)
        someone["Journal"] = [{**make_entry(someone), "Number": number}]
        real_db.players.insert_one(someone)
        real_db.history.insert_one({**make_entry(someone, Version=2), "Number": number})
    told = "\n".join(check_lines(quartermaster))
    assert told.count("Journal holds 1 entry that should be in history") == 4
    assert "JournalCount counts 1 entry that history lacks" not in told


def test_db_check_copes_with_any_count_and_any_id(quartermaster, real_db):
    counted, odd = make_player(JournalCount=2**62), {**make_player(JournalCount=1), "_id": {"a": 1}}
    real_db.players.insert_many([counted, odd], bypass_document_validation=True)
    real_db.history.insert_one(make_entry(counted))
    told = quartermaster("db", "check").stdout
    assert f"JournalCount counts {2**62 - 1} entries that history lacks" in told
    assert "_id is a map, not a text" in told


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
    ("--player", "a", "--user", "b"): (2, "exclude"),
    ("--player", "nobody"): (1, "nobody"),
    ("--from", "yesterday"): (2, "not a time"),
    ("--from", "9999-12-31T23:59:59-14:00"): (2, "not a time"),
    ("--player", ""): (1, "No player"),
    ("--operation", "nope"): (2, "nope"),
    ("--limit", "99999999999999999999"): (2, "limit"),
    ("--item", "42"): (2, "not a guid"),
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
