"""quartermaster db check, on the real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from app.database import COLLECTIONS
from app.maintenance.integrity import scan
from app.players.items.domain import Limits, give
from app.storage.changes import Changes
from app.storage.schema.collections import differences, init_database
from app.storage.schema.migrations import CURRENT, VERSIONS
from tests import broken_documents
from tests.changes import change, entries_of, meant
from tests.collection_plans import NAMES
from tests.factories import (
    guid,
    make_bag,
    make_batch,
    make_batch_row,
    make_entry,
    make_guild,
    make_player,
    make_user,
)
from tests.system import fork_server
from tests.system.programs import PROGRAM, environment

LIMITS = Limits(35, 100, 1_000_000)


@pytest.fixture
def check(quartermaster, real_db):
    """Run db check in this process; returns its exit code and its lines."""
    # Tests that share this database may have dropped a validator.
    init_database(real_db, COLLECTIONS)

    def run(*options):
        result = quartermaster("db", "check", *options)
        assert result.exit_code in (0, 1), result.output
        return result.exit_code, result.stdout.splitlines()

    return run


def test_a_valid_database_has_no_faults(check, real_db):
    owner = make_user()
    real_db.users.insert_one(owner)
    real_db.players.insert_one(make_player(UserId=owner["_id"], Guild={"Rank": 1}))
    clean = f"The database 'quartermaster' (SchemaVersion {CURRENT}): "
    clean += "checked 1 players, 1 users, 1 schema; no faults found."
    for options in ([], ["--repair"], []):
        code, (line,) = check(*options)
        # Bookkeeping that db init may have written.
        assert (code, line.replace("1 locks, ", "")) == (0, clean)


def test_every_fault_is_a_line_and_what_can_be_repaired_is(check, real_db):
    broken = list(broken_documents.store_broken(real_db))
    before = documents_of(real_db)
    code, lines = check()
    assert (code, documents_of(real_db)) == (1, before)
    outcomes = {True: "can be repaired", False: "needs manual repair"}
    for name, fault, is_repairable in broken:
        assert f"{name}: {fault} ({outcomes[is_repairable]})" in lines

    code, lines = check("--repair")
    assert code == 1
    outcomes[True] = "repaired"
    for name, fault, is_repairable in broken:
        assert f"{name}: {fault} ({outcomes[is_repairable]})" in lines

    code, lines = check()
    assert code == 1
    faults = [line for line in lines[:-1] if not line.startswith("Note: ")]
    assert not [line for line in faults if not line.endswith("(needs manual repair)")]
    for name, fault, is_repairable in broken:
        assert (f"{name}: {fault} (needs manual repair)" in lines) is not is_repairable


def test_a_bag_in_two_slots_is_a_fault(check, real_db):
    owner, bag, outer = make_user(), make_bag(), make_bag()
    held = {"3": {"ItemId": guid(), "Quantity": 1, "BagId": bag["_id"]}}
    player = make_player(UserId=owner["_id"], Bank=held)
    guild = make_guild(Bank=held)
    real_db.users.insert_one(owner)
    real_db.players.insert_one(player)
    real_db.bags.insert_many([bag, outer])
    assert check()[0] == 0
    for collection, holder, field in (("guilds", guild, "Bank"), ("bags", outer, "Slots")):
        real_db[collection].replace_one({"_id": holder["_id"]}, {**holder, field: held}, True)
        code, lines = check("--repair")
        fault = (
            f"3 has a bag that is also in Bank.3 of players {player['_id']} (needs manual repair)"
        )
        assert code == 1
        assert [line for line in lines if line.endswith(f"{field}.{fault}")], lines
        real_db[collection].delete_one({"_id": holder["_id"]})


def documents_of(db, kinds=("players", "users", "bags")):
    return {document["_id"]: document for kind in kinds for document in db[kind].find()}


def test_a_document_whose_key_is_anothers_is_left(check, real_db):
    """Two names with the same key, stored before names were compared without case."""
    real_db.players.insert_many([make_player(Name="Bob"), make_player(Name="Ann")])
    ann = real_db.players.find_one({"Name": "Ann"})
    break_name = {"$set": {"Name": "BOB"}}
    real_db.players.update_one({"_id": ann["_id"]}, break_name, bypass_document_validation=True)
    code, lines = check("--repair")
    why = "not repaired: another has the same key, or it was being changed"
    line = f"players {ann['_id']} (BOB): NameKey does not match the Name ({why})"
    assert (code, line in lines) == (1, True)
    assert real_db.players.find_one({"_id": ann["_id"]})["NameKey"] == "ann"


@pytest.fixture
def unprepared_db(real_db):
    """A database that may be left without its indexes and validators."""
    yield real_db
    for name in NAMES - {VERSIONS}:
        real_db[name].delete_many({})
    init_database(real_db, COLLECTIONS)


def test_indexes_and_validators_that_are_missing_are_faults(check, unprepared_db):
    unprepared_db.players.drop_index("rank")
    unprepared_db.command("collMod", "users", validationLevel="off")
    code, lines = check()
    assert code == 1
    assert "players: the index 'rank' is missing or different (can be repaired)" in lines
    assert "users: the validator is missing or different (can be repaired)" in lines
    assert check("--repair")[0] == 0
    assert list(differences(unprepared_db, COLLECTIONS)) == []


def test_a_database_that_is_older_is_a_fault_until_it_is_brought_up_to_date(check, unprepared_db):
    unprepared_db.schema.delete_many({})
    older = {"_id": guid(), "SlotCount": 1, "Version": 1}
    unprepared_db.bags.insert_one(older, bypass_document_validation=True)
    code, lines = check()
    assert code == 1
    assert lines[0] == f"schema: SchemaVersion is 0, not {CURRENT} (can be repaired)"
    assert not any(older["_id"] in line for line in lines), "db init would bring it up to date"
    assert lines[-1].startswith("The database 'quartermaster' (SchemaVersion 0): ")
    assert check("--repair")[0] == 0


def test_duplicates_keep_a_unique_index_missing_and_db_init_names_one(
    check, unprepared_db, quartermaster
):
    unprepared_db.users.drop_index("name")
    duplicates = [make_user(Name="Bob"), make_user(Name="BOB", Email="other@example.com")]
    unprepared_db.users.insert_many(duplicates)
    for options in ([], ["--repair"]):
        code, lines = check(*options)
        assert code == 1
        assert [line for line in lines if "users: the index 'name' is missing" in line]
    assert 'NameKey: "bob"' in quartermaster("db", "init").output


def test_no_line_holds_a_secret(check, real_db):
    user = make_user(PasswordHash="secret", Reset={"Code": "secret"})
    real_db.users.insert_one(user, bypass_document_validation=True)
    token = {"_id": "f" * 64, "Chain": "secret"}
    real_db.refresh_tokens.insert_one(token, bypass_document_validation=True)
    output = "\n".join(check()[1])
    assert "refresh_tokens ffffffff...: Chain is not a lower-case guid" in output
    assert "secret" not in output
    assert "f" * 9 not in output


def ago(**time):
    return datetime.now(timezone.utc).replace(microsecond=0) - timedelta(**time)


def test_counts_of_a_batch_that_are_below_its_rows_are_faults(check, real_db):
    """Such as after a restore of a dump that was made while it ran."""
    owner, batch = make_user(), guid()
    player = make_player(UserId=owner["_id"])
    real_db.users.insert_one(owner)
    real_db.players.insert_one(player)
    counts = {"Ready": 2, "Done": 1, "Refused": 3, "Replanned": 0}
    real_db.batches.insert_one(make_batch(_id=batch, State="paused", Counts=counts, Rows=6))
    verdicts = ("ready", "done", "done", "refused")
    rows = [make_batch_row(player, batch, n, Verdict=v) for n, v in enumerate(verdicts, 1)]
    real_db.batch_rows.insert_many(rows)
    fault = f"batches {batch} (Gifts): Counts.Done is below the 2 such rows"
    code, lines = check("--repair")
    assert (code, lines[0]) == (1, f"{fault} (needs manual repair)")
    # An erasure deletes rows of what is done.
    real_db.batch_rows.delete_many({"Verdict": "done"})
    assert check()[0] == 0


def test_what_may_be_a_fault_is_noted(check, real_db):
    owner = make_user()
    owned, (day, *days) = {"UserId": owner["_id"]}, (ago(days=n) for n in (1, 2, 3, 500))
    players = [
        {**make_player(**owned), "Version": version, "ChangedAt": at}
        for version, at in ((5, day), (4, day), (9, day), (9, days[-1]))
    ]
    recorded, older, unrecorded, _ = players
    bag, inner = make_bag(), make_bag()
    bag["Slots"] = {"0": {**broken_documents.APPLE, "BagId": inner["_id"]}}
    real_db.users.insert_one(owner)
    real_db.players.insert_many(players)
    real_db.bags.insert_many([bag, inner])
    for player in (recorded, older):
        changes = [(4, days[1]), (5, day)]
        real_db.history.insert_many([make_entry(player, Version=n, At=at) for n, at in changes])
    real_db.history.insert_one(make_entry(unrecorded, Version=9, At=days[0]))
    for options in ([], ["--repair"]):
        code, lines = check(*options)
        assert code == 0
        assert [line for line in lines if line.startswith("Note: ")] == [
            f"Note: bags {bag['_id']}: is in no slot",
            f"Note: players {older['_id']}: has a lower Version than its last change in history: "
            "it may be an older copy",
            f"Note: players {unrecorded['_id']}: was changed, but history has no entry of its last "
            "change",
        ]
    real_db.players.update_one({"_id": recorded["_id"]}, {"$set": {"Version": 1}})
    (line, *_) = [line for line in check()[1] if "Note: players" in line]
    assert " and 1 others: has a lower Version" in line


class Overtaken(Changes):
    """Somebody else writes after a repair has read its document, and before it writes."""

    def decide_on(self, *arguments):
        if write := next(self.writes, None):
            with ThreadPoolExecutor(1) as other:
                other.submit(write).result()
        return super().decide_on(*arguments)


@pytest.mark.parametrize("times", [1, 3])
def test_a_change_while_it_repairs_is_not_lost(check, real_db, real_storage, monkeypatch, times):
    player = make_player(Name="Bob", Inventory={"5": broken_documents.EMPTY})
    player |= {"NameKey": "wrong", "UserId": guid()}
    real_db.players.insert_one(player, bypass_document_validation=True)
    monkeypatch.setattr(scan, "Changes", Overtaken)
    monkeypatch.setattr(
        Overtaken, "writes", iter([partial(give_one, real_storage, player)] * times), raising=False
    )
    check("--repair")
    after = real_db.players.find_one({"_id": player["_id"]})
    assert after["NameKey"] == "bob"
    assert after["Inventory"] == {"0": {"ItemId": broken_documents.ITEM, "Quantity": times}}
    operations = [entry["Operation"] for entry in entries_of(real_db, player)]
    assert operations == ["give"] * times + ["repair"]


def give_one(storage, player):
    rule = partial(give, itemid=broken_documents.ITEM, quantity=1, limits=LIMITS)
    where, intent = {"_id": player["_id"]}, meant("give", guid(), "f")
    change(storage, where, ("Inventory", "Bank"), rule, intent)


def test_a_game_that_counts_no_version_loses_nothing_either(check, real_db, monkeypatch):
    player = make_player(Name="Bob", Inventory={"5": broken_documents.EMPTY})
    real_db.players.insert_one(player, bypass_document_validation=True)
    fill = {"$set": {"Inventory.6": broken_documents.APPLE}}
    writes = iter([partial(real_db.players.update_one, {"_id": player["_id"]}, fill)])
    monkeypatch.setattr(scan, "Changes", Overtaken)
    monkeypatch.setattr(Overtaken, "writes", writes, raising=False)
    check("--repair")
    after = real_db.players.find_one({"_id": player["_id"]})
    assert after["Inventory"] == {"6": broken_documents.APPLE}


def test_what_belongs_to_somebody_who_is_being_erased_is_left(check, real_db):
    """A repair would keep a name in history."""
    player = {**make_player(Name="Bob"), "NameKey": "wrong"}
    real_db.players.insert_one(player)
    record = {"_id": player["UserId"], "BegunAt": ago(), "FinishedAt": None}
    real_db.erasures.insert_one({**record, "Players": [], "Bags": []})
    check()
    assert real_db.history.count_documents({}) == 0


def test_a_bar_shows_how_far_it_is_on_a_terminal(tmp_path, mongodb_uri, real_db):
    real_db.players.insert_many([make_player() for _ in range(600)])
    env = environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri)
    _, shown = fork_server.run_on_terminal([PROGRAM, "db", "check"], env)
    assert "Checking players" in shown
