"""The rules of game check: what documents and writes tell of a game."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.game_check.habits import Habit
from app.game_check.report import Findings, example_of
from app.game_check.service_changes import Write
from app.game_check.stored import (
    action_habits,
    book_habits,
    fault_habits,
    is_ban_ignored,
    is_polling,
    is_stored_again,
    is_written_while_deleted,
    why_nobody_looks,
    wrong_fields_of,
)
from app.game_check.writes import RunningWrites, Writes, compare_looks, look_at
from app.players.domain import SUBJECT
from app.storage.schema.explain_validator import Fault
from app.users import domain as users
from tests.factories import NOW, guid, make_entry, make_player, make_user, numbered_guid

LATER = NOW + timedelta(minutes=5)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(NOW),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)


def names(found):
    return [habit.label for habit, _ in found]


@pytest.mark.parametrize(
    ("where", "what", "habit", "field"),
    [
        ("NameTails", "is missing", Habit.MISSING_FIELDS, "NameTails"),
        ("Version", "is missing", Habit.NO_VERSION, "Version"),
        ("Version", "is a text, not a whole number", Habit.NO_VERSION, "Version"),
        ("NameKey", "does not match the Name", Habit.WRONG_KEYS, "NameKey"),
        ("Bank.3", "is an empty slot, which must not be stored", Habit.EMPTY_SLOTS, "Bank.*"),
        ("Bank", "is null, not a map", Habit.NULLS, "Bank"),
        ("Bank.12.BagId", "is null, not a text", Habit.NULLS, "Bank.*.BagId"),
        ("Level", "is a fraction, not a whole number", Habit.WRONG_TYPES, "Level"),
        (f"Variables.{numbered_guid(1)}", "is a text, not x", Habit.WRONG_TYPES, "Variables.*"),
        ("UserId", "is not a lower-case guid", Habit.WRONG_TYPES, "UserId"),
        ("Journal.0", "is not a journal entry", Habit.OWN_FIELDS, "Journal.*"),
        ("DeletedAt", "is null, not a time", Habit.OWN_FIELDS, "DeletedAt"),
        ("Shoe", "is unknown", Habit.UNKNOWN_FIELDS, "Shoe"),
        ("Exp", "is below 0", Habit.WRONG_VALUES, "Exp"),
        ("BaseStats", "has 1 entries, not 5 to 5", Habit.WRONG_VALUES, "BaseStats"),
    ],
)
def test_a_fault_is_told_as_a_habit(where, what, habit, field):
    assert fault_habits([Fault(where, what)]) == {habit: [field]}


def changed(**fields):
    """Return a player as the service has left it, and its newest entry."""
    player = make_player(Inventory={"3": {"ItemId": guid(), "Quantity": 2}})
    change = {"Path": "Inventory.3", "Before": None, "After": player["Inventory"]["3"]}
    entry = make_entry(player, Version=7, Number=4, Changes=[change])
    books = {"Version": 7, "LastVersion": 7, "JournalCount": 4, "Stamp": entry["Stamp"]}
    return {**player, **books, **fields}, entry


class TestBooks:
    @pytest.mark.parametrize(
        ("fields", "habit"),
        [
            ({}, None),
            ({"Version": 8, "Inventory": {}}, None),
            ({"Online": True, "LastSeen": NOW}, None),
            ({"Version": 6}, "version-set-back"),
            ({"Version": 6, "LastVersion": 5}, "version-set-back"),
            ({"Inventory": {}}, "changed-uncounted"),
            ({"Inventory": None}, "changed-uncounted"),
            ({"Inventory": {"3": "x"}}, "changed-uncounted"),
            ({"JournalCount": 3}, "lost-entries"),
            ({"JournalCount": "x", "ChangedAt": 5}, "lost-entries own-fields"),
            ({"ChangedAt": NOW + timedelta(days=9)}, "own-fields"),
            ({"LastVersion": -1}, "own-fields"),
        ],
    )
    def test_what_was_written_since_the_last_change(self, fields, habit):
        player, entry = changed(**fields)
        assert " ".join(names(book_habits(SUBJECT, player, [entry], NOW))) == (habit or "")

    def test_a_document_without_entries_tells_nothing(self):
        assert names(book_habits(SUBJECT, make_player(), [], NOW)) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"Path": "Online", "After": True},
            {"Path": "Notes.x", "After": None},
            {"Path": "Bank", "After": "(too large to be told)"},
            {"Path": "Bank"},
            {"After": 5},
            "odd",
        ],
    )
    def test_what_an_entry_does_not_quote_is_not_compared(self, change):
        player, entry = changed()
        assert names(book_habits(SUBJECT, player, [{**entry, "Changes": [change]}], NOW)) == []

    def test_secrets_and_what_an_erasure_hides_are_not_compared(self):
        user = make_user(Stamp=1, Version=1, BanReason="x", JournalCount=1)
        paths = ("Password", "Email", "BanReason", "BannedBy", "Keys.x")
        entry = make_entry(user, "user", Stamp=1)
        entry["Changes"] = [{"Path": path, "Before": None, "After": None} for path in paths]
        assert names(book_habits(users.SUBJECT, user, [entry], NOW)) == []

    def test_an_entry_of_somebody_erased_is_not_compared(self):
        player, entry = changed(Inventory={})
        assert names(book_habits(SUBJECT, player, [{**entry, "IsErased": True}], NOW)) == []

    @given(st.dictionaries(st.sampled_from(sorted(changed()[0])), ODD), ODD, ODD, ODD)
    def test_no_damage_is_an_exception(self, fields, version, number, after):
        player, entry = changed(**fields)
        entry |= {"Version": version, "Number": number}
        entry["Changes"][0]["After"] = after
        list(book_habits(SUBJECT, player, [entry], NOW))
        player["Journal"] = fields
        assert look_at(player) == look_at(player)
        is_written_while_deleted(player)
        is_stored_again(player, fields)


class TestPlayers:
    def test_a_ban_in_force_is_ignored_by_who_plays_on(self):
        account = {"IsBanned": True, "BannedUntil": None, "ChangedAt": NOW}
        player = {"LastSeen": LATER}
        assert is_ban_ignored(player, account, LATER)
        assert is_ban_ignored({"LastSeen": "x"}, account, LATER)
        assert not is_ban_ignored({"LastSeen": NOW}, account, LATER)
        assert not is_ban_ignored(player, {**account, "BannedUntil": NOW}, LATER)
        assert not is_ban_ignored(player, {**account, "IsBanned": False}, LATER)

    def test_a_deleted_player_is_left_alone(self):
        assert not is_written_while_deleted({"Version": 3, "LastVersion": 3})
        assert is_written_while_deleted({"Version": 4, "LastVersion": 3})
        assert not is_written_while_deleted({"Version": "x", "LastVersion": 3})

    @pytest.mark.parametrize(
        ("player", "is_back"),
        [
            ({"LastVersion": 4}, False),
            ({"LastVersion": 3, "DeletedAt": NOW}, False),
            ({"LastVersion": 3}, True),
            ({}, True),
        ],
    )
    def test_who_was_deleted_comes_back_by_the_service_alone(self, player, is_back):
        assert is_stored_again(player, {"LastVersion": 3}) is is_back


def action(**fields):
    times = {"At": NOW, "TakeBefore": NOW + timedelta(seconds=30)}
    answer = dict.fromkeys(("Taken", "TakenBy", "Done", "Error", "Result"))
    return {"_id": guid(), "Kind": "kick", **times, **answer, **fields}


TAKEN = {"Taken": NOW, "TakenBy": "world-1"}


class TestActions:
    @pytest.mark.parametrize(
        ("fields", "habit"),
        [
            ({**TAKEN, "Done": NOW}, ""),
            ({**TAKEN, "Error": "Amelia is not playing.", "Result": None}, ""),
            ({**TAKEN, "Done": NOW, "Result": {"X": 1}}, ""),
            (TAKEN, "never-answered"),
            ({"Done": NOW}, "answered-untaken"),
            ({"Error": "No."}, "answered-untaken"),
            ({**TAKEN, "Done": NOW, "Error": "No."}, "done-and-error"),
            ({**TAKEN, "Taken": LATER, "Done": LATER}, "taken-late"),
            ({**TAKEN, "Done": "yes"}, "wrong-answers"),
            ({**TAKEN, "Error": " "}, "wrong-answers"),
            ({**TAKEN, "Error": 5}, "wrong-answers"),
            ({**TAKEN, "Done": NOW, "Result": []}, "wrong-answers"),
            ({"Taken": NOW, "Done": NOW}, "wrong-answers"),
            ({}, "left-waiting"),
            ({"At": "odd", **TAKEN}, ""),
            ({"At": NOW - timedelta(days=2), **TAKEN}, ""),
        ],
    )
    def test_what_an_action_tells(self, fields, habit):
        assert " ".join(names(action_habits(action(**fields), LATER, True))) == habit

    def test_what_is_recent_may_still_be_answered_or_taken(self):
        soon = NOW + timedelta(seconds=2)
        assert names(action_habits(action(**TAKEN), soon, True)) == []
        assert names(action_habits(action(), soon, True)) == []
        assert names(action_habits(action(), LATER, False)) == []

    @given(st.dictionaries(st.sampled_from(sorted(action())), ODD))
    def test_no_damage_is_an_exception(self, fields):
        list(action_habits(action(**fields), LATER, True))
        wrong_fields_of(fields, NOW)
        is_polling(fields, NOW)
        why_nobody_looks([{"_id": 1, "LookedAt": fields.get("At")}])

    def test_a_game_server_says_who_it_is_and_when_it_looked(self):
        assert wrong_fields_of({"_id": "world-1", "LookedAt": NOW}, NOW) == []
        assert wrong_fields_of({"_id": "x" * 65, "LookedAt": LATER}, NOW) == ["_id", "LookedAt"]
        assert is_polling({"LookedAt": NOW}, NOW + timedelta(seconds=9))
        assert not is_polling({"LookedAt": NOW}, LATER)
        assert "ever" in why_nobody_looks([{"_id": 1}])
        told = why_nobody_looks([{"_id": "a", "LookedAt": NOW}, {"_id": "b", "LookedAt": LATER}])
        assert told == "the last, b, did so at 2026-01-02 03:09:05 UTC"


@pytest.fixture
def seen():
    """See writes to one document, and return which habits they show."""
    findings = Findings()
    writes = Writes(findings, lambda *_: [Fault("Level", "is missing")])

    def see(*some):
        for write in some:
            writes.see(write)
        return [finding.habit.label for finding in findings.values()]

    see.writes, see.findings = writes, findings
    return see


def update(_collection="players", _id="a", removed=(), **updated):
    fields = {name.replace("__", "."): value for name, value in updated.items()}
    return Write("update", _collection, _id, fields, removed, {})


def whole(kind, collection="players", **document):
    """Return an insertion, a replacement or a deletion."""
    return Write(kind, collection, "a", {}, (), document)


def by_service(version, **updated):
    return update(Version=version, Stamp=guid(), **updated)


def by_swap(version, before, after, at=0, path="Inventory.3"):
    """Return a change of the service to one slot, with its entry."""
    change = {"Path": path, "Before": before, "After": after}
    entry = make_entry(make_player(), Version=version, Stamp=guid(), Changes=[change])
    books = {"LastVersion": version, "JournalCount": 1, "Stamp": entry["Stamp"]}
    values = {"Version": version, "Journal": [entry], path: after, **books}
    return update(**values)._replace(at=at)


SWORD, TWO_SWORDS = ({"ItemId": "x", "Quantity": quantity} for quantity in (1, 2))


class TestWrites:
    @pytest.mark.parametrize(
        "write",
        [
            update(Version=3, Inventory__3=5),
            update(Online=True, LastSeen=NOW),
            update(LastOnline=NOW),
            by_swap(8, None, 5),
            by_service(8, Reset={"Failures": 1}),
            update(Journal=[]),
            update(removed=("Journal",)),
            update(RestoredFrom="stamp"),
            update(Notes={}),
            update(Variables={}),
            update("users", PasswordHash="x"),
            update("users", **{"Keys__x__LastUsedAt": NOW}),
            update("users", BanReason="by (erased)", BannedBy="(erased)"),
            whole("delete"),
            whole("insert", "users", Stamp=1, Version=1, Journal=[{"Stamp": 1}]),
        ],
    )
    def test_a_careful_game_and_the_service_have_no_bad_habit(self, seen, write):
        assert seen(write) == []

    @pytest.mark.parametrize(
        ("write", "habit"),
        [
            (update(Inventory__3=5), "uncounted-writes"),
            (update("bags", removed=("Slots.3",)), "uncounted-writes"),
            (update(Version="x", Level=5), "miscounted-writes"),
            (update(Version=None, Level=5), "miscounted-writes"),
            (update(removed=("Version",)), "miscounted-writes"),
            (update(Version=4, Online=True), "presence-counted"),
            (update(Version=4, Level=5, JournalCount=3), "own-fields-written"),
            (update(Version=4, Level=5, Keys__x__LastUsedAt=3), "own-fields-written"),
            (update("users", BanReason="x"), "uncounted-writes"),
            (update(Stamp=5), "own-fields-written uncounted-writes"),
            (update(Version=4, Inventory={"3": 5}), "whole-maps"),
            (
                update(Version=4, Stamp=5, LastVersion=3, JournalCount=1, Journal=[], Level=2),
                "whole-documents",
            ),
            (whole("replace", Version=5), "whole-documents"),
            (whole("insert", Version=0), "missing-fields"),
        ],
    )
    def test_a_careless_game_is_told_its_habit(self, seen, write, habit):
        assert " ".join(seen(write)) == habit

    def test_version_is_counted_up_by_one_for_each_document(self, seen):
        assert seen(by_service(8), update(Version=9, Level=2), update(Version=10, Level=3)) == []
        assert seen(update(_id="b", Version=3), update("bags", Version=1)) == []
        assert seen(whole("delete"), update(Version=1, Level=3)) == []
        assert seen(update(Version=3, Level=4)) == ["miscounted-writes"]

    @pytest.mark.parametrize(
        ("operation", "habit"), [("import", []), ("give", ["whole-documents"])]
    )
    def test_an_import_replaces_documents_and_is_no_game(self, seen, operation, habit):
        entry = {"Stamp": 1, "Operation": operation}
        assert seen(whole("replace", Version=9, Stamp=1, Journal=[entry])) == habit

    def test_a_stamp_or_a_version_that_was_there_before_is_the_games(self, seen):
        given = by_service(8)
        entry = {"Stamp": given.updated["Stamp"], "Operation": "import"}
        saved = whole("replace", Version=8, Stamp=entry["Stamp"], Journal=[entry])
        assert seen(given, saved) == ["whole-documents"]
        former = given._replace(updated={**given.updated, "Version": 9, "Level": 3})
        assert seen(former) == ["whole-documents", "own-fields-written"]
        assert seen(by_service(8, Level=4))[2:] == ["miscounted-writes"]

    def test_a_player_that_is_being_deleted_is_left_alone(self, seen):
        assert seen(by_service(8, DeletedAt=NOW), update(Online=True)) == []
        assert seen(update(Version=9, Level=2)) == ["deleted-written"]

    @pytest.mark.parametrize(
        ("write", "is_lost"),
        [
            (update(Version=9, Inventory__3=5), True),
            (update(Version=9, Inventory__3=6), False),
            (update(Version=9, Inventory__3=7), False),
            (update(Version=9, Inventory={"3": 5}), True),
            (update(Version=9, Inventory={"3": 6}), False),
            (update(Version=9, Inventory={}), False),
            (update(Version=9, Level=2), False),
            (update(Version=9, Inventory__3=5)._replace(at=3), False),
        ],
    )
    def test_what_the_service_has_just_changed_is_not_put_back(self, seen, write, is_lost):
        told = seen(by_swap(8, 5, 6), update(Online=True), write)
        assert ("changes-taken-back" in told) is is_lost

    @pytest.mark.parametrize(
        "writes",
        [
            (by_swap(8, None, 5), update(removed=("Inventory.3",), Version=9)),
            (by_swap(8, SWORD, TWO_SWORDS), update(Version=9, Inventory__3__Quantity=1)),
            # Of several gifts in a row, the first tells what was there.
            (by_swap(8, 5, 6), by_swap(9, 6, 7), update(Version=10, Inventory__3=5)),
        ],
        ids=["an empty slot", "a part of a slot", "several gifts"],
    )
    def test_a_gift_is_taken_back_by_who_did_not_see_it(self, seen, writes):
        assert seen(*writes) == ["changes-taken-back"]

    def test_after_the_first_write_of_the_game_a_slot_is_its_own(self, seen):
        assert seen(by_swap(8, 5, 6), update(Version=9, Level=2)) == []
        assert seen(update(Version=10, Inventory__3=5)) == []

    def test_entries_are_remembered_that_were_added_and_not_those_that_stay(self, seen):
        seen(gift := by_swap(8, 5, 6), update(Journal=gift.updated["Journal"]))
        assert [entry.stamp for entry in seen.writes.changes.entries] == [gift.updated["Stamp"]]

    def test_writes_are_counted_for_the_summary(self, seen):
        seen(update(Level=2), update(_id="b", Version=2), update(Online=True), by_service(9))
        assert (seen.writes.game, seen.writes.presence) == ({"players": 2}, 1)
        assert seen.writes.players == {"a", "b"}


def running(u, q=None, **fields):
    command = {"q": {"_id": "a"} if q is None else q, "u": u}
    return {"opid": guid(), "ns": "x.players", "appName": "world", "command": command, **fields}


COUNTED = {"$inc": {"Version": 1}}
LEVEL = {**COUNTED, "$set": {"Level": 5}}


class TestRunning:
    @pytest.mark.parametrize(
        ("operation", "habit"),
        [
            (running({**COUNTED, "$set": {"Inventory.3": 5}}), "unfiltered-writes"),
            (running({**COUNTED, "$unset": {"Inventory.3": ""}}), "unfiltered-writes"),
            (running(LEVEL, {"_id": "a", "Version": 3}), ""),
            (running(LEVEL, {"$and": [{"Version": 3}]}), ""),
            (running({**COUNTED, "$set": {"Online": True}}), ""),
            (running({"$set": {"Online": True}, "$currentDate": {"LastSeen": True}}), ""),
            (running({"$set": {"Level": 5}}), ""),
            (running([{"$set": {"Level": 5}}]), ""),
            (running({"$set": {"Journal": []}}), "own-fields-written"),
            (running({"$set": {"_id": "a", "Level": 5, "Version": 3}}), "whole-documents"),
            (running({"$set": {"NameKey": "a", "Journal": []}}), "whole-documents"),
            (running({"_id": "a", "Level": 5}), "whole-documents"),
            ({"command": {"query": {"_id": "a"}, "update": LEVEL}}, "unfiltered-writes"),
            ({"command": {"$truncated": "x"}}, ""),
            ({}, ""),
        ],
    )
    def test_what_a_write_tells_while_it_is_carried_out(self, operation, habit):
        findings = Findings()
        RunningWrites(findings).see(operation)
        assert " ".join(finding.habit.label for finding in findings.values()) == habit

    def test_a_write_that_is_caught_twice_is_one(self):
        findings, write = Findings(), running(LEVEL)
        writes = RunningWrites(findings)
        for operation in (write, write, {**write, "opid": 2, "appName": None}):
            writes.see(operation)
        (finding,) = findings.values()
        assert (finding.count, writes.count) == (2, 2)
        assert finding.as_record()["Fields"] == ["a client without a name", "world"]

    @given(ODD, ODD, ODD)
    def test_no_damage_is_an_exception(self, where, update, metadata):
        command = {"q": where, "u": update}
        RunningWrites(Findings()).see({"command": command, "clientMetadata": metadata})


class TestTwoLooks:
    @pytest.mark.parametrize(
        ("fields", "habit", "is_changed"),
        [
            ({}, [], False),
            ({"Online": True, "LastSeen": NOW}, [], False),
            ({"Journal": [1], "Notes": {}, "RestoredFrom": 1}, [], False),
            ({"Stamp": "new", "Version": 9, "Level": 3}, [], False),
            ({"Version": 8, "Level": 3}, [], True),
            ({"Level": 3}, ["uncounted-writes"], True),
            ({"Guild": 3}, ["uncounted-writes"], True),
            ({"Version": 5, "Level": 3}, ["version-set-back"], True),
            ({"Version": "x", "Level": 3}, ["version-set-back"], True),
        ],
    )
    def test_what_became_of_a_player(self, fields, habit, is_changed):
        player, findings = {**make_player(), "Version": 7, "Stamp": "old"}, Findings()
        changed = compare_looks(findings, {**player, **fields}, look_at(player))
        assert ([f.habit.label for f in findings.values()], changed) == (habit, is_changed)


class TestSentences:
    def test_a_finding_names_the_habit_how_many_some_of_them_and_what_to_do(self):
        findings = Findings()
        for name in ("Amelia", "Bob", "Cid"):
            found = {"_id": name.lower(), "Name": name}
            findings.add(Habit.MISSING_FIELDS, "player", example_of(found), ["NameTails"])
        findings.add(Habit.EMPTY_SLOTS, "bag", "x", ["Slots.*"])
        assert [finding.text() for finding in findings.values()] == [
            "3 players, such as Amelia (amelia) and Bob (bob), were stored without NameTails. "
            "Insert every field of a collection, with its default if there is no value.",
            "1 bag, x, was stored with empty slots, in Slots.*. "
            "Unset a slot when it becomes empty.",
        ]
        first = next(iter(findings.values())).as_record()
        assert (first["Habit"], first["Count"], first["Of"]) == ("missing-fields", 3, "player")
        assert first["Examples"] == ["Amelia (amelia)", "Bob (bob)"]

    def test_memory_is_bounded_whatever_is_found(self):
        findings = Findings()
        for number in range(1000):
            findings.add(Habit.OWN_FIELDS, "player", str(number), [f"Field{number}"])
        record = next(iter(findings.values())).as_record()
        assert (record["Count"], len(record["Fields"]), len(record["Examples"])) == (1000, 100, 2)
        assert "and 96 more" in record["Sentence"]

    def test_nothing_of_a_database_breaks_a_terminal(self):
        example = example_of({"_id": "\x1b[31m", "Name": "x" * 1000})
        assert example.isprintable()
        assert len(example) < 150

    def test_every_habit_makes_a_sentence_of_one_and_of_many(self):
        assert len(Habit) > 25
        for habit in Habit:
            for count in (1, 2000):
                findings = Findings()
                findings.add(habit, "write to players", "x", ["A", "B"], count)
                (finding,) = findings.values()
                assert finding.sentence().endswith(".")
                assert "{" not in finding.text()


def test_a_time_before_all_times_is_no_exception():
    first = datetime.min.replace(tzinfo=timezone.utc)
    list(action_habits(action(At=first, Taken=first), LATER, True))
    assert not is_polling({"LookedAt": first}, NOW)
