"""quartermaster db check, on the real MongoDB."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from app.core.progress import progress
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


def test_every_fault_is_a_line_and_what_can_be_repaired_is(check, real_db):
    broken = list(broken_documents.store_broken(real_db))
    before = documents_of(real_db)
    for options, outcome in (([], "can be repaired"), (["--repair"], "repaired")):
        code, lines = check(*options)
        assert code == 1
        for name, fault, is_repairable in broken:
            outcomes = outcome if is_repairable else "needs manual repair"
            assert f"{name}: {fault} ({outcomes})" in lines
        assert (documents_of(real_db) == before) is not options
    code, lines = check()
    assert code == 1
    faults = {line for line in lines[:-1] if not line.startswith("Note: ")}
    assert {line for line in faults if not line.endswith("(needs manual repair)")} == set()
    for name, fault, is_repairable in broken:
        assert (f"{name}: {fault} (needs manual repair)" in faults) is not is_repairable


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
        assert (code, "users: the index 'name' is missing" in "".join(lines)) == (1, True)
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
    counts = {"Ready": 2, "Done": 1, "Refused": 3, "Replanned": 0}
    verdicts = ("ready", "done", "done", "refused")
    rows = [make_batch_row(player, batch, n, Verdict=v) for n, v in enumerate(verdicts, 1)]
    real_db.users.insert_one(owner)
    real_db.players.insert_one(player)
    real_db.batches.insert_one(make_batch(_id=batch, State="paused", Counts=counts, Rows=6))
    real_db.batch_rows.insert_many(rows)
    fault = f"batches {batch} (Gifts): Counts.Done is below the 2 such rows (needs manual repair)"
    assert check("--repair")[1][0] == fault
    # An erasure deletes rows of what is done.
    real_db.batch_rows.delete_many({"Verdict": "done"})
    assert check()[0] == 0


def test_what_may_be_a_fault_is_noted(check, real_db):
    owner = make_user()
    day, *days = (ago(days=n) for n in (1, 2, 3, 500))
    recorded, older, unrecorded, _ = players = [
        {**make_player(UserId=owner["_id"]), "Version": version, "ChangedAt": at}
        for version, at in ((5, day), (4, day), (9, day), (9, days[-1]))
    ]
    inner = make_bag()
    bag = make_bag({"0": {**broken_documents.APPLE, "BagId": inner["_id"]}})
    real_db.users.insert_one(owner)
    real_db.players.insert_many(players)
    real_db.bags.insert_many([bag, inner])
    real_db.history.insert_many(
        [
            *(make_entry(one, Version=4, At=days[1]) for one in (recorded, older)),
            *(make_entry(one, Version=5, At=day) for one in (recorded, older)),
            make_entry(unrecorded, Version=9, At=days[0]),
        ]
    )
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
    assert any("Note: players" in line and " and 1 others: " in line for line in check()[1])


@pytest.fixture
def overtaken(monkeypatch):
    """Let somebody else write after a repair has read its document, and before it writes."""

    def overtaken(*writes):
        left = iter(writes)

        class Overtaken(Changes):
            def decide_on(self, *arguments):
                if write := next(left, None):
                    with ThreadPoolExecutor(1) as other:
                        other.submit(write).result()
                return super().decide_on(*arguments)

        monkeypatch.setattr(scan, "Changes", Overtaken)

    return overtaken


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_change_while_it_repairs_is_not_lost(check, real_db, real_storage, overtaken, times):
    player = make_player(Name="Bob", Inventory={"5": broken_documents.EMPTY})
    player |= {"NameKey": "wrong", "UserId": guid()}
    real_db.players.insert_one(player, bypass_document_validation=True)
    rule = partial(give, itemid=broken_documents.ITEM, quantity=1, limits=LIMITS)
    where, reads = {"_id": player["_id"]}, ("Inventory", "Bank")
    gifts = [
        partial(change, real_storage, where, reads, rule, meant("give", guid(), "f"))
        for _ in range(times)
    ]
    overtaken(*gifts)
    check("--repair", "--reason", "after the crash")
    after = real_db.players.find_one({"_id": player["_id"]})
    assert after["NameKey"] == "bob"
    held = {"0": {"ItemId": broken_documents.ITEM, "Quantity": times}} if times else {}
    assert after["Inventory"] == held
    *others, repair = entries_of(real_db, player)
    assert [entry["Operation"] for entry in others] == ["give"] * times
    assert (repair["Operation"], repair["Reason"]) == ("repair", "after the crash")


def test_a_game_that_counts_no_version_loses_nothing_either(check, real_db, overtaken):
    player = make_player(Name="Bob", Inventory={"5": broken_documents.EMPTY})
    real_db.players.insert_one(player, bypass_document_validation=True)
    fill = {"$set": {"Inventory.6": broken_documents.APPLE}}
    overtaken(partial(real_db.players.update_one, {"_id": player["_id"]}, fill))
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


def test_a_bar_shows_how_far_it_is_on_a_terminal(monkeypatch):
    for is_terminal in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda is_terminal=is_terminal: is_terminal
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("Checking players", 200) as advance:
            advance(200)
        assert ("Checking players" in stream.getvalue()) is is_terminal
