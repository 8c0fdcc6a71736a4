"""Deleting and renaming players, with history and undo."""

from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from itertools import count

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.errors import AutoReconnect

from app.changes import Intent, Origin
from app.former_names import former_names
from app.naming import name_key
from app.players.deletion.store import Deletions
from app.players.domain import SUBJECT
from app.storage.import_replace import Replacer
from app.storage.unfinished import UnfinishedWork
from tests.applications import service
from tests.factories import NOW, guid, make_player, numbered_guid

ITEM = numbered_guid(1)


@pytest.fixture
def headers(world):
    return world.headers()


@pytest.fixture
def player(world):
    return world.add_player(
        Name="Aladric",
        Inventory={"0": {"ItemId": ITEM, "Quantity": 5}},
        Variables={numbered_guid(2): 7},
        Notes={guid(): {"At": NOW, "UserId": guid(), "Name": "clerk", "Text": "Kind."}},
    )


def rename(client, headers, key, name, **more):
    path = f"/api/v1/players/{key}/name"
    return client.post(path, json={"Name": name}, headers={**headers, **more})


def delete(client, headers, key="Aladric", **more):
    return client.delete(f"/api/v1/players/{key}", headers={**headers, **more})


def entries(client, headers, key):
    return client.get(f"/api/v1/players/{key}/history", headers=headers).json["Values"]


def undo(client, headers, entry, **more):
    return client.post(f"/api/v1/history/{entry['Id']}/undo", headers={**headers, **more})


@contextmanager
def fails(store, method, after=0):
    """Let the database be away in a method, after some calls of it."""
    plain, calls = getattr(store, method), count()

    def away(*args):
        if next(calls) >= after:
            raise AutoReconnect("away")
        return plain(*args)

    setattr(store, method, away)
    try:
        yield
    finally:
        setattr(store, method, plain)


def without_bookkeeping(document):
    swap = ("Version", "LastVersion", "Stamp", "ChangedAt", "Journal", "JournalCount")
    return {name: value for name, value in document.items() if name not in swap}


class TestRename:
    def test_the_player_is_found_by_its_new_name_alone(self, client, headers, player):
        answer = rename(client, headers, "Aladric", "Bérengar")
        assert answer.json == {"Id": player["_id"], "Name": "Bérengar"}
        assert client.get("/api/v1/players/bérengar", headers=headers).json["Id"] == player["_id"]
        assert client.get("/api/v1/players/Aladric", headers=headers).status_code == 404
        found = client.get("/api/v1/players?search=reng", headers=headers).json["Values"]
        assert [record["Id"] for record in found] == [player["_id"]]

    def test_its_entry_tells_both_names(self, client, headers, player):
        rename(client, headers, "Aladric", "Berengar")
        (entry,) = entries(client, headers, "Berengar")
        assert entry["Operation"] == "rename"
        assert entry["Changes"] == [{"Path": "Name", "Before": "Aladric", "After": "Berengar"}]
        assert entry["Subject"]["Name"] == "Aladric"

    def test_another_case_is_another_name_of_the_same_player(self, client, headers, player):
        assert rename(client, headers, "Aladric", "ALADRIC").status_code == 200
        assert client.get("/api/v1/players/aladric", headers=headers).json["Name"] == "ALADRIC"

    def test_a_name_that_another_has_is_refused(self, client, headers, player, world, db):
        world.add_player(Name="Berengar")
        before = list(db.players.find())
        answer = rename(client, headers, "Aladric", "BERENGAR")
        assert answer.status_code == 409
        assert "name already" in answer.json["Message"]
        assert list(db.players.find()) == before

    @pytest.mark.parametrize(
        "name",
        [
            *("", "  ", "a ", "Rank", "a/b", "..", "x" * 256, "a\tb", numbered_guid(9)),
            # What no registration takes either: twins that look alike, markup, keys and so on.
            *("Aladric\ufe0f", "Ala\u200ddric", "Ala\u202edric", "Ala\u00addric", "Ala\u3164dric"),
            *("x", "x" * 41, "Bad<script>", "Tom & Anna", "Two  blanks", "a{b}", "100%"),
            *("qm_Aladric", "QM_x", "WyIabcdefghijklmnopqrstuvwxyz", "a" * 40 + "b" * 24),
        ],
    )
    def test_a_name_that_cannot_be_shown_or_asked_for_is_refused(
        self, client, headers, player, name
    ):
        answer = rename(client, headers, "Aladric", name)
        assert answer.status_code == 400
        assert "Name" in answer.json["Errors"]

    @pytest.mark.parametrize(
        "name",
        [
            "Al",
            "Zo\u00eb van der Berg",
            "O'Neill-2",
            "\u0928\u093f\u0936\u093e",
            "[GM] J. \u2605",
            "x" * 40,
        ],
    )
    def test_a_name_of_any_script_can_be_given(self, client, headers, player, name):
        assert rename(client, headers, "Aladric", name).json["Name"] == name

    def test_an_imported_name_stays_and_comes_back(self, client, headers, world):
        """An import takes what nobody could give: a game that saves it is not refused."""
        odd = world.add_player(Name="Bad<b>\ufe0f")
        path = f"/api/v1/players/{odd['_id']}"
        saved = client.put(path, json={"Name": odd["Name"], "Level": 3}, headers=headers)
        assert saved.status_code == 200
        refused = client.put(path, json={"Name": "Bad<i>"}, headers=headers)
        assert refused.status_code == 400
        assert "Must not hold < or >" in refused.json["Errors"]["Name"][0]
        rename(client, headers, odd["_id"], "Good")
        undo(client, headers, entries(client, headers, "Good")[0])
        assert client.get(path, headers=headers).json["Name"] == odd["Name"]

    def test_undo_gives_the_former_name_back_and_undo_of_that_the_new_one(
        self, client, headers, player
    ):
        rename(client, headers, "Aladric", "Berengar")
        undone = undo(client, headers, entries(client, headers, "Berengar")[0])
        assert undone.json["Changes"][0]["After"] == "Aladric"
        assert client.get("/api/v1/players/Aladric", headers=headers).status_code == 200
        undo(client, headers, undone.json)
        assert client.get("/api/v1/players/Berengar", headers=headers).status_code == 200

    def test_undo_is_refused_where_it_was_renamed_since_or_the_name_is_taken(
        self, client, headers, player, world
    ):
        rename(client, headers, "Aladric", "Berengar")
        first = entries(client, headers, "Berengar")[0]
        world.add_player(Name="Aladric")
        assert "name already" in undo(client, headers, first).json["Message"]
        rename(client, headers, "Berengar", "Casimir")
        assert "Casimir" in undo(client, headers, first).json["Message"]

    def test_history_finds_a_player_by_a_former_name(self, client, headers, player, db):
        def found(name):
            answer = client.get(f"/api/v1/history?player={name}", headers=headers)
            return answer.json.get("Values"), answer

        rename(client, headers, "Aladric", "Berengar")
        rename(client, headers, "Berengar", "Casimir")
        for name in ("aladric", "BERENGAR", "Casimir"):
            assert {entry["Subject"]["Id"] for entry in found(name)[0]} == {player["_id"]}
        # A path means today's name, and the field is nobody's business.
        assert client.get("/api/v1/players/Aladric", headers=headers).status_code == 404
        record = client.get("/api/v1/players/Casimir", headers=headers).json
        assert "FormerNames" not in record
        client.delete("/api/v1/players/Casimir", headers=headers)
        assert {entry["Subject"]["Id"] for entry in found("aladric")[0]} == {player["_id"]}
        assert found("Nobody")[1].status_code == 404

    def test_a_name_that_another_has_now_means_that_one(self, client, headers, player, world):
        rename(client, headers, "Aladric", "Berengar")
        other = world.add_player(Name="Aladric")
        path = "/api/v1/history?player=Aladric"
        assert client.get(path, headers=headers).json["Values"] == []
        rename(client, headers, "Aladric", "Casimir")
        answer = client.get(path, headers=headers)
        assert answer.status_code == 400
        ids = " or ".join(sorted([player["_id"], other["_id"]]))
        assert answer.json["Message"] == (
            f"'Aladric' is a former name of several players: give the id of one, {ids}."
        )

    def test_a_former_name_that_is_todays_again_is_no_former_one(self, client, headers, player, db):
        rename(client, headers, "Aladric", "Berengar")
        undo(client, headers, entries(client, headers, "Berengar")[0])
        assert db.players.find_one()["FormerNames"] == [{"Name": "Berengar", "Key": "berengar"}]
        rename(client, headers, "Aladric", "ALADRIC")
        assert [had["Name"] for had in db.players.find_one()["FormerNames"]] == ["Berengar"]
        for number in range(30):
            rename(client, headers, player["_id"], f"Name {number}")
        assert [had["Key"] for had in db.players.find_one()["FormerNames"]] == [
            f"name {number}" for number in range(28, 8, -1)
        ]

    def test_a_game_that_gives_a_character_another_name_leaves_the_former_one(
        self, client, headers, player, db
    ):
        path = f"/api/v1/players/{player['_id']}"
        for body in ({"Name": "Berengar"}, {"Name": "Berengar", "Level": 7}):
            assert client.put(path, json=body, headers=headers).status_code == 200
        assert [had["Name"] for had in db.players.find_one()["FormerNames"]] == ["Aladric"]

    def test_an_import_keeps_the_former_names_and_adds_one(self, real_storage, real_db):
        intent = Intent("import", Origin(None, "tester", "cli"))
        replacer = Replacer(real_storage, SUBJECT, intent)
        player = make_player()

        def imported(name):
            document = {**player, "Name": name, "NameKey": name_key(name)}
            replacer.replace(real_db.players, [RawBSONDocument(bson.encode(document))])
            return real_db.players.find_one()

        assert [former_names(imported(name)) for name in ("Aladric", "Berengar")] == [
            [],
            ["Aladric"],
        ]
        last = imported("Casimir")
        assert former_names(last) == ["Berengar", "Aladric"]
        # The same once more changes nothing.
        assert imported("Casimir") == last


class TestDelete:
    def test_it_is_gone_and_its_history_stays(self, client, headers, player, db):
        answer = delete(client, headers)
        assert answer.json == {"Id": player["_id"], "Name": "Aladric"}
        for key in ("Aladric", player["_id"]):
            assert client.get(f"/api/v1/players/{key}", headers=headers).status_code == 404
        assert db.players.count_documents({}) == 0
        for key in ("Aladric", player["_id"]):
            (entry,) = entries(client, headers, key)
            assert entry["Operation"] == "delete-player"
        assert delete(client, headers).status_code == 404

    def test_undo_brings_it_back_as_it_was(self, client, headers, player, db):
        before = db.players.find_one()
        delete(client, headers)
        undone = undo(client, headers, entries(client, headers, "Aladric")[0])
        assert undone.status_code == 200, undone.json
        assert without_bookkeeping(db.players.find_one()) == without_bookkeeping(before)
        assert db.deleted_players.count_documents({}) == 0
        assert [entry["Operation"] for entry in entries(client, headers, "Aladric")] == [
            "undo",
            "delete-player",
        ]

    def test_undo_of_the_undo_deletes_it_again_and_so_on(self, client, headers, player, db):
        delete(client, headers)
        entry = entries(client, headers, "Aladric")[0]
        for number in range(4):
            undone = undo(client, headers, entry)
            assert undone.status_code == 200, undone.json
            assert db.players.count_documents({}) == (number + 1) % 2
            entry = undone.json

    def test_a_repetition_of_the_undo_gets_its_answer(self, client, headers, player, db):
        delete(client, headers)
        entry = entries(client, headers, "Aladric")[0]
        once = {"Idempotency-Key": "undo-1"}
        first = undo(client, headers, entry, **once)
        again = undo(client, headers, entry, **once)
        assert again.status_code == 200
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json["Id"] == first.json["Id"]

    def test_undo_is_refused_while_another_has_the_name(self, client, headers, player, world, db):
        delete(client, headers)
        entry = entries(client, headers, player["_id"])[0]
        world.add_player(Name="ALADRIC")
        refused = undo(client, headers, entry)
        assert refused.status_code == 409
        assert "name already" in refused.json["Message"]
        preview = client.post(
            f"/api/v1/history/{entry['Id']}/undo", json={"DryRun": True}, headers=headers
        )
        assert preview.status_code == 409
        assert db.deleted_players.count_documents({}) == 1

    def test_undo_is_refused_where_somebody_else_has_brought_it_back(
        self, client, headers, player, db
    ):
        delete(client, headers)
        entry = entries(client, headers, player["_id"])[0]
        db.players.insert_one(player)
        refused = undo(client, headers, entry)
        assert refused.status_code == 409
        assert "there again" in refused.json["Message"]

    def test_who_is_online_is_not_deleted(self, client, headers, world, db):
        now = datetime.now(timezone.utc)
        world.add_player(Name="Aladric", Online=True, LastSeen=now)
        refused = delete(client, headers)
        assert refused.status_code == 409
        assert "is online" in refused.json["Message"]
        db.players.update_one({}, {"$set": {"LastSeen": now - timedelta(days=1)}})
        assert delete(client, headers).status_code == 200

    def test_what_a_killed_worker_has_left_is_finished(self, client, headers, player, app, db):
        """The mark is there, with its entry, and the player has not been moved yet."""
        store = service(app, Deletions)
        moved, store.finish_deletion = store.finish_deletion, lambda _: None
        try:
            assert delete(client, headers).status_code == 200
        finally:
            store.finish_deletion = moved
        assert db.players.count_documents({"DeletedAt": {"$exists": True}}) == 1
        give = {"itemid": ITEM, "quantity": 1}
        path = f"/api/v1/players/{player['_id']}/items/give"
        assert client.post(path, json=give, headers=headers).status_code == 404
        service(app, UnfinishedWork).finish_all()
        assert db.players.count_documents({}) == 0
        undone = undo(client, headers, entries(client, headers, "Aladric")[0])
        assert undone.status_code == 200
        assert db.players.find_one()["Inventory"] == player["Inventory"]

    def test_the_next_try_finishes_it_too(self, client, headers, player, app, db):
        store = service(app, Deletions)
        moved, store.finish_deletion = store.finish_deletion, lambda _: None
        try:
            delete(client, headers)
        finally:
            store.finish_deletion = moved
        assert delete(client, headers).status_code == 404
        assert db.players.count_documents({}) == 0
        assert len(entries(client, headers, "Aladric")) == 1

    def test_a_copy_that_comes_late_does_not_replace_a_later_one(
        self, client, headers, player, app, db
    ):
        """Of two who move a player at once, the slower one has read it before a game's write."""
        store = service(app, Deletions)
        keep, late = store._keep, []

        def keep_and_be_overtaken(document, former):
            if late:
                return keep(document, former)
            late.append(document)
            db.players.update_one({}, {"$set": {"Inventory.0.Quantity": 9}})
            store.finish_deletion(player["_id"])
            return keep(document, former)

        store._keep = keep_and_be_overtaken
        try:
            assert delete(client, headers).status_code == 200
        finally:
            store._keep = keep
        undo(client, headers, entries(client, headers, "Aladric")[0])
        assert db.players.find_one()["Inventory"]["0"]["Quantity"] == 9

    def test_one_that_cannot_be_moved_now_is_deleted_all_the_same(
        self, client, headers, player, app, db
    ):
        store = service(app, Deletions)
        keep, store._keep = store._keep, lambda *_: None
        try:
            assert delete(client, headers).status_code == 200
            assert db.players.count_documents({}) == 1
        finally:
            store._keep = keep
        service(app, UnfinishedWork).finish_all()
        assert db.players.count_documents({}) == 0

    def test_a_database_that_fails_after_the_mark_makes_no_refusal_of_it(
        self, client, headers, player, app, db
    ):
        store = service(app, Deletions)
        with fails(store, "_keep"):
            assert delete(client, headers).status_code == 200
        service(app, UnfinishedWork).finish_all()
        assert db.players.count_documents({}) == 0

    def test_an_undo_that_fails_half_way_says_that_it_may_have_been_made(
        self, client, headers, player, app, db
    ):
        delete(client, headers)
        entry = entries(client, headers, "Aladric")[0]
        with fails(service(app, Deletions), "finish_restoration", after=1):
            answer = undo(client, headers, entry)
        assert answer.status_code == 503
        assert "may have been made" in answer.json["Message"]
        service(app, UnfinishedWork).finish_all()
        assert db.players.count_documents({}) == 1

    def test_what_a_game_writes_while_it_is_moved_is_not_lost(
        self, client, headers, player, app, db
    ):
        store = service(app, Deletions)
        keep, wrote = store._keep, []

        def keep_and_be_overtaken(document, former):
            is_kept = keep(document, former)
            if not wrote:
                wrote.append(db.players.update_one({}, {"$set": {"Inventory.0.Quantity": 9}}))
            return is_kept

        store._keep = keep_and_be_overtaken
        try:
            assert delete(client, headers).status_code == 200
        finally:
            store._keep = keep
        undo(client, headers, entries(client, headers, "Aladric")[0])
        assert db.players.find_one()["Inventory"]["0"]["Quantity"] == 9

    # mongomock does not bypass its validators.
    @pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)
    @pytest.mark.parametrize("field", ["DeletedAt", "RestoredFrom"])
    @pytest.mark.parametrize("odd", [None, "text", {}])
    def test_what_a_game_stores_in_its_fields_is_no_mark(
        self, client, headers, player, app, db, world, field, odd
    ):
        where, odd = {"_id": player["_id"]}, {"$set": {field: odd}}
        db.players.update_one(where, odd, bypass_document_validation=True)
        marked = world.add_player(DeletedAt=NOW)
        service(app, UnfinishedWork).finish_all()
        assert db.players.find_one({"_id": marked["_id"]}) is None
        assert db.players.find_one(where)[field] == odd["$set"][field]
        assert rename(client, headers, "Aladric", "Berengar").status_code == 200
        assert delete(client, headers, "Berengar").status_code == 200
        assert db.players.find_one(where) is None
        assert undo(client, headers, entries(client, headers, "Berengar")[0]).status_code == 200
        assert client.get("/api/v1/players/Berengar", headers=headers).status_code == 200

    def test_one_that_its_validator_would_refuse_is_brought_back_as_it_was(
        self, client, headers, player, db
    ):
        """A game may have stored it before there was a validator."""
        db.players.delete_many({})
        odd = {**player, "Level": "high", "Equipment": None}
        db.players.insert_one(odd, bypass_document_validation=True)
        assert delete(client, headers).status_code == 200
        undone = undo(client, headers, entries(client, headers, "Aladric")[0])
        assert undone.status_code == 200, undone.json
        assert without_bookkeeping(db.players.find_one()) == without_bookkeeping(odd)

    def test_a_change_that_is_repeated_after_the_deletion_gets_its_answer(
        self, client, headers, player, db
    ):
        path, give = f"/api/v1/players/{player['_id']}/items/give", {"itemid": ITEM, "quantity": 1}
        once = {**headers, "Idempotency-Key": "give-1"}
        first = client.post(path, json=give, headers=once)
        delete(client, headers)
        for key in (player["_id"], "Aladric"):
            again = client.post(path.replace(player["_id"], key), json=give, headers=once)
            assert (again.status_code, again.json) == (200, first.json)
            assert again.headers["Idempotency-Replayed"] == "true"
        other = {**headers, "Idempotency-Key": "give-2"}
        assert client.post(path, json=give, headers=other).status_code == 404

    def test_one_that_a_dump_has_without_its_copy_is_kept(self, client, headers, player, app, db):
        """A dump reads the collections one after another."""
        delete(client, headers)
        copy = db.deleted_players.find_one()
        pending = {**copy["Player"], "RestoredFrom": copy["Stamp"], "RestorePending": True}
        del pending["DeletedAt"]
        db.players.insert_one(pending)
        db.deleted_players.delete_many({})
        service(app, UnfinishedWork).finish_all()
        kept = db.players.find_one()
        assert "RestorePending" not in kept
        assert kept["Inventory"] == player["Inventory"]
