"""People's own data: all of it in one document, and its erasure, killed at every step."""

import io
import logging
from datetime import datetime, timedelta, timezone

import pytest

from app.auth.callers import Callers
from app.auth.roles import Role
from app.batches.store import Batches
from app.changes import Intent, Origin
from app.http.logs import JsonFormatter
from app.privacy.domain import action_without
from app.privacy.store import Erasures
from app.storage.client import Storage
from app.storage.unfinished import UnfinishedWork
from app.transfer.records import RECORDS
from app.transfer.store import export_documents
from tests import people
from tests.applications import service
from tests.factories import NOW, guid, make_entry
from tests.swaps import move_all
from tests.tiers import some

ERASE = f"/api/v1/users/{people.NAME}/erase"
CONFIRM = {"Confirm": people.NAME}


class Killed(BaseException):
    """The process dies here."""


def raises(error):
    def instead(*_, **__):
        raise error

    return instead


@pytest.fixture
def person(world, client):
    return people.build(world, client)


def settle(db):
    """Let the time be over in which a worker may take the person for a caller."""
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    db.erasures.update_many({"SettledAt": {"$exists": True}}, {"$set": {"SettledAt": past}})


def erase(client, headers, db, path=ERASE):
    """Erase the person, and come back when the answer says so."""
    answer = client.post(path, json=CONFIRM, headers=headers)
    if answer.status_code == 503:
        assert "Retry-After" in answer.headers
        settle(db)
        answer = client.post(path, json=CONFIRM, headers=headers)
    return answer


def test_nothing_but_ids_is_left(client, person, db):
    user_id, staff, _ = person
    assert {name for name, _, _ in people.found_in(db)} >= {"users", "players", "history"}
    answer = erase(client, staff, db)
    assert answer.status_code == 200, answer.json
    assert people.found_in(db) == []
    told = answer.json
    assert told["Id"] == user_id
    assert told["Gone"] == {"Players": 2, "Bags": 2, "SignIns": 1, "Keys": 1}
    assert {stayed["What"] for stayed in told["Stayed"]} == {"history", "erasures"}
    assert told["FinishedAt"] is not None
    for name in ("players", "deleted_players", "refresh_tokens"):
        assert db[name].count_documents({"UserId": user_id}) == 0
    assert db.bags.count_documents({}) == 0


def test_history_keeps_ids_and_what_happened_to_others(client, person, db):
    user_id, staff, _ = person
    before = client.get("/api/v1/players/Stranger/history", headers=staff).json["Values"]
    erase(client, staff, db)
    after = client.get("/api/v1/players/Stranger/history", headers=staff).json["Values"]
    assert [entry["Id"] for entry in after] == [entry["Id"] for entry in before]
    assert [entry["Changes"] for entry in after] == [entry["Changes"] for entry in before]
    own = [entry for entry in after if entry["By"]["UserId"] == user_id]
    assert len(own) == 2
    assert {entry["By"]["Name"] for entry in own} == {None}
    reasons = [entry["Reason"] for entry in after]
    assert "(erased) gave it; ask (erased)" in reasons
    found = client.get(f"/api/v1/history?by={user_id}", headers=staff).json["Values"]
    assert len(found) >= 4
    about = client.get(f"/api/v1/history?user={user_id}", headers=staff).json["Values"]
    assert about[0]["Operation"] == "erase"
    assert about[0]["Subject"] == {"Kind": "user", "Id": user_id, "Name": None}


def test_every_change_has_its_entry_still(client, person, db):
    _, staff, _ = person
    before = db.history.count_documents({}) + sum(
        len(document.get("Journal", ()))
        for name in ("players", "users", "bags")
        for document in db[name].find()
    )
    erase(client, staff, db)
    assert db.history.count_documents({}) == before + 1


def test_others_lose_nothing(client, person, db):
    _, staff, others = person
    before = db.players.find_one({"_id": others["stranger"]})
    erase(client, staff, db)
    after = db.players.find_one({"_id": others["stranger"]})
    assert after["Inventory"] == before["Inventory"]
    (note,) = after["Notes"].values()
    assert (note["Name"], note["Text"]) == ("(erased)", "a stranger")
    assert [(entry["Operation"]) for entry in db.history.find({"Operation": "ban"})] == ["ban"]
    colleague = db.users.find_one({"_id": others["colleague"]})
    assert colleague["IsBanned"] is True
    assert (colleague["BannedBy"], colleague["MutedBy"]) == ("(erased)", "(erased)")


@pytest.mark.parametrize(
    "method", some(["update_one", "delete_one", "replace_one", "find", "find_one", "bulk_write"])
)
def test_killed_at_every_step_it_is_finished_by_the_next_try(client, person, db, app, method):
    """Before each operation of a kind in turn: the first, then the second, and so on."""
    user_id, staff, _ = person
    erasures = service(app, Erasures)
    collections = ("_erasures", "_users", "_players", "_deleted", "_bags", "_history")
    real = {name: getattr(erasures, name) for name in collections}
    operations = 0

    class Dying:
        def __init__(self, collection):
            self.collection = collection

        def __getattr__(self, name):
            if name == method:
                nonlocal operations
                operations += 1
                if operations == last:
                    raise Killed
            return getattr(self.collection, name)

    last, is_done = 0, False
    while not is_done:
        last, operations = last + 1, 0
        for name in collections:
            setattr(erasures, name, Dying(real[name]))
        try:
            answer = client.post(ERASE, json=CONFIRM, headers=staff)
            is_done = answer.status_code == 200 or operations < last
        except Killed:
            pass
        finally:
            for name in collections:
                setattr(erasures, name, real[name])
    settle(db)
    answer = client.post(f"/api/v1/users/{user_id}/erase", json=CONFIRM, headers=staff)
    assert answer.status_code == 200, answer.json
    assert people.found_in(db) == []
    assert last > 1
    erase_entries = db.history.count_documents({"Operation": "erase"})
    assert erase_entries == 1


def test_what_a_killed_worker_has_left_is_finished_by_others(person, db, app):
    user_id, _, _ = person
    erasures = service(app, Erasures)
    erasures.begin(user_id, Intent("erase", Origin(None, "tester", "cli")))
    settle(db)
    service(app, UnfinishedWork).finish_all()
    assert people.found_in(db) == []
    assert db.erasures.find_one()["FinishedAt"] is not None


def test_the_account_is_closed_at_once(client, person, db, world, app):
    user_id, staff, _ = person
    own = world.headers(user=db.users.find_one({"_id": user_id}))
    client.post(ERASE, json=CONFIRM, headers=staff)
    service(app, Callers).forget()
    assert client.get("/api/v1/players", headers=own).status_code == 401


def test_it_is_told_again_when_it_was_done(client, person, db, app):
    """By the name for a day, so that the same request tells it, and by the id for ever."""
    user_id, staff, _ = person
    first = erase(client, staff, db)
    by_id = f"/api/v1/users/{user_id}/erase"
    for path in (by_id, ERASE):
        again = client.post(path, json=CONFIRM, headers=staff)
        assert (again.status_code, again.json) == (200, first.json)
        assert client.post(path, json={"Confirm": "x"}, headers=staff).status_code == 400
    yesterday = datetime.now(timezone.utc) - timedelta(days=2)
    assert db.erasures.find_one()["NameDigests"]
    db.erasures.update_one({}, {"$set": {"FinishedAt": yesterday, "NamesUntil": yesterday}})
    service(app, Erasures).forget_names()
    assert client.post(ERASE, json=CONFIRM, headers=staff).status_code == 404
    assert client.post(by_id, json=CONFIRM, headers=staff).status_code == 200
    left = {"_id", "BegunAt", "By", "Players", "Bags", "FinishedAt", "Stamp", "Counts"}
    assert db.erasures.find_one().keys() == left


def test_an_account_that_could_act_settles_even_if_its_worker_was_killed(client, person, db, app):
    """The time is recorded before the account is closed."""
    user_id, staff, _ = person
    erasures = service(app, Erasures)
    add, erasures._add = erasures._add, raises(Killed)
    try:
        with pytest.raises(Killed):
            client.post(ERASE, json=CONFIRM, headers=staff)
    finally:
        erasures._add = add
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    recorded = {"_id": user_id, "SettledAt": {"$exists": True}}
    assert db.erasures.update_one(recorded, {"$set": {"SettledAt": later}}).matched_count
    db.users.update_one({"_id": user_id}, {"$set": {"Power.Api": False}})
    assert client.post(ERASE, json=CONFIRM, headers=staff).status_code == 503


def test_what_the_person_writes_until_the_account_has_settled_is_found(client, person, db):
    """A worker may know a token for some seconds, and write the name into entries and notes."""
    user_id, staff, others = person
    assert client.post(ERASE, json=CONFIRM, headers=staff).status_code == 503
    by = {"UserId": user_id, "Name": people.NAME}
    stranger = db.players.find_one({"_id": others["stranger"]})
    late = make_entry(stranger, Version=900, By=by, Reason=f"from {people.NAME}")
    db.history.insert_one(late)
    note = {"At": NOW, "UserId": user_id, "Name": people.NAME, "Text": f"I, {people.HERO}"}
    db.players.update_one({"_id": stranger["_id"]}, {"$set": {f"Notes.{guid()}": note}})
    settle(db)
    assert client.post(ERASE, json=CONFIRM, headers=staff).status_code == 200
    assert people.found_in(db) == []


@pytest.mark.parametrize("name", [people.ITEM[:8], "Inventory"])
def test_ids_and_paths_that_look_like_the_name_stay(client, world, name):
    """Or the entries of others could not be undone any more."""
    staff = world.headers(*Role)
    world.add_user(Name=name)
    world.add_player(Name="Stranger")
    give = {"itemid": people.ITEM, "quantity": 2}
    path = "/api/v1/players/Stranger"
    because = {**staff, "X-Reason": f"{name} asked"}
    client.post(f"{path}/items/give", json=give, headers=because)
    erase = client.post(f"/api/v1/users/{name}/erase", json={"Confirm": name}, headers=staff)
    assert erase.status_code == 200
    (entry,) = client.get(f"{path}/history", headers=staff).json["Values"]
    assert entry["Reason"] == "(erased) asked"
    assert entry["Arguments"]["ItemId"] == people.ITEM
    undone = client.post(f"/api/v1/history/{entry['Id']}/undo", headers=staff)
    assert undone.status_code == 200, undone.json


def test_a_rename_of_somebody_else_is_undone_to_the_name_it_had(client, world, db):
    staff = world.headers(*Role)
    user = world.add_user(Name="Zweronika")
    world.add_player(Name="Quixandra", UserId=user["_id"])
    other = world.add_player(Name="Zweronika")
    because = {**staff, "X-Reason": "Zweronika is taken"}
    path = f"/api/v1/players/{other['_id']}"
    client.post(f"{path}/name", json={"Name": "Renata"}, headers=because)
    client.post(ERASE, json=CONFIRM, headers=staff)
    (entry,) = client.get(f"{path}/history", headers=staff).json["Values"]
    assert client.post(f"/api/v1/history/{entry['Id']}/undo", headers=staff).status_code == 200
    assert db.players.find_one({"_id": other["_id"]})["Name"] == "Zweronika"


def test_a_character_that_is_somebody_elses_by_now_stays(client, person, db, world, app):
    user_id, staff, _ = person
    erase(client, staff, db)
    sold = world.add_player(Id=db.erasures.find_one()["Players"][0])
    erasures = service(app, Erasures)
    assert list(erasures.returned()) == []
    erasures.reopen(user_id)
    erasures.finish(user_id)
    assert db.players.find_one({"_id": sold["_id"]})


def test_a_note_that_is_hidden_is_part_of_the_personal_data(client, person, db):
    _, staff, _ = person
    history = f"/api/v1/users/{people.NAME}/history?operation=note"
    (entry,) = client.get(history, headers=staff).json["Values"]
    client.post(f"/api/v1/history/{entry['Id']}/undo", headers=staff)
    data = client.get(f"/api/v1/users/{people.NAME}/personal-data", headers=staff).json
    assert [note["IsHidden"] for note in data["Notes"]] == [True]
    assert data["User"]["CreationDate"].startswith("2026-")


@pytest.mark.parametrize("confirm", ["", "Zweronik", people.MAIL])
def test_another_name_is_no_confirmation(client, person, db, confirm):
    _, staff, _ = person
    answer = client.post(ERASE, json={"Confirm": confirm}, headers=staff)
    assert answer.status_code == 400
    assert "Confirm" in answer.json["Errors"]
    assert db.erasures.count_documents({}) == 0


def test_nobody_erases_themselves_or_somebody_who_is_online(client, person, db, world):
    user_id, staff, _ = person
    now = datetime.now(timezone.utc)
    db.players.update_one({"UserId": user_id}, {"$set": {"Online": True, "LastSeen": now}})
    refused = client.post(ERASE, json=CONFIRM, headers=staff)
    assert refused.status_code == 409
    assert "online" in refused.json["Message"]
    db.users.update_one({"_id": user_id}, {"$set": {"Power.ApiUserManagement": True}})
    own = world.headers(user=db.users.find_one({"_id": user_id}))
    refused = client.post(ERASE, json=CONFIRM, headers=own)
    assert refused.status_code == 409
    assert db.erasures.count_documents({}) == 0


def test_the_personal_data_hold_everything(client, person, db):
    user_id, staff, _ = person
    answer = client.get(f"/api/v1/users/{people.NAME}/personal-data", headers=staff)
    assert answer.status_code == 200
    data = answer.json
    assert data["User"]["Email"] == people.MAIL
    (hero,) = data["Characters"]
    assert hero["Name"] == people.HERO
    assert len(hero["Bags"]) == 2
    assert data["DeletedCharacters"][0]["Name"] == people.DELETED
    assert [note["Text"] for note in data["Notes"]] == [f"{people.MAIL} bounces"]
    assert data["Keys"][0]["Addresses"] == [people.ADDRESS]
    assert len(data["SignIns"]) == 1
    assert {"rename", "give", "note", "delete-player", "create-key"} <= {
        entry["Operation"] for entry in data["HistoryAbout"]
    }
    assert {entry["By"]["UserId"] for entry in data["HistoryBy"]} <= {user_id}
    assert [row["Subject"]["Name"] for row in data["BatchRows"]] == [people.HERO]
    assert [batch["Name"] for batch in data["Batches"]] == ["mine"]
    asked = [(action["Kind"], action["Subject"]["Name"]) for action in data["Actions"]]
    assert sorted(asked, key=str) == [("chat", people.HERO), ("chat", None), ("kick", people.HERO)]
    text = answer.get_data(as_text=True)
    user = db.users.find_one({"_id": user_id})
    for secret in (user["PasswordHash"], *user["KeyDigests"]):
        assert secret not in text


def test_what_names_stand_for_as_keys_is_kept_without_them():
    """Also where two of them become one, and where a game has used the word before."""
    result = {"Anna": 1, "Berta": 2, "(erased)": 3, "In": [{"anna": 4}], "Of annas": 5}
    hidden = action_without({"Result": result}, {"Anna", "Berta"})["Result"]
    assert sorted(value for value in hidden.values() if value != [{"(erased)": 4}]) == [1, 2, 3, 5]
    assert not {"Anna", "Berta"} & hidden.keys()
    assert hidden["(erased)"] == 3
    assert action_without({"Result": hidden}, {"Anna", "Berta"}) == {}


def test_former_names_and_addresses_are_part_of_the_personal_data(client, person):
    _, staff, _ = person
    data = client.get(f"/api/v1/users/{people.NAME}/personal-data", headers=staff).json
    assert data["User"]["FormerEmails"] == [people.FORMER_MAIL]
    (hero,) = data["Characters"]
    assert [had["Name"] for had in hero["FormerNames"]] == [people.FORMER]
    shown = client.get(f"/api/v1/users/{people.NAME}", headers=staff).json
    assert people.FORMER_MAIL not in str(shown)


def test_who_reads_personal_data_is_told_in_history(client, person, as_role):
    """By whom, when and why; the entry holds nothing of the person but the name that all have."""
    user_id, staff, _ = person
    path = f"/api/v1/users/{people.NAME}"
    data = client.get(f"{path}/personal-data", headers={**staff, "X-Reason": "Asked%20for%20it"})
    assert data.status_code == 200
    history = f"{path}/history?operation=export-personal-data"
    (entry,) = client.get(history, headers=as_role(Role.API, Role.USERS_QUERY)).json["Values"]
    assert entry["Subject"] == {"Kind": "user", "Id": user_id, "Name": people.NAME}
    assert (entry["Reason"], entry["Via"]) == ("Asked for it", "api")
    assert (entry["Arguments"], entry["Changes"]) == ({}, [])
    assert entry["Id"] in {told["Id"] for told in data.json["HistoryAbout"]}
    assert client.get(f"/api/v1/history/{entry['Id']}", headers=as_role()).status_code == 403
    undo = client.post(f"/api/v1/history/{entry['Id']}/undo", headers=staff)
    assert "what was handed out is known" in undo.json["Message"]
    # HEAD reads nothing, and neither does who is refused.
    assert client.head(f"{path}/personal-data", headers=staff).status_code == 200
    assert client.get(f"{path}/personal-data", headers=as_role()).status_code == 403
    assert len(client.get(history, headers=staff).json["Values"]) == 1


def test_personal_data_need_no_reason_where_changes_do(client, person, app):
    _, staff, _ = person
    app.config["REASON_REQUIRED"] = True
    path = f"/api/v1/users/{people.NAME}/personal-data"
    assert client.get(path, headers=staff).status_code == 200


def test_an_account_that_a_game_has_made_is_erased_too(client, person, db):
    _, staff, _ = person
    odd = {"_id": guid(), "Name": "Oddkin", "NameKey": "oddkin", "EmailKey": "o", "Version": 0}
    db.users.insert_one(odd, bypass_document_validation=True)
    answer = client.post("/api/v1/users/oddkin/erase", json={"Confirm": "oddkin"}, headers=staff)
    assert answer.status_code == 200, answer.json
    assert db.users.count_documents({"NameKey": "oddkin"}) == 0


def test_who_came_back_is_found(client, person, db, app):
    user_id, staff, _ = person
    saved = db.users.find_one({"_id": user_id}), list(db.players.find({"UserId": user_id}))
    erase(client, staff, db)
    erasures = service(app, Erasures)
    assert list(erasures.returned()) == []
    db.users.insert_one(saved[0])
    db.players.insert_many(saved[1])
    db.players.insert_one({**saved[1][0], "_id": guid(), "Name": "New", "NameKey": "new"})
    found = list(erasures.returned())
    assert ("users", user_id, user_id, ()) in found
    assert len(found) == 3
    erasures.reopen(user_id)
    erasures.finish(user_id)
    assert list(erasures.returned()) == []
    assert people.found_in(db) == []


def plan_amid(client, staff, monkeypatch, method, erased):
    """Plan a batch that names the person, while the person is erased amid a method of its store."""
    plain = getattr(Batches, method)

    def erased_before(store, *args):
        monkeypatch.setattr(Batches, method, plain)
        erased()
        return plain(store, *args)

    monkeypatch.setattr(Batches, method, erased_before)
    names = (people.HERO, people.NAME, "Stranger")
    rows = [{"Player": name, "Operation": "give", **people.GIFT} for name in names]
    body = {"Name": f"More for {people.HERO}", "Reason": f"{people.NAME} won", "Rows": rows}
    planned = client.post("/api/v1/batches", json=body, headers=staff)
    assert planned.status_code == 200, planned.json
    return planned.json["Id"]


@pytest.mark.parametrize("method", ["describe", "add_rows", "complete"])
def test_an_erasure_and_a_plan_meet_each_other(client, person, db, app, monkeypatch, method):
    """A plan that is under way when a person is erased, in whichever of its steps."""
    _, staff, _ = person
    statuses = []

    def erased():
        for _ in range(2):
            statuses.append(client.post(ERASE, json=CONFIRM, headers=staff).status_code)
            settle(db)

    batch_id = plan_amid(client, staff, monkeypatch, method, erased)
    # The erasure need not wait for the plan: what is stored after it lets it go on.
    assert statuses == [503, 200]
    service(app, UnfinishedWork).finish_all()
    assert people.found_in(db) == []
    named = [row["Player"] for row in db.batch_rows.find({"Batch": batch_id}, sort=[("_id", 1)])]
    assert named == ["(erased)", "Stranger"]


def test_rows_about_somebody_who_was_erased_are_not_kept(client, person, db, app, monkeypatch):
    """A worker that stood still, whose plan was taken for dead."""
    _, staff, _ = person

    def erased():
        under_way = list(db.batches.find({"State": "planning"}))
        db.batches.delete_many({"State": "planning"})
        assert erase(client, staff, db).status_code == 200
        db.batches.insert_many(under_way)

    batch_id = plan_amid(client, staff, monkeypatch, "add_rows", erased)
    kept = db.batch_rows.find({"Batch": batch_id}, sort=[("_id", 1)])
    assert [row["Subject"] and row["Subject"]["Name"] for row in kept] == [None, "Stranger"]
    assert list(service(app, Erasures).returned()) == []


def test_rows_about_a_character_that_is_somebody_elses_by_now_are_kept(client, person, db):
    _, staff, others = person
    hero = db.players.find_one({"Name": people.HERO})
    assert erase(client, staff, db).status_code == 200
    heir = {"UserId": others["colleague"], "Name": "Heir", "NameKey": "heir"}
    db.players.insert_one({**hero, **heir})
    rows = [{"Player": "Heir", "Operation": "give", **people.GIFT}]
    planned = client.post("/api/v1/batches", json={"Rows": rows}, headers=staff).json
    assert planned["Ready"] == 1


def test_rows_that_name_a_character_by_its_id_are_not_kept(client, person, db, app, monkeypatch):
    _, staff, _ = person
    hero = db.players.find_one({"Name": people.HERO})["_id"]
    body = {"Rows": [{"Player": hero, "Operation": "give", **people.GIFT}]}
    assert erase(client, staff, db).status_code == 200
    # Of a player who is not there, a row has what was sent alone.
    planned = client.post("/api/v1/batches", json=body, headers=staff)
    assert planned.json["Refused"] == 1
    service(app, UnfinishedWork).finish_all()
    (row,) = db.batch_rows.find({"Batch": planned.json["Id"]})
    assert hero not in str(row)


def test_it_does_not_wait_for_those_who_keep_writing_the_name(client, person, db, app):
    _, staff, _ = person
    erasures = service(app, Erasures)
    plain, reason = erasures._note_finished, {**staff, "X-Reason": f"{people.NAME} asked for it"}

    def named_before(record):
        path = "/api/v1/players/Stranger/items/give"
        given = client.post(path, json={"itemid": people.ITEM, "quantity": 1}, headers=reason)
        assert given.status_code == 200
        move_all(db)
        return plain(record)

    erasures._note_finished = named_before
    try:
        assert erase(client, staff, db).status_code == 200
    finally:
        erasures._note_finished = plain
    service(app, UnfinishedWork).finish_all()
    assert people.found_in(db) == []
    assert db.erasures.count_documents({"FinishedAt": None}) == 0


def test_rows_that_came_back_are_found(client, person, db, app):
    user_id, staff, _ = person
    rows = list(db.batch_rows.find({"Subject": {"$ne": None}}))
    erase(client, staff, db)
    db.batch_rows.delete_many({})
    db.batch_rows.insert_many(rows)
    erasures = service(app, Erasures)
    (trace,) = set(erasures.returned())
    assert (trace.collection, trace.user_id) == ("batch_rows", user_id)
    erasures.reopen(user_id)
    erasures.finish(user_id)
    assert list(erasures.returned()) == []
    assert people.found_in(db) == []
    # Nobody else is in them.
    assert db.batch_rows.count_documents({}) == len(rows) - 1


def test_neither_logs_nor_exports_tell_of_the_person_from_then_on(client, person, db, app):
    user_id, staff, _ = person
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    try:
        erase(client, staff, db)
        for path in ("history", f"history?by={user_id}", "players", "users", "players/Stranger"):
            client.get(f"/api/v1/{path}", headers=staff)
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
    user = world.add_user()
    path = f"/api/v1/users/{user['_id']}/personal-data"
    own, others = as_role(*Role), as_role(*Role)
    first, second = client.get(path, headers=own), client.get(path, headers=own)
    refused = client.get(path, headers=own)
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (503, True)
    assert refused.json["Message"] == "You load other files at the moment; please try again."
    with client.get(path, headers=others) as answer:
        assert answer.status_code == 200
    first.close()
    with client.get(path, headers=own) as answer:
        assert answer.json["User"]["Id"] == user["_id"]
    second.close()
