"""People's own data: all of it in one document, and its erasure, killed at every step."""

import io
import logging
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from pymongo.errors import NetworkTimeout

from app.batches.store import Batches
from app.core.changes import Intent, Origin
from app.core.permissions import Role
from app.http.logs import JsonFormatter
from app.maintenance.transfer.records import RECORDS
from app.maintenance.transfer.store import export_documents
from app.privacy.store import REQUEST_SECONDS, Erasures, Returned
from app.storage.client import Storage
from tests import people
from tests.applications import service
from tests.changes import Killed
from tests.factories import guid, make_batch_row
from tests.mongod import on_mongodb
from tests.people import settle

PERSON = f"users/{people.NAME}"
ERASE = f"POST {PERSON}/erase"
CONFIRM = {"Confirm": people.NAME}
BY_TESTER = Intent("erase", Origin(None, "tester", "cli"))
STRANGER = "players/Stranger"
GIVE = f"POST {STRANGER}/items/give"
GIFT = {"itemid": people.ITEM, "quantity": 1}


@pytest.fixture
def person(world, client):
    """The ids of somebody with traces of all kinds, and of two others."""
    user_id, _, others = people.build(world, client)
    return SimpleNamespace(id=user_id, **others)


@pytest.fixture
def erasures(app):
    return service(app, Erasures)


@pytest.fixture
def erase(staff):
    return lambda: staff(ERASE, CONFIRM).json


def test_nothing_but_ids_is_left_and_it_is_told_again_by_id(staff, erase, person, db):
    assert {name for name, _, _ in people.found_in(db)} >= {"users", "players", "history"}
    told = erase()
    assert people.found_in(db) == []
    assert told["Id"] == person.id
    assert told["Gone"] == {"Players": 2, "Bags": 2, "SignIns": 1, "Keys": 1}
    assert {stayed["What"] for stayed in told["Stayed"]} == {"history", "erasures"}
    for name in ("players", "deleted_players", "refresh_tokens"):
        assert db[name].count_documents({"UserId": person.id}) == 0
    assert db.bags.count_documents({}) == 0
    assert staff(f"POST users/{person.id}/erase", CONFIRM).json == told
    # The name is stored nowhere any more.
    staff(ERASE, CONFIRM, 404)
    left = {"_id", "BegunAt", "By", "Players", "Bags", "FinishedAt", "Counts"}
    assert db.erasures.find_one().keys() == left


def test_others_lose_nothing_and_history_keeps_what_happened_to_them(staff, erase, person, db):
    def of_stranger(name):
        return [entry[name] for entry in staff(f"GET {STRANGER}/history").json["Values"]]

    entries, kept = db.history.count_documents({}), ("Id", "Changes")
    before = db.players.find_one({"_id": person.stranger}), [*map(of_stranger, kept)]
    erase()
    after = db.players.find_one({"_id": person.stranger})
    assert after["Inventory"] == before[0]["Inventory"]
    (note,) = after["Notes"].values()
    assert (note["Name"], note["Text"]) == ("(erased)", "a stranger")
    colleague = db.users.find_one({"_id": person.colleague})
    assert (colleague["IsBanned"], colleague["BannedBy"], colleague["MutedBy"]) == (
        *(True, "(erased)", "(erased)"),
    )
    assert db.history.count_documents({}) == entries + 1
    assert [*map(of_stranger, kept)] == before[1]
    assert [by["Name"] for by in of_stranger("By") if by["UserId"] == person.id] == [None]
    assert "(erased) gave it; ask (erased)" in of_stranger("Reason")
    assert len(staff(f"GET history?by={person.id}").json["Values"]) >= 4
    about = staff(f"GET history?user={person.id}").json["Values"][0]
    assert about["Operation"] == "erase"
    assert about["Subject"] == {"Kind": "user", "Id": person.id, "Name": None}


def test_killed_after_every_transaction_and_in_it_the_next_try_continues(
    staff, person, db, erasures, monkeypatch
):
    plain, kills = erasures._run, 0

    def run(step, *what):
        def dying():
            nonlocal kills
            result = step()
            if is_change(result):
                kills += 1
                if kills % 2:
                    raise Killed
            return result

        result = plain(dying, *what)
        if is_change(result):
            raise Killed
        return result

    def is_change(result):
        return isinstance(result, int) and result > 0

    monkeypatch.setattr(erasures, "_run", run)
    told = None
    while told is None:
        with suppress(Killed):
            told = staff(f"POST users/{person.id}/erase", CONFIRM).json
    assert kills > 30
    assert people.found_in(db) == []
    assert db.history.count_documents({"Operation": "erase"}) == 1
    assert told["Gone"] == {"Players": 2, "Bags": 2, "SignIns": 1, "Keys": 1}


def test_what_a_killed_worker_has_left_is_finished_by_others_but_not_at_the_same_time(
    person, db, erasures
):
    """Two that swept at the same time would repeat each other's transactions."""
    erasures.begin(person.id, BY_TESTER)
    erasures.continue_all()
    assert people.found_in(db)
    erasures.request_seconds = 0.0
    erasures.continue_all()
    assert people.found_in(db) == []
    assert db.erasures.find_one()["FinishedAt"] is not None


def test_a_step_that_takes_longer_than_a_request_goes_on_by_itself(
    staff, person, db, erasures, monkeypatch
):
    def read_much(*_):
        raise NetworkTimeout("timed out")

    with monkeypatch.context() as patched:
        patched.setattr(erasures, "_sweep", read_much)
        assert staff(ERASE, CONFIRM, 503).json["Code"] == "ERASURE_UNDER_WAY"
    erasures.request_seconds = 0.0
    erasures.continue_all()
    assert people.found_in(db) == []


@pytest.fixture
def wait(erasures, monkeypatch):
    """Set the lifetime of transactions; None if the database does not tell it."""

    def wait(seconds):
        monkeypatch.setattr(erasures, "request_seconds", REQUEST_SECONDS)
        monkeypatch.setattr(erasures, "_seconds", lambda: Erasures._seconds(erasures))
        monkeypatch.setattr(erasures._lifetime, "seconds", lambda: seconds)

    return wait


def test_it_waits_for_transactions_that_began_before(staff, person, db, wait):
    wait(3)
    staff(ERASE, CONFIRM)
    record = db.erasures.find_one()
    assert record["FinishedAt"] - record["BegunAt"] >= timedelta(seconds=5)


@pytest.mark.parametrize("lifetime", [60, None])
def test_a_request_waits_only_if_there_is_time_enough(
    client, staff, person, db, world, wait, lifetime
):
    own = world.headers(user=db.users.find_one({"_id": person.id}))
    wait(lifetime)
    assert 89 <= int(staff(ERASE, CONFIRM, 503).headers["Retry-After"]) <= 91
    assert people.found_in(db)
    # The account is gone at once.
    assert client.get("/api/v1/players", headers=own).status_code == 401


def test_it_waits_longer_if_the_lifetime_has_grown(staff, person, db, wait):
    again = f"POST users/{person.id}/erase"
    for lifetime, least in ((20, 25), (60, 40)):
        wait(lifetime)
        assert int(staff(again, CONFIRM, 503).headers["Retry-After"]) > least
        settle(db)
    wait(20)
    staff(again, CONFIRM)
    assert people.found_in(db) == []


def test_it_waits_for_a_plan_that_has_read_the_name_before(staff, app, erasures, person, db):
    batches, erasures.request_seconds = service(app, Batches), 0.9
    fields = {"Name": people.NAME, "Reason": None, "By": {"UserId": None, "Name": None}}
    batch = batches.begin({**fields, "Via": "api", "Rows": 1})
    assert int(staff(ERASE, CONFIRM, 503).headers["Retry-After"]) == 2
    row = make_batch_row({"_id": guid(), "Name": people.NAME.upper()}, batch["_id"])
    refused = {"Subject": None, "Verdict": "refused", "Why": f"No player '{people.NAME}'."}
    batches.add_rows(batch, [{**row, **refused}])
    batches.complete(batch, {"Needs": []})
    erasures.request_seconds = 60.0
    staff(f"POST users/{person.id}/erase", CONFIRM)
    assert people.found_in(db) == []
    assert db.batch_rows.find_one({"Batch": batch["_id"]})["Player"] == "(erased)"


def test_the_last_of_many_words_is_masked(staff, erase, person, db):
    reason = f"{' '.join(map(chr, range(0x4E00, 0x4E00 + 240)))} {people.NAME}"
    staff(GIVE, GIFT, X_Reason=quote(reason))
    erase()
    assert people.found_in(db) == []


@pytest.mark.parametrize("name", [people.ITEM[:8], "Inventory"])
def test_ids_and_paths_that_look_like_the_name_stay(staff, world, name):
    """Or the entries of others could not be undone any more."""
    world.add_user(Name=name)
    world.add_player(Name="Stranger")
    staff(GIVE, GIFT, X_Reason=f"{name} asked")
    staff(f"POST users/{name}/erase", {"Confirm": name})
    (entry,) = staff(f"GET {STRANGER}/history").json["Values"]
    assert entry["Reason"] == "(erased) asked"
    assert entry["Arguments"]["ItemId"] == people.ITEM
    staff(f"POST history/{entry['Id']}/undo")


def test_a_rename_of_somebody_else_is_undone_to_the_name_it_had(staff, world, db):
    user = world.add_user(Name="Zweronika")
    world.add_player(Name="Quixandra", UserId=user["_id"])
    path = f"players/{world.add_player(Name='Zweronika')['_id']}"
    staff(f"POST {path}/name", {"Name": "Renata"}, X_Reason="Zweronika is taken")
    staff(ERASE, CONFIRM)
    (entry,) = staff(f"GET {path}/history").json["Values"]
    staff(f"POST history/{entry['Id']}/undo")
    assert staff(f"GET {path}").json["Name"] == "Zweronika"


def test_a_character_that_is_somebody_elses_by_now_stays(staff, erase, person, db, erasures):
    hero = db.players.find_one({"Name": people.HERO})
    erase()
    db.players.insert_one({**hero, "UserId": person.colleague, "Name": "Heir", "NameKey": "heir"})
    assert list(erasures.find_returned()) == []
    erasures.erase_again([Returned("users", person.id, person.id)], BY_TESTER)
    assert db.players.find_one({"_id": hero["_id"]})
    # So do rows of batches about it.
    rows = [{"Player": "Heir", "Operation": "give", **people.GIFT}]
    assert staff("POST batches", {"Rows": rows}).json["Ready"] == 1


def test_nobody_erases_themselves_somebody_who_is_online_or_another_than_they_name(
    staff, client, person, db, world
):
    for confirm in ("", "Zweronik", people.MAIL):
        assert "Confirm" in staff(ERASE, {"Confirm": confirm}, 400).json["Errors"]
    now = datetime.now(timezone.utc)
    db.players.update_one({"UserId": person.id}, {"$set": {"Online": True, "LastSeen": now}})
    assert "online" in staff(ERASE, CONFIRM, 409).json["Message"]
    db.users.update_one({"_id": person.id}, {"$set": {"Power.ApiUserManagement": True}})
    own = world.headers(user=db.users.find_one({"_id": person.id}))
    refused = client.post(f"/api/v1/{PERSON}/erase", json=CONFIRM, headers=own)
    assert refused.status_code == 409
    assert db.erasures.count_documents({}) == 0


def test_the_personal_data_hold_everything_but_secrets(staff, person, db):
    answer = staff(f"GET {PERSON}/personal-data")
    data = answer.json
    assert (data["User"]["Email"], data["User"]["FormerEmails"]) == (
        *(people.MAIL, [people.FORMER_MAIL]),
    )
    assert people.FORMER_MAIL not in staff(f"GET {PERSON}").text
    (hero,) = data["Characters"]
    assert (hero["Name"], len(hero["Bags"])) == (people.HERO, 2)
    assert [had["Name"] for had in hero["FormerNames"]] == [people.FORMER]
    assert data["DeletedCharacters"][0]["Name"] == people.DELETED
    assert [note["Text"] for note in data["Notes"]] == [f"{people.MAIL} bounces"]
    assert data["Keys"][0]["Addresses"] == [people.ADDRESS]
    assert len(data["SignIns"]) == 1
    operations = {entry["Operation"] for entry in data["HistoryAbout"]}
    assert operations >= {"rename", "give", "note", "delete-player", "create-key"}
    assert {entry["By"]["UserId"] for entry in data["HistoryBy"]} <= {person.id}
    assert [row["Subject"]["Name"] for row in data["BatchRows"]] == [people.HERO]
    assert [batch["Name"] for batch in data["Batches"]] == ["mine"]
    asked = {(action["Kind"], action["Subject"]["Name"]) for action in data["Actions"]}
    assert asked == {("chat", people.HERO), ("chat", None), ("kick", people.HERO)}
    user = db.users.find_one({"_id": person.id})
    assert [s for s in (user["PasswordHash"], *user["KeyDigests"]) if s in answer.text] == []
    # A note that is hidden is part of them as well.
    (entry,) = staff(f"GET {PERSON}/history?operation=note").json["Values"]
    staff(f"POST history/{entry['Id']}/undo")
    notes = staff(f"GET {PERSON}/personal-data").json["Notes"]
    assert [note["IsHidden"] for note in notes] == [True]


@on_mongodb
def test_only_those_rows_of_batches_are_read_that_name_the_person(staff, world, db):
    world.add_user(Name="Straßer-Zoe", Email="zoe@straße.example")
    rows = [
        {"Player": f"Nobody {number}", "Operation": "give", **people.GIFT} for number in range(2000)
    ]
    given = {"Player": "Nobody", "Operation": "give", "Quantity": 1}
    naming = [
        {"Player": "STRASSER-ZOE", "Operation": "give", **people.GIFT},
        {**given, "ItemId": "for ZOE@XN--STRAE-OQA.EXAMPLE"},
        {**given, "ItemId": people.ITEM, "of strasser-zoe, isn't it": 1},
        {**given, "ItemId": people.ITEM, "Quantity": "1 (straßer-zoe)"},
    ]
    batch = staff("POST batches", {"Rows": rows + naming}).json
    before = read_documents(db)
    staff("POST users/STRASSER-ZOE/erase", {"Confirm": "strasser-zoe"})
    assert read_documents(db) - before < 500
    shown = str(list(db.batch_rows.find({"Batch": batch["Id"]}))).casefold()
    assert "zoe" not in shown
    assert shown.count("(erased)") >= 4


def read_documents(db):
    return db.client.admin.command("serverStatus")["metrics"]["queryExecutor"]["scannedObjects"]


def test_who_reads_personal_data_is_told_in_history(app, staff, person):
    """By whom, when and why; the entry holds nothing of the person but the name that all have."""
    data = staff(f"GET {PERSON}/personal-data", X_Reason="Asked%20for%20it")
    query = f"GET {PERSON}/history?operation=export-personal-data"
    (entry,) = staff(query).json["Values"]
    assert entry["Subject"] == {"Kind": "user", "Id": person.id, "Name": people.NAME}
    assert (entry["Reason"], entry["Arguments"], entry["Changes"]) == ("Asked for it", {}, [])
    assert entry["Id"] in {told["Id"] for told in data.json["HistoryAbout"]}
    refused = staff(f"POST history/{entry['Id']}/undo", status=409).json
    assert "what was handed out is known" in refused["Message"]
    # HEAD reads nothing.
    staff(f"HEAD {PERSON}/personal-data")
    assert len(staff(query).json["Values"]) == 1
    # No reason is needed where changes need one.
    app.config["REASON_REQUIRED"] = True
    staff(f"GET {PERSON}/personal-data")


def test_an_account_that_a_game_has_made_is_erased_too(staff, db):
    odd = {"_id": guid(), "Name": "Oddkin", "NameKey": "oddkin", "EmailKey": "o", "Version": 0}
    db.users.insert_one(odd, bypass_document_validation=True)
    staff("POST users/oddkin/erase", {"Confirm": "oddkin"})
    assert db.users.count_documents({"NameKey": "oddkin"}) == 0


@pytest.mark.parametrize(
    ("collection", "where"),
    [
        ("users", {"Name": people.NAME}),
        ("players", {"Name": people.HERO}),
        ("bags", {}),
        ("batch_rows", {"Subject": {"$ne": None}}),
    ],
)
def test_what_came_back_is_found_and_erased_again(erase, person, db, erasures, collection, where):
    before = list(db[collection].find(where))
    # Of a new character, only the account is known.
    own = [one for one in before if one.get("UserId") == person.id]
    before += [{**one, "_id": guid(), "Name": "New", "NameKey": "new"} for one in own]
    erase()
    assert list(erasures.find_returned()) == []
    db[collection].delete_many({})
    db[collection].insert_many(before)
    found = set(erasures.find_returned())
    assert {(one.collection, one.user_id) for one in found} == {(collection, person.id)}
    assert len(found) >= 2 * len(own)
    erasures.erase_again(found, BY_TESTER)
    assert list(erasures.find_returned()) == []
    assert people.found_in(db) == []
    # Nobody else is in them.
    assert db[collection].count_documents({}) == len(before) - len(found)


def test_an_item_or_a_spell_that_was_named_like_the_person_is_masked(staff, erase, person, db):
    rows = [
        {"Player": "Stranger", "Operation": "give", "ItemId": people.MAIL, "Quantity": 1},
        {"Player": "Stranger", "Operation": "teach", "SpellId": people.HERO},
    ]
    batch = staff("POST batches", {"Rows": rows}).json
    assert batch["Refused"] == 2
    erase()
    assert people.found_in(db) == []
    shown = staff(f"GET batches/{batch['Id']}/rows").json["Values"]
    given, taught = [row["Arguments"] for row in shown]
    assert (given["ItemId"], taught) == ("(erased)", {"SpellId": "(erased)"})


def test_neither_logs_nor_exports_tell_of_the_person_from_then_on(staff, erase, person, app):
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    try:
        erase()
        for path in ("history", f"history?by={person.id}", "players", "users", STRANGER):
            staff(f"GET {path}")
    finally:
        logging.getLogger().removeHandler(handler)
    assert "/erase" in output.getvalue()
    assert people.said_in(output.getvalue()) == []
    for kind in RECORDS:
        exported = io.BytesIO()
        export_documents(service(app, Storage), kind, app.config, exported)
        assert people.said_in(exported.getvalue().decode()) == [], kind


def test_an_account_loads_two_files_at_a_time(client, world, as_role):
    """Each holds a thread for as long as its reader is slow; the others are for everybody."""
    path = f"/api/v1/users/{world.add_user()['_id']}/personal-data"
    own = as_role(*Role)
    first, second, refused = (client.get(path, headers=own) for _ in range(3))
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (503, True)
    assert "You are downloading other files at the moment" in refused.json["Message"]
    with client.get(path, headers=as_role(*Role)) as answer:
        assert answer.status_code == 200
    first.close()
    with client.get(path, headers=own) as answer:
        assert answer.status_code == 200
    second.close()
