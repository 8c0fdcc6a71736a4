"""quartermaster's commands, on the real MongoDB."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

import config
from app.__main__ import REMOVED, main
from app.core.permissions import SCOPES
from app.storage.bulk import Replacer
from app.storage.schema.migrations import CURRENT
from tests.collection_plans import PLANS
from tests.factories import NOW, guid, make_player, make_user, sha256

HASH = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$c29tZWhhc2g"
NIL = "00000000-0000-0000-0000-000000000000"


def lines_of(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def player(**overrides):
    return {"Id": guid(), "Name": f"Player {guid()[:6]}", "UserId": guid(), **overrides}


def user(**overrides):
    name = overrides.get("Name", f"user{guid()[:8]}")
    return {"Id": guid(), "Name": name, "Email": f"{name}@example.com", **overrides}


def note(text, **overrides):
    about = {"Id": guid(), "At": "2026-01-31T12:00:00Z", "UserId": guid(), "Name": "Staff"}
    return {**about, "Text": text, **overrides}


NOTE = note("Asked twice.")


# What the help of a command says of what may be given.
HELP = {
    **dict.fromkeys(("serve", "db", "seed", "import", "user", "api", "token"), ()),
    "openapi": (),
    "history": ["2026-01-31T19:00:00Z"],
    "export": ["[FILE]"],
    "backup": ["FILE"],
    "restore": ["--replace DATABASE", "which must be empty"],
    "key create": [*SCOPES],
    "batch plan": ["2026-01-31T19:00:00Z"],
}


def test_every_command_explains_itself(quartermaster):
    assert quartermaster("--version").output.startswith("quartermaster, version ")
    top = quartermaster("--help").output
    for command, words in HELP.items():
        assert f"  {command.split()[0]} " in top
        explained = quartermaster(*command.split(), "--help")
        assert explained.exit_code == 0
        assert "Usage: main " in explained.output
        assert [word for word in words if word not in explained.output] == []


def test_a_wrong_call_ends_with_2_and_a_failure_with_1(quartermaster):
    assert quartermaster("fly").exit_code == 2
    assert quartermaster("import", "dragons", "x").exit_code == 2
    assert quartermaster("seed", "--players", "-1").exit_code == 2
    assert quartermaster("import", "players", "no-such-file").exit_code == 2
    failed = quartermaster("api", "roles", "Nobody")
    assert failed.exit_code == 1
    assert failed.stderr == "Error: No user with name 'Nobody'.\n"


@pytest.mark.parametrize(("command", "replacement"), REMOVED.items())
def test_a_removed_command_names_what_replaces_it(quartermaster, command, replacement):
    refused = quartermaster(command)
    assert refused.exit_code == 2
    assert f"The command {command} was removed: {replacement}" in refused.stderr
    assert f"  {command} " not in quartermaster("--help").output


def test_a_database_that_is_away_is_a_sentence_that_names_what_is_wrong(
    quartermaster, monkeypatch, mongodb_uri
):
    member = mongodb_uri.partition("://")[2].partition("/")[0]
    monkeypatch.setenv("QM_MONGODB_SELECTION_SECONDS", "0.2")
    # For so long, the driver tries again.
    monkeypatch.setenv("QM_MONGODB_OPERATION_SECONDS", "1")
    for uri, fault in (
        ("mongodb://keeper:hunter2@127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        (f"mongodb://{member}/?replicaSet=other", 'No replica set .* name "other"'),
        ("mongodb://127.0.0.1:1,127.0.0.1:2/?replicaSet=qm", r"127\S+ C.* refused, 127\S+ C.*d"),
    ):
        monkeypatch.setenv("QM_MONGODB_URI", uri)
        failed = quartermaster("api", "roles", "Nobody")
        assert failed.exit_code == 1
        assert re.fullmatch(rf"Error: MongoDB cannot be reached: {fault}\.\n", failed.stderr)


def test_settings_are_listed_without_a_database(quartermaster, monkeypatch):
    monkeypatch.setenv("QM_MONGODB_URI", "mongodb://keeper:hunter2@127.0.0.1:1")
    table = quartermaster("settings").stdout.splitlines()
    assert [line.split()[0] for line in table[:3]] == ["SETTING", "QM_ENV", "QM_SECRET_KEY"]
    (line,) = [line for line in table if line.startswith("QM_MONGODB_URI ")]
    assert line.split() == ["QM_MONGODB_URI", "environment", "mongodb://***@127.0.0.1:1"]
    assert ["QM_THREADS", "default", "8", "8"] in [line.split() for line in table]


def test_db_init_can_be_repeated(quartermaster):
    for _ in range(2):
        result = quartermaster("db", "init")
        ready = f"The database 'quartermaster' is ready, at SchemaVersion {CURRENT}.\n"
        assert (result.exit_code, result.output) == (0, ready)


def test_db_version_tells_where_a_database_stands(quartermaster, monkeypatch, real_storage):
    monkeypatch.setenv("QM_MONGODB_DATABASE", "standing")
    assert "SchemaVersion 0; this program needs" in quartermaster("db", "version").output
    quartermaster("db", "init")
    at_present = f"The database 'standing' is at SchemaVersion {CURRENT}, which this program needs."
    assert quartermaster("db", "version").output == f"{at_present}\n"
    real_storage.client.drop_database("standing")


COMMANDS = ("db init", "db check", "db check --repair", "db version", "seed", "export players")
COMMANDS += ("import players -", "api roles Ann", "token Ann")


def test_every_command_refuses_the_database_of_a_newer_program(
    quartermaster, monkeypatch, real_storage
):
    newer = real_storage.client["newer"]
    newer.schema.insert_one({"_id": "schema", "SchemaVersion": CURRENT + 1})
    monkeypatch.setenv("QM_MONGODB_DATABASE", "newer")
    refused = {command: quartermaster(*command.split()) for command in COMMANDS}
    real_storage.client.drop_database("newer")
    sentence = f"Error: The database 'newer' is at SchemaVersion {CURRENT + 1}, and this program "
    for command, result in refused.items():
        assert (command, result.exit_code) == (command, 1)
        assert result.stderr.startswith(f"{sentence}knows ")
        assert len(result.stderr.splitlines()) == 1


def test_seeding_twice_makes_the_same_world_once(quartermaster, real_db):
    exports = []
    for _ in range(2):
        assert quartermaster("seed", "--players", 60, "--users", 10).exit_code == 0
        exports.append([lines_of(quartermaster("export", k)) for k in ("users", "players", "bags")])
    for kind, plan in PLANS.items():
        assert not real_db[kind].find_one({"$nor": [{"$jsonSchema": plan.shape}]})
    users, players, bags = exports[0]
    assert (len(users), len(players), len(bags)) == (10, 60, 6)
    assert exports[0][2] == exports[1][2]
    for one, other in zip(exports[0][1], exports[1][1], strict=True):
        if not one["Online"]:
            assert one == other
    owners = {user["Id"] for user in users}
    assert all(player["UserId"] in owners for player in players)


def test_objects_are_imported_with_all_of_their_fields(quartermaster, real_db, tmp_path):
    item = {"Id": guid().upper(), "Type": "Item", "Name": "Arrow", "StackLimit": 20.0, "Own": [1]}
    variable = {"Id": guid(), "Type": "servervariable", "Name": ""}
    file = write(tmp_path / "f", item, variable, {"Id": guid(), "Type": "map", "Name": "Arena"})
    assert quartermaster("import", "objects", file).output == "Imported 3 objects.\n"
    stored = real_db.objects.find_one({"_id": item["Id"].lower()})
    assert (stored["Type"], stored["NameKey"], stored["Own"]) == ("item", "arrow", [1])
    exported = {record["Id"]: record for record in lines_of(quartermaster("export", "objects"))}
    assert exported[item["Id"].lower()] == {**item, "Id": item["Id"].lower(), "Type": "item"}
    assert "Value" not in exported[variable["Id"]]
    entries = list(real_db.history.find({"Subject.Kind": "object"}))
    assert {entry["Operation"] for entry in entries} == {"import"}
    assert len(entries) == 3


def test_an_import_leaves_bans_and_values_that_it_does_not_mention(
    quartermaster, real_db, tmp_path
):
    banned = user(IsBanned=True, BanReason="Cheating", BannedUntil="2099-01-01T00:00:00Z")
    variable = {"Id": guid(), "Type": "servervariable", "Name": "Rate", "Value": True}
    for kind, record, mentioned in (
        ("users", banned, ("IsBanned", "BanReason", "BannedUntil")),
        ("users", user(Notes=[NOTE]), ("Notes",)),
        ("players", player(Notes=[NOTE]), ("Notes",)),
        ("objects", variable, ("Value",)),
    ):
        assert quartermaster("import", kind, write(tmp_path / "f", record)).exit_code == 0
        stored = real_db[kind].find_one({"_id": record["Id"]})
        silent = {name: value for name, value in record.items() if name not in mentioned}
        silent["Name"] = f"{record['Name']}x"
        assert quartermaster("import", kind, write(tmp_path / "f", silent)).exit_code == 0
        after = real_db[kind].find_one({"_id": record["Id"]})
        assert after["Name"] == silent["Name"]
        assert {name: after[name] for name in mentioned} == {n: stored[n] for n in mentioned}
    lifted = {**banned, "IsBanned": False}
    quartermaster("import", "users", write(tmp_path / "f", lifted))
    assert real_db.users.find_one({"_id": banned["Id"]})["IsBanned"] is False


@pytest.mark.parametrize("kind", ["users", "players"])
def test_an_import_writes_notes_and_history_tells_no_text(quartermaster, real_db, tmp_path, kind):
    record = {**(user() if kind == "users" else player()), "CreationDate": NOTE["At"]}
    first, second = note("Asked twice."), note("Asked again.", IsHidden=True)
    for notes in ([first], [first, second], [{**first, "Text": "Asked thrice."}], []):
        line = {**record, "Notes": notes}
        assert quartermaster("import", kind, write(tmp_path / "f", line)).exit_code == 0
        stored = real_db[kind].find_one({"_id": record["Id"]})["Notes"]
        assert {id_: found["Text"] for id_, found in stored.items()} == {
            told["Id"]: told["Text"] for told in notes
        }
    entries = list(real_db.history.find({"Subject.Id": record["Id"]}, sort=[("Number", 1)]))
    told = [{change["Path"] for change in entry["Changes"]} for entry in entries]
    paths = [f"Notes.{told['Id']}" for told in (first, second)]
    assert told == [set(), {paths[1]}, {*paths}, {paths[0]}]
    assert "Asked" not in repr(entries)


def overtaken(patch, *writes):
    """Let somebody else write after an import has read the stored documents."""
    left, real = iter(writes), Replacer._complete

    def late(*arguments):
        if write := next(left, None):
            with ThreadPoolExecutor(1) as other:
                other.submit(write).result()
        return real(*arguments)

    patch.setattr(Replacer, "_complete", late)


def test_missing_fields_take_their_defaults_and_further_ones_are_kept(quartermaster, tmp_path):
    record = player(Name="Bob", Guild={"Rank": 1}, Inventory=[slot(3), empty(4)])
    assert quartermaster("import", "players", write(tmp_path / "f", record)).exit_code == 0
    (exported,) = lines_of(quartermaster("export", "players"))
    assert (exported["Level"], exported["Online"], exported["LastOnline"]) == (1, False, None)
    assert exported["Guild"] == {"Rank": 1}
    assert [slot["Slot"] for slot in exported["Inventory"]] == [3]


def test_a_record_replaces_the_one_with_its_id(quartermaster, tmp_path):
    record = player(Name="Bob", Title="Sir")
    quartermaster("import", "players", write(tmp_path / "f", record))
    renamed = player(Id=record["Id"].upper(), Name="Rob")
    quartermaster("import", "players", write(tmp_path / "f", renamed))
    (exported,) = lines_of(quartermaster("export", "players"))
    assert exported["Name"] == "Rob"
    assert "Title" not in exported


def slot(number, **overrides):
    return {"Slot": number, "ItemId": guid(), "Quantity": 1, **overrides}


def empty(number):
    return {"Slot": number, "ItemId": NIL, "Quantity": 0}


ITEM = guid()
BAD_PLAYERS = [
    ("{", "it is not valid JSON"),
    ("[1]", "it is not a JSON object"),
    ({}, "the field 'Id' is required"),
    (player(Id="7"), "the field 'Id' must be a guid"),
    (player(Name="a/b"), "the field 'Name' must not be a dot or two dots, or contain a slash"),
    (player(Name=""), "the field 'Name' must be 1 to 255 printable"),
    (player(Name="a\nb"), "the field 'Name' must be 1 to 255 printable"),
    (player(Level="9"), "the field 'Level' must be a whole number"),
    (player(Level=-1), "the field 'Level' must be greater"),
    (player(Exp=2**63), "the field 'Exp' must be"),
    (player(Online="yes"), "the field 'Online' must be true or false"),
    (player(BaseStats=[1]), "the field 'BaseStats' must contain 5 numbers"),
    (
        player(LastOnline="yesterday"),
        "the field 'LastOnline' must be a time like 2026-01-31T12:00:00Z",
    ),
    (player(Inventory={}), "the field 'Inventory' must be a list"),
    (
        player(Inventory=[slot(35)]),
        "the field 'Inventory' has a slot 35 that is not a whole number from 0 to 34",
    ),
    (player(Inventory=[slot(1), slot(1)]), "the field 'Inventory' has slot 1 twice"),
    (player(Inventory=[slot(1, Quantity=0)]), "has a Quantity in slot 1 that is not"),
    (player(Inventory=[slot(1, Quantity=2_000_000)]), "has a Quantity in slot 1 that is not"),
    (player(Inventory=[slot(1, ItemId="x")]), "has an ItemId in slot 1 that is not a guid"),
    (player(Inventory=[slot(1, StatBuffs=[1])]), "has StatBuffs in slot 1 that are not 5"),
    (player(Inventory=[slot(1, Color=1)]), "has an unknown field 'Color' in slot 1"),
    (player(Bank=[slot(100)]), "the field 'Bank' has a slot 100"),
    (player(Spells=[{"Slot": 0, "SpellId": "x"}]), "the field 'Spells' must be a list"),
    (player(Spells=[{"Slot": 0, "SpellId": ITEM}] * 2), "'Spells' must contain each Slot once"),
    (
        player(Variables=[{"VariableId": ITEM, "Value": 1.5}]),
        "the field 'Variables' must be a list",
    ),
    (player(Variables=[{"VariableId": ITEM, "Value": 2**63}]), "'Variables' must be a list"),
    (player(Variables=[{"VariableId": NIL, "Value": 1}]), "'Variables' must be a list of records"),
    (player(Spells=[{"Slot": 0, "SpellId": NIL}]), "'Spells' must be a list of records"),
    (player(Inventory=[slot(1, StatBuffs=[2**63] * 5)]), "the record cannot be stored"),
    (player(Name=".."), "the field 'Name' must not be a dot"),
    (player(Name="  "), "the field 'Name' must be 1 to 255 printable characters"),
    (player(Name="\u3164\u3164"), "'Name' must contain a visible character"),
    (player(Name=ITEM.upper()), "the field 'Name' must not look like a guid"),
    (player(Guild={"Gold": 2**63}), "the record cannot be stored"),
    (player(NameKey="x"), "the field 'NameKey' is a name that cannot be stored"),
    (player(**{"a.b": 1}), "the field 'a.b' is a name that cannot be stored"),
    (player(Note="x" * 17_000_000), "the record is too large"),
]


BAD_NOTES = [
    ("x", "'Notes' must be a list"),
    ([{"Text": "x"}], "'Notes.0.Id' is required"),
    ([{**NOTE, "Colour": "red"}], "'Notes.0.Colour' is unknown"),
    ([{**NOTE, "Text": "x" * 2001}], "longer than maximum length 2000"),
    ([{**NOTE, "UserId": NIL}], "'Notes.0.UserId' must not be the all-zero guid"),
    ([NOTE, NOTE], "each note once"),
    ([{**NOTE, "Id": guid()} for _ in range(101)], "at most 100 notes"),
]
BAD_USERS = [
    (user(Email="nowhere"), "the field 'Email' must be an email address"),
    (user(Password="secret"), "the field 'Password' must be the SHA-256"),
    (user(Power={"King": True}), "the field 'Power.King' is unknown"),
    (user(Power={"Api": 1}), "the field 'Power.Api' must be true or false"),
    (user(Nmae="x"), "the field 'Nmae' is unknown"),
    (user(PasswordHash="md5"), "the field 'PasswordHash' must be an argon2id hash"),
    *((user(Notes=notes), fault) for notes, fault in BAD_NOTES),
]


def deep(depth):
    """Return lists in lists."""
    return [deep(depth - 1)] if depth else []


BAD_OBJECTS = [
    *(
        ({"Id": guid(), "Type": "item", "Name": "Bow", **fields}, fault)
        for fields, fault in [
            ({"Type": "weapon"}, "the field 'Type' must be one of animation, class, item"),
            ({"Type": None}, "the field 'Type' must not be null"),
            ({"Id": NIL}, "the field 'Id' must not be the all-zero guid"),
            ({"Name": "x" * 256}, "the field 'Name' must be at most 255 printable characters"),
            ({"Name": "a\nb"}, "the field 'Name' must be at most 255 printable characters"),
            ({"StackLimit": 0}, "the field 'StackLimit' must be a number of 1 or more, or null"),
            (
                {"StackLimit": {"$numberLong": "0"}},
                "the field 'StackLimit' must be a number of 1 or more",
            ),
            ({"StackLimit": "20"}, "the field 'StackLimit' must be a number of 1 or more, or null"),
            (
                {"Type": "servervariable", "Value": 1.5},
                "the field 'Value' must be a whole number, true or",
            ),
            ({"NameKey": "arrow"}, "the field 'NameKey' is a name that cannot be stored"),
            ({"": 1}, "the field '' is a name that cannot be stored"),
            ({"a.b": 1}, "the field 'a.b' is a name that cannot be stored"),
            ({"Tiles": "x" * 262_144}, "it is longer than 262144 bytes"),
            ({"Deep": deep(100)}, "it is nested more than 80 levels deep"),
            ({"Deep": deep(900)}, "it is nested more than 80 levels deep"),
        ]
    ),
]
BAD = {"players": BAD_PLAYERS, "users": BAD_USERS, "objects": BAD_OBJECTS}
GOOD = {"players": player, "users": user, "objects": lambda: {**player(), "Type": "item"}}
# So many faults of a file are told, and so many records are in one here.
MOST = 20


@pytest.mark.parametrize("kind", BAD)
def test_bad_lines_are_named_with_their_fields_and_nothing_is_written(
    quartermaster, real_db, tmp_path, kind
):
    file, untold = tmp_path / "bad.jsonl", []
    for first in range(0, len(BAD[kind]), MOST):
        bad = BAD[kind][first : first + MOST]
        texts = [text if isinstance(text, str) else json.dumps(text) for text, _ in bad]
        file.write_text("\n".join([json.dumps(GOOD[kind]()), "", *texts]) + "\n")
        result = quartermaster("import", kind, file)
        assert (result.exit_code, "nothing was written" in result.stderr) == (1, True)
        for number, (_, fault) in enumerate(bad, 3):
            lines = [line for line in result.stderr.splitlines() if f"Line {number}: " in line]
            if not any(fault.lower() in line.lower() for line in lines):
                untold.append((fault, lines))
    assert untold == []
    assert real_db[kind].count_documents({}) == 0


def test_records_that_clash_within_the_file_are_named(quartermaster, tmp_path):
    twin = player(Name="Élan")
    file = write(tmp_path / "f", twin, player(Name="e\u0301LAN"), {**player(), "Id": twin["Id"]})
    result = quartermaster("import", "players", file)
    assert result.exit_code == 1
    assert "Line 2: the field 'Name' is the same as on line 1." in result.stderr
    assert "Line 3: the field 'Id' is the same as on line 1." in result.stderr


def test_records_that_clash_with_the_database_are_named(quartermaster, tmp_path):
    there = user(Name="Bob")
    assert quartermaster("import", "users", write(tmp_path / "f", there)).exit_code == 0
    file = write(
        tmp_path / "f", user(), user(Name="BOB", Email="b@c.de"), user(Email="BOB@example.com")
    )
    result = quartermaster("import", "users", file)
    assert result.exit_code == 1
    assert (
        "Line 2: the field 'Name' is already used by another record of the users." in result.stderr
    )
    assert (
        "Line 3: the field 'Email' is already used by another record of the users." in result.stderr
    )
    assert len(lines_of(quartermaster("export", "users"))) == 1


def test_only_the_first_faults_of_many_are_shown(quartermaster, tmp_path):
    result = quartermaster("import", "players", write(tmp_path / "f", *[{}] * 50))
    assert result.stderr.count("Line ") == 20
    assert "50 faults, of which 20 are shown; nothing was written." in result.stderr


def test_users_are_imported_with_their_passwords_and_either_set_of_flags(quartermaster, tmp_path):
    short = {"Editor": True, "Api": True, "PersonalInformation": True}
    long = {"Api": True, "ApiPersonalInformation": True, "ApiUserManagement": True}
    file = write(
        tmp_path / "f",
        user(Name="Ann", Password=sha256("pw"), Power=short),
        user(Name="Bob", Power=long),
    )
    assert quartermaster("import", "users", file).exit_code == 0
    assert quartermaster("api", "roles", "ann").output == "ann: api, users.query\n"
    assert quartermaster("api", "roles", "Bob").output == "Bob: api, users.query, users.manage\n"
    ann, bob = lines_of(quartermaster("export", "users"))
    assert ann["PasswordHash"].startswith("$argon2id$")
    assert (ann["Power"]["Editor"], bob["PasswordHash"]) == (True, None)
    assert not ann.keys() & {"Password", "NameKey", "EmailKey", "Version", "Journal"}


def test_a_bag_must_hold_its_slots(quartermaster, tmp_path):
    bag = {"Id": guid(), "SlotCount": 4, "Slots": [slot(4)]}
    result = quartermaster("import", "bags", write(tmp_path / "f", bag))
    assert "the field 'slots' must be below slotcount" in result.stderr.lower()


def test_seeding_leaves_what_was_changed_since(quartermaster, real_db):
    quartermaster("seed", "--players", 20, "--users", 5)
    name = real_db.users.find_one(sort=[("NameKey", 1)])["Name"]
    quartermaster("api", "grant", name, "api")
    real_db.players.update_many({}, {"$set": {"Level": 77}})
    assert quartermaster("seed", "--players", 21, "--users", 5).exit_code == 0
    assert quartermaster("api", "roles", name).output == f"{name}: api\n"
    assert real_db.players.count_documents({"Level": 77}) == 20


def test_seeding_is_refused_in_production_unless_it_is_asked_for(
    quartermaster, real_db, monkeypatch
):
    monkeypatch.setenv("QM_ENV", "production")
    monkeypatch.setenv("QM_SECRET_KEY", "s" * 32)
    refused = quartermaster("seed", "--players", 3, "--users", 2)
    assert (refused.exit_code, real_db.users.count_documents({})) == (1, 0)
    assert refused.stderr.startswith("Error: seed is not for production")
    wanted = quartermaster("seed", "--players", 3, "--users", 2, "--into-production")
    assert (wanted.exit_code, real_db.players.count_documents({})) == (0, 3)


def test_an_import_without_a_password_leaves_the_one_that_is_there(
    quartermaster, real_db, tmp_path
):
    ann = user(Name="Ann", Password=sha256("pw"))
    quartermaster("import", "users", write(tmp_path / "f", ann))
    before = real_db.users.find_one()["PasswordHash"]
    del ann["Password"]
    quartermaster("import", "users", write(tmp_path / "f", {**ann, "IsMuted": True}, user()))
    after = real_db.users.find_one({"_id": ann["Id"]})
    assert (after["PasswordHash"], after["IsMuted"]) == (before, True)


def test_a_byte_order_mark_does_no_harm(quartermaster, tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(player()).encode())
    assert quartermaster("import", "players", file).stdout == "Imported 1 players.\n"


def test_an_export_that_fails_leaves_the_former_file(quartermaster, tmp_path, monkeypatch):
    imported = quartermaster("import", "players", "-", stdin=json.dumps(player()))
    assert imported.stdout == "Imported 1 players.\n"
    file = write(tmp_path / "out.jsonl", {"former": True})

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.maintenance.transfer.store.encode", fail)
    result = quartermaster("export", "players", file)
    assert result.exit_code == 1
    assert result.stderr == "Error: No space left on device: output\n"
    assert json.loads(file.read_text()) == {"former": True}


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


def test_an_account_is_made_and_gets_roles(quartermaster):
    made = quartermaster(
        "user", "create", "Zoë", "--email", "z@example.com", "--password-stdin", stdin="secret\n"
    )
    assert made.stdout.startswith("Created the user Zoë (")
    assert quartermaster("api", "roles", "zoë").output == "zoë: no roles\n"
    refused = quartermaster("api", "grant", "zoë", "users.manage")
    assert refused.exit_code == 1
    assert "needs 'users.query'" in refused.stderr
    for role in ("api", "Users.Query", "USERS.MANAGE"):
        assert quartermaster("api", "grant", "zoë", role).exit_code == 0
    refused = quartermaster("api", "revoke", "zoë", "users.query")
    assert (refused.exit_code, "Nobody could manage staff then" in refused.stderr) == (1, True)
    address = ("--email", "b@example.com", "--password-stdin")
    quartermaster("user", "create", "Boss", *address, stdin="secret\n")
    quartermaster("run", "set-roles", "Boss", 'Roles=["administrator"]')
    assert quartermaster("api", "revoke", "zoë", "users.query").stdout == "zoë: api\n"
    refused = quartermaster("api", "grant", "zoë", "king").stderr
    assert "must be one of api, users.query, users.manage" in refused


BAD_ACCOUNTS = [
    (["x", "--email", "x@example.com"], "pw", "2 to 20 letters or digits"),
    (["xy", "--email", "nowhere"], "pw", "'email' must be an email address"),
    (["xy", "--email", "x@example.com"], "", "contains no password"),
    (["ANN", "--email", "x@example.com"], "pw", "already exists with username 'ANN'"),
    (["xy", "--email", "ANN@example.com"], "pw", "already with email 'ANN@example.com'"),
]


def test_an_account_that_cannot_be_is_refused(quartermaster):
    first = ["user", "create", "Ann", "--email", "ann@example.com", "--password-stdin"]
    # A password may hold any bytes.
    assert quartermaster(*first, stdin=b"\xff\xfe\n").exit_code == 0
    for arguments, stdin, fault in BAD_ACCOUNTS:
        refused = quartermaster("user", "create", *arguments, "--password-stdin", stdin=stdin)
        assert (refused.exit_code, fault in refused.stderr) == (1, True), refused.stderr


def test_a_token_needs_the_role_and_then_works(quartermaster, make_app):
    quartermaster("user", "create", "Ann", "--email", "a@b.co", "--password-stdin", stdin="pw")
    refused = quartermaster("token", "Ann")
    assert refused.exit_code == 1
    assert "quartermaster api grant Ann api" in refused.stderr
    quartermaster("api", "grant", "Ann", "api")
    printed = quartermaster("token", "Ann")
    token = printed.stdout.strip()
    assert token not in printed.stderr
    headers = {"Authorization": f"Bearer {token}"}
    client = make_app(config.load()).test_client()
    assert client.get("/api/v1/players", headers=headers).status_code == 200


def test_an_unusable_uri_is_told_of_without_its_password(monkeypatch):
    password = "hunter2hunter2"
    for uri in (
        *("mongodb://keeper:12/{}@db/qm", "mongodb://keeper:{}/x@db/qm", "keeper:{}@db:27017"),
        *("mongodb://keeper:{}@x@db/qm", "mongodb://keeper:x?{}@db/qm", "mongodb://k:{}%@db/qm"),
        *("mongodb://keeper:{}@db:port/qm", "mongodb:/keeper:{}@db", "mongodb+srv://k:{}@db:1/"),
    ):
        monkeypatch.setenv("QM_MONGODB_URI", uri.format(password))
        done = CliRunner().invoke(main, ["db", "init"])
        assert done.exit_code == 1
        is_scheme = uri.startswith(("mongodb://", "mongodb+srv://"))
        fault = "cannot be used: " if is_scheme else "must begin with mongodb://"
        assert done.output.startswith(f"Error: QM_MONGODB_URI {fault}")
        assert ".." not in done.output
        assert password not in done.output


def test_roles_and_staff_are_managed_and_somebody_is_rescued(quartermaster, real_db):
    address = ("--email", "anna@example.com", "--password-stdin")
    quartermaster("user", "create", "anna", *address, stdin="secret")
    terms = ('Permissions=["items.move"]', 'Limits={"ItemsPerDay": 7}')
    made = ("run", "create-role", "-", "Name=events", *terms)
    assert json.loads(quartermaster(*made).stdout)["Permissions"] == ["items.move"]
    assert "already a role" in quartermaster(*made).stderr
    change = ("run", "change-role", "events", 'Permissions=["players.read"]')
    assert quartermaster(*change).exit_code == 0
    for name, code in (("events", 0), ("king", 1)):
        done = quartermaster("run", "set-roles", "anna", f'Roles=["{name}"]')
        assert (done.exit_code, "no role 'king'" in done.stderr) == (code, bool(code))
    assert "anna: events" in quartermaster("staff", "list").stdout
    assert quartermaster("run", "disable-account", "anna").exit_code == 0
    assert "anna: events  disabled" in quartermaster("staff", "list").stdout
    real_db.users.update_one({"Name": "anna"}, {"$set": {"IsBanned": True}})
    assert quartermaster("staff", "rescue", "anna").stdout == "anna: events, administrator\n"
    assert not real_db.users.find_one({"Name": "anna"})["IsBanned"]
    # The way in is for one account: the role is as it was.
    assert real_db.roles.find_one({"_id": "administrator"}) is None
    refused = quartermaster("run", "disable-account", "anna").stderr
    assert "Nobody could manage staff then" in refused
    assert quartermaster(*change, "NeedsSecondFactor=true").exit_code == 0
    refused = quartermaster("token", "anna").stderr
    assert "requires a second factor: set it up at the console first" in refused


def test_an_operation_is_run_once_with_its_key_and_refused_by_a_sentence(quartermaster, real_db):
    item = guid()
    real_db.players.insert_one(make_player(Name="Aladric"))
    give = ("run", "give", "aladric", f"itemid={item}", "quantity=5", "--reason", "Ticket 4711")
    for replayed in (False, True):
        done = quartermaster(*give, "--idempotency-key", "order-1")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)
        assert ("Idempotency-Replayed: true" in done.stderr) == replayed
    (entry,) = real_db.history.find()
    assert (entry["Via"], entry["Reason"], entry["By"]["UserId"]) == ("cli", "Ticket 4711", None)
    assert f"X-History-Id: {entry['_id']}" in done.stderr
    other = quartermaster(*give[:4], "quantity=6", "--idempotency-key", "order-1")
    assert (other.exit_code, "Idempotency-Key" in other.stderr) == (1, True)
    for code, wrong, sentence in (
        (1, ("give", "aladric", f"itemid={item}", "quantity=many"), "must be a whole number"),
        (1, ("give", "aladric", f"itemid={item}", "quantity=1", "bankover=true"), "is unknown"),
        (1, ("take", "aladric", f"itemid={item}", "quantity=99"), "The inventory holds 5"),
        (1, ("give", "nobody", f"itemid={item}", "quantity=1"), "No player with name 'nobody'."),
        (2, ("fly", "aladric"), "'give'"),
        (2, ("give", "aladric", "quantity"), "'quantity' is not NAME=VALUE."),
    ):
        refused = quartermaster("run", *wrong)
        assert (refused.exit_code, sentence in refused.stderr) == (code, True), refused.stderr
    undo = quartermaster("run", "undo", "-", f"id={entry['_id']}")
    assert undo.exit_code == 0, undo.output
    assert real_db.players.find_one()["Inventory"] == {}


def test_users_who_have_signed_in_are_imported_again(quartermaster, real_db, tmp_path):
    """All that a document may have is exported as an import takes it, or left out and named."""
    real_db.users.insert_one({**make_user(HASH, Name="Ann"), "LastSignInAt": NOW, "Own": 1})
    file = tmp_path / "users.jsonl"
    for command, stdout in (("export", ""), ("import", "Imported 1 users.\n")):
        done = quartermaster(command, "users", file)
        assert (done.exit_code, done.stdout) == (0, stdout), done.output
        assert "does not contain staff roles, sign-ins, API keys, second factors" in done.stderr
        assert "and that an account is disabled: quartermaster backup does.\n" in done.stderr
    assert real_db.users.find_one()["LastSignInAt"] == NOW


def test_import_and_export_say_what_they_omit(quartermaster, tmp_path):
    for kind, omitted in (("players", "deleted players"), ("bags", "history")):
        done = quartermaster("export", kind, tmp_path / kind)
        assert done.stderr.startswith(f"A file of {kind} does not contain {omitted}")
    assert quartermaster("export", "objects", tmp_path / "objects").stderr == ""
