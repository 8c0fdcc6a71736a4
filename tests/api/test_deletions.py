"""Deleting and renaming players, with history and undo."""

from datetime import datetime, timedelta, timezone

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from app.core.changes import BOOKKEEPING, Intent, Origin
from app.core.naming import former_names, name_key
from app.players.domain import SUBJECT
from app.storage.bulk import Replacer
from tests.factories import NOW, guid, make_player, numbered_guid

ITEM = numbered_guid(1)
GIFT = {"itemid": ITEM, "quantity": 1}


@pytest.fixture
def player(world):
    return world.add_player(
        Name="Aladric",
        Inventory={"0": {"ItemId": ITEM, "Quantity": 5}},
        Variables={numbered_guid(2): 7},
        Notes={guid(): {"At": NOW, "UserId": guid(), "Name": "clerk", "Text": "Kind."}},
    )


def rename(staff, key, name, status=200):
    return staff(f"POST players/{key}/name", {"Name": name}, status).json


def delete(staff, key="Aladric", status=200):
    return staff(f"DELETE players/{key}", None, status).json


def entries(staff, key="Aladric"):
    return staff(f"GET players/{key}/history").json["Values"]


def undo(staff, entry, status=200, **more):
    return staff(f"POST history/{entry['Id']}/undo", None, status, **more).json


def delete_and_undo(staff):
    delete(staff)
    undo(staff, entries(staff)[0])


def without_bookkeeping(document):
    return {name: value for name, value in document.items() if name not in BOOKKEEPING}


class TestRename:
    def test_the_player_is_found_by_its_new_name_and_its_entry_tells_both(self, staff, player):
        assert rename(staff, "Aladric", "Bérengar") == {"Id": player["_id"], "Name": "Bérengar"}
        assert staff("GET players/bérengar").json["Id"] == player["_id"]
        staff("GET players/Aladric", status=404)
        found = staff("GET players?search=reng").json["Values"]
        assert [record["Id"] for record in found] == [player["_id"]]
        (entry,) = entries(staff, "Bérengar")
        assert (entry["Operation"], entry["Subject"]["Name"]) == ("rename", "Aladric")
        assert entry["Changes"] == [{"Path": "Name", "Before": "Aladric", "After": "Bérengar"}]

    def test_a_name_that_cannot_be_shown_or_asked_for_or_is_taken_is_refused(
        self, staff, player, world
    ):
        world.add_player(Name="Berengar")
        assert "already has this name" in rename(staff, "Aladric", "BERENGAR", 409)["Message"]
        for name in (
            *("", "  ", "a ", "Rank", "a/b", "..", "x" * 256, "a\tb", numbered_guid(9)),
            # What no registration takes either: twins that look alike, markup, keys and so on.
            *("Aladric\ufe0f", "Ala\u200ddric", "Ala\u202edric", "Ala\u00addric", "Ala\u3164dric"),
            *("x", "x" * 41, "Bad<script>", "Tom & Anna", "Two  blanks", "a{b}", "100%"),
            *("qm_Aladric", "QM_x", "WyIabcdefghijklmnopqrstuvwxyz", "a" * 40 + "b" * 24),
        ):
            assert "Name" in rename(staff, "Aladric", name, 400)["Errors"], name
        assert staff("GET players/Aladric").json["Name"] == "Aladric"

    def test_a_name_of_any_script_or_in_another_case_can_be_given(self, staff, player):
        for name in ("ALADRIC", "Zoë van der Berg", "O'Neill-2", "निशा", "[GM] J. ★", "x" * 40):
            assert rename(staff, player["_id"], name)["Name"] == name

    def test_an_imported_name_stays_and_comes_back(self, staff, world):
        """An import takes what nobody could give: a game that saves it is not refused."""
        odd = world.add_player(Name="Bad<b>\ufe0f")
        path = f"players/{odd['_id']}"
        staff(f"PUT {path}", {"Name": odd["Name"], "Level": 3})
        refused = staff(f"PUT {path}", {"Name": "Bad<i>"}, 400).json
        assert "Must not contain < or >" in refused["Errors"]["Name"][0]
        rename(staff, odd["_id"], "Good")
        undo(staff, entries(staff, "Good")[0])
        assert staff(f"GET {path}").json["Name"] == odd["Name"]

    def test_undo_gives_the_former_name_back_unless_it_is_taken_or_given_since(
        self, staff, player, world
    ):
        rename(staff, "Aladric", "Berengar")
        undone = undo(staff, entries(staff, "Berengar")[0])
        assert undone["Changes"][0]["After"] == "Aladric"
        redone = undo(staff, undone)
        world.add_player(Name="Aladric")
        assert "already has this name" in undo(staff, redone, 409)["Message"]
        rename(staff, "Berengar", "Casimir")
        assert "Casimir" in undo(staff, redone, 409)["Message"]

    def test_history_finds_a_player_by_a_former_name(self, staff, player):
        def found(name):
            entries = staff(f"GET history?player={name}").json["Values"]
            return {entry["Subject"]["Id"] for entry in entries}

        rename(staff, "Aladric", "Berengar")
        rename(staff, "Berengar", "Casimir")
        for name in ("aladric", "BERENGAR", "Casimir"):
            assert found(name) == {player["_id"]}
        # A path means today's name, and the field is nobody's business.
        staff("GET players/Aladric", status=404)
        assert "FormerNames" not in staff("GET players/Casimir").json
        delete(staff, "Casimir")
        assert found("aladric") == {player["_id"]}
        staff("GET history?player=Nobody", status=404)

    def test_a_name_that_another_has_now_means_that_one(self, staff, player, world):
        rename(staff, "Aladric", "Berengar")
        other = world.add_player(Name="Aladric")
        assert staff("GET history?player=Aladric").json["Values"] == []
        rename(staff, "Aladric", "Casimir")
        ids = " or ".join(sorted([player["_id"], other["_id"]]))
        assert staff("GET history?player=Aladric", status=400).json["Message"] == (
            f"'Aladric' is a former name of several players: give the id of one, {ids}."
        )

    def test_a_former_name_that_is_todays_again_is_no_former_one(self, staff, player, db):
        rename(staff, "Aladric", "Berengar")
        undo(staff, entries(staff, "Berengar")[0])
        assert db.players.find_one()["FormerNames"] == [{"Name": "Berengar", "Key": "berengar"}]
        rename(staff, "Aladric", "ALADRIC")
        assert former_names(db.players.find_one()) == ["Berengar"]
        for number in range(30):
            # A game that gives a character another name leaves the former one, too.
            staff(f"PUT players/{player['_id']}", {"Name": f"Name {number}"})
        last = [f"Name {number}" for number in range(28, 8, -1)]
        assert former_names(db.players.find_one()) == last

    def test_an_import_keeps_the_former_names_and_adds_one(self, real_storage, real_db):
        intent = Intent("import", Origin(None, "tester", "cli"))
        replacer = Replacer(real_storage, SUBJECT, intent)
        player = make_player()

        def imported(name):
            document = {**player, "Name": name, "NameKey": name_key(name)}
            list(replacer.replace_all([RawBSONDocument(bson.encode(document))]))
            return real_db.players.find_one()

        former = [former_names(imported(name)) for name in ("Aladric", "Berengar")]
        assert former == [[], ["Aladric"]]
        last = imported("Casimir")
        assert former_names(last) == ["Berengar", "Aladric"]
        # The same once more changes nothing.
        assert imported("Casimir") == last


class TestDelete:
    def test_it_is_gone_and_its_history_stays(self, staff, player):
        assert delete(staff) == {"Id": player["_id"], "Name": "Aladric"}
        for key in ("Aladric", player["_id"]):
            staff(f"GET players/{key}", status=404)
            assert [entry["Operation"] for entry in entries(staff, key)] == ["delete-player"]
        delete(staff, status=404)

    def test_undo_brings_it_back_as_it_was_and_undo_of_that_deletes_it_again(
        self, staff, player, db
    ):
        delete_and_undo(staff)
        assert without_bookkeeping(db.players.find_one()) == without_bookkeeping(player)
        assert db.deleted_players.count_documents({}) == 0
        entry, first = entries(staff)
        assert [entry["Operation"], first["Operation"]] == ["undo", "delete-player"]
        for number in range(3):
            entry = undo(staff, entry)
            assert db.players.count_documents({}) == number % 2

    def test_undo_is_refused_while_another_has_the_name_or_the_id(self, staff, player, world, db):
        delete(staff)
        entry = entries(staff)[0]
        other = world.add_player(Name="ALADRIC")
        assert "already has this name" in undo(staff, entry, 409)["Message"]
        staff(f"POST history/{entry['Id']}/undo", {"DryRun": True}, 409)
        db.players.delete_one({"_id": other["_id"]})
        # Somebody else has brought it back.
        db.players.insert_one(player)
        assert "exists again" in undo(staff, entry, 409)["Message"]
        assert db.deleted_players.count_documents({}) == 1

    def test_who_is_online_is_not_deleted(self, staff, world, db):
        now = datetime.now(timezone.utc)
        world.add_player(Name="Aladric", Online=True, LastSeen=now)
        assert "is online" in delete(staff, status=409)["Message"]
        db.players.update_one({}, {"$set": {"LastSeen": now - timedelta(days=1)}})
        delete(staff)

    def test_one_that_its_validator_would_refuse_is_brought_back_as_it_was(self, staff, player, db):
        """A game may have stored it before there was a validator."""
        db.players.delete_many({})
        odd = {**player, "Level": "high", "Equipment": None}
        db.players.insert_one(odd, bypass_document_validation=True)
        delete_and_undo(staff)
        assert without_bookkeeping(db.players.find_one()) == without_bookkeeping(odd)

    def test_a_change_that_is_repeated_after_the_deletion_gets_its_answer(self, staff, player):
        path = "POST players/{}/items/give"
        first = staff(path.format("Aladric"), GIFT, Idempotency_Key="give-1")
        delete(staff)
        for key in (player["_id"], "Aladric"):
            again = staff(path.format(key), GIFT, Idempotency_Key="give-1")
            assert (again.json, again.headers["Idempotency-Replayed"]) == (first.json, "true")
        staff(path.format("Aladric"), GIFT, 404, Idempotency_Key="give-2")
