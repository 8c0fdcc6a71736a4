"""Players who are renamed and deleted, and people who are erased, at the console."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime, timezone

import pytest

from app.core.permissions import Role
from app.privacy.store import Erasures
from tests import people
from tests.console_visitor import page_of, visitor
from tests.factories import guid, numbered_guid

ALL = (Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
COIN = numbered_guid(1)


@pytest.fixture
def staff(app, world):
    world.add_object(Id=COIN, Name="Coin")
    return visitor(app, world, *ALL)


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric", Inventory={"1": {"ItemId": COIN, "Quantity": 5}})


@pytest.fixture
def path(player):
    return f"/players/{player['_id']}"


def seen_by(visitor, path):
    return re.search('name="seen" value="([^"]*)"', visitor.get(path).text)[1]


def undo_of(page):
    """Return the path of the form that undoes what a page is about."""
    return re.search('action="/console(/history/[^"]*/undo)"', page.text)[1]


def test_a_player_is_renamed_and_that_is_undone(staff, path, player, db):
    page = staff.led_to(staff.post(f"{path}/rename", Name=" Walther ", reason="Asked"))
    assert "Aladric is called Walther now." in page_of(page)
    assert "Renamed: Aladric → Walther" in page_of(page)
    assert db.players.find_one({"_id": player["_id"]})["NameKey"] == "walther"
    back = staff.led_to(staff.post(undo_of(page)))
    assert "Renamed: Walther → Aladric" in page_of(back)
    assert db.players.find_one({"_id": player["_id"]})["Name"] == "Aladric"


def test_a_name_that_a_colleague_has_given_is_not_replaced_unseen(staff, path, client, world):
    seen = seen_by(staff, path)
    api = f"/api/v1{path}"
    colleague = world.headers()
    give = {"itemid": COIN, "quantity": 1}
    assert client.post(f"{api}/items/give", json=give, headers=colleague).status_code == 200
    assert client.post(f"{api}/name", json={"Name": "Wala"}, headers=colleague).status_code == 200
    answer = staff.submit(f"{path}/rename", 409, Name="Walther", seen=seen)
    assert "Renamed: Aladric → Wala" in page_of(answer)
    # What else has changed is no obstacle.
    seen = seen_by(staff, path)
    assert client.post(f"{api}/items/give", json=give, headers=colleague).status_code == 200
    staff.submit(f"{path}/rename", 303, Name="Walther", seen=seen)


def test_a_player_is_found_by_a_former_name(staff, path, player):
    staff.post(f"{path}/rename", Name="Walther")
    for search in ("/search?q=alad", "/players?search=ALADRIC", "/suggest?q=aladric"):
        page = page_of(staff.get(search))
        assert "Walther" in page
        assert "formerly Aladric" in re.sub("<[^>]*>", "", page)
    assert "Walther (formerly Aladric)" in staff.get("/suggest/player?q=aladric").text
    # Who is found by today's name is so once.
    assert "formerly" not in staff.get("/search?q=walther").text
    assert "Renamed: Aladric" in staff.get("/history?player=aladric").text


def test_a_user_is_found_by_a_former_name(staff, world, app, db):
    user = world.add_user(Name="Thalia")
    former = [{"Name": "Melpomene", "Key": "melpomene"}, "of a game"]
    db.users.update_one({"_id": user["_id"]}, {"$set": {"FormerNames": former}})
    for search in ("/search?q=melpo", "/users?search=melpo", "/suggest?q=melpo"):
        page = page_of(staff.get(search))
        assert "Thalia" in page
        assert "formerly Melpomene" in re.sub("<[^>]*>", "", page)
    staff.read("/history?user=melpomene")
    without = visitor(app, world, Role.API)
    assert "Thalia" not in without.get("/search?q=melpo").text


def test_a_player_is_deleted_once_the_name_is_typed_and_brought_back(staff, path, player, db):
    for confirm in ("", "Aladrik"):
        refused = staff.submit(f"{path}/delete", 400, confirm=confirm, reason="Asked")
        assert "Type Aladric here to delete this player." in page_of(refused)
        assert 'id="delete-reason" name="reason" type="text" value="Asked"' in refused.text
    page = staff.led_to(staff.post(f"{path}/delete", confirm=" aladric ", reason="Asked"))
    assert page.status_code == 200
    assert "Deleted Aladric." in page_of(page)
    assert f"was deleted {datetime.now(timezone.utc):%Y-%m-%d}" in page_of(page)
    assert "“Asked”" in page_of(page)
    assert db.players.find_one({"_id": player["_id"]}) is None
    back = staff.led_to(staff.post(undo_of(page), back=f"/console{path}"))
    assert "Brought back" in page_of(back)
    kept = db.players.find_one({"_id": player["_id"]})
    assert kept["Inventory"] == player["Inventory"]
    assert "DeletedAt" not in kept


def test_who_was_deleted_keeps_a_page_from_which_alone_it_is_brought_back(staff, path, player):
    staff.post(f"{path}/give", itemid=COIN, quantity="2")
    staff.post(f"{path}/delete", confirm="Aladric")
    for tab in ("", "/spells", "/notes"):
        assert "This player was deleted" in staff.read(f"{path}{tab}")
    page = staff.get(f"{path}/history")
    assert "+2 Coin" in page_of(page)
    # In the card, and in the list: the gift cannot be undone while nobody has it.
    assert len(set(re.findall('action="([^"]*/undo)"', page.text))) == 1
    assert "This player was deleted" in staff.read("/players/aladric")
    assert "Deleted" in staff.read(f"/history?player={player['_id']}")
    # The player's name is not among those that were looked at last.
    assert path not in staff.get("").text.split("Last changes")[0]


def test_a_form_for_somebody_who_was_deleted_meanwhile_says_so(staff, path, world, client):
    answer = client.delete(f"/api/v1{path}", headers=world.headers())
    assert answer.status_code == 200
    page = staff.submit(f"{path}/give", 404, itemid=COIN, quantity="2")
    assert "No player with id" in page_of(page)
    assert "This player was deleted" in page_of(page)
    staff.submit(f"{path}/delete", 404, confirm="Aladric")


def test_nobody_knows_a_player_who_never_was(staff):
    for path in (f"/players/{guid()}", f"/players/{guid()}/history", "/players/nobody"):
        staff.read(path, 404)
    for path in (f"/users/{guid()}", f"/users/{guid()}/history", "/users/nobody/keys"):
        staff.read(path, 404)


@pytest.fixture
def person(world, client):
    """Return the id of somebody with traces of all kinds."""
    return people.build(world, client)[0]


def test_personal_data_are_a_file_with_a_harmless_name(staff, person, db):
    # A link elsewhere must not read them in the name of whoever follows it.
    away = staff.get(f"/users/{person}/personal-data", **{"Sec-Fetch-Site": "cross-site"})
    assert away.headers["Location"] == f"/console/users/{person}"
    assert "Personal data exported" not in staff.read(f"/users/{person}")
    answer = staff.get(f"/users/{people.NAME}/personal-data")
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"] == (
        f'attachment; filename="personal-data-{person}.json"'
    )
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.is_streamed
    data = json.loads(answer.data)
    assert data["User"]["Email"] == people.MAIL
    assert [character["Name"] for character in data["Characters"]] == [people.HERO]
    page = staff.get(f"/users/{person}").text
    assert f"/console/users/{person}/personal-data" in page
    assert "Personal data exported" in page
    entry = data["HistoryAbout"][0]
    assert (entry["Operation"], entry["Via"]) == ("export-personal-data", "console")
    staff.read("/users/nobody/personal-data", 404)


@pytest.mark.parametrize("confirm", ["", "somebody"])
def test_an_erasure_asks_for_the_name(staff, person, db, confirm):
    answer = staff.submit(f"/users/{person}/erase", 400, Confirm=confirm, reason="Asked by mail")
    field = re.search('<input id="erase-Confirm"[^>]*>', answer.text)[0]
    assert f'value="{confirm}"' in field
    assert 'aria-invalid="true"' in field
    assert 'value="Asked by mail"' in answer.text
    assert "Deleted:" in page_of(answer)
    assert "Kept:" in page_of(answer)
    assert db.erasures.count_documents({}) == 0


def test_an_erasure_under_way_says_so_and_when_it_is_done_what_went(
    staff, person, db, app, world, monkeypatch
):
    key = str(uuid.uuid4())
    path = f"/users/{person}"
    with monkeypatch.context() as patch:
        patch.setattr(Erasures, "_seconds_to_settle", lambda *_: 5.0)
        answer = staff.post(f"{path}/erase", key, Confirm=f" {people.NAME.upper()} ")
    page = staff.led_to(answer)
    assert page.status_code == 200
    assert "This person is being erased" in page_of(page)
    assert f'href="/console{path}/history">Refresh</a>' in page.text
    monkeypatch.setattr(Erasures, "_seconds_to_settle", lambda *_: 0.0)
    page = staff.led_to(staff.post(f"{path}/erase", key, Confirm=people.NAME))
    text = page_of(page)
    assert "This person was erased" in text
    for went in ("Account1", "Characters2", "Bags2", "Sign-ins1", "Keys1"):
        assert went in text
    assert "Changes of items and accounts must stay traceable" in text
    assert people.said_in(page.text) == []
    assert 'action="/console/history/' not in page.text
    assert people.found_in(db) == []
    assert "This person was erased" in staff.read(path)
    lesser = visitor(app, world, Role.API, Role.USERS_QUERY).get(f"{path}/history")
    assert "This person was erased" in page_of(lesser)
    assert "Deleted" not in page_of(lesser)


def test_an_account_that_is_being_erased_is_shown_as_gone(staff, person, db):
    at = datetime.now(timezone.utc)
    db.users.delete_one({"_id": person})
    record = {"_id": person, "BegunAt": at, "Players": [], "Bags": [], "FinishedAt": None}
    db.erasures.insert_one(record)
    for tab in ("", "/history"):
        assert "being erased" in staff.read(f"/users/{person}{tab}")
    banned = staff.submit(f"/users/{person}/ban", 400, duration="many")
    assert "being erased" in page_of(banned)


def test_history_shows_who_was_erased_by_id(staff, person, world, client, db):
    staff.post(f"/users/{person}/erase", Confirm=people.NAME)
    (hero, _) = db.erasures.find_one({"_id": person})["Players"]
    for path in ("/history", f"/history?user={person}", "/players/Stranger", f"/players/{hero}"):
        page = staff.get(path)
        if page.status_code == 303:
            page = staff.led_to(page)
        text = page_of(page)
        assert page.status_code == 200
        assert "None" not in text, path
        assert people.said_in(text) == [], path
        assert person in text or hero in text, path
    page = staff.get(f"/players/{hero}/history")
    assert "belonged to a person who was erased" in page_of(page)
    assert re.findall('action="[^"]*/undo"', page.text) == []
    for id_ in re.findall('class="when"><a href="/console([^"]*)"', page.text):
        entry = staff.get(id_)
        assert entry.status_code == 200
        assert "None" not in page_of(entry)


def test_the_log_of_an_erasure_names_nobody(staff, person, caplog):
    with caplog.at_level("INFO", "quartermaster.access"):
        staff.post(f"/users/{people.NAME}/erase", Confirm=people.NAME)
    paths = [record.details["path"] for record in caplog.records if hasattr(record, "details")]
    assert [path for path in paths if path.endswith("/erase")] == ["/console/users/***/erase"]
