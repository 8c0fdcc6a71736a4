"""Players who are renamed and deleted, and people who are erased, at the console."""

import json
import re
import uuid
from datetime import datetime, timezone

import pytest

from app.core.permissions import Role
from app.privacy.store import Erasures
from tests import people
from tests.console_visitor import markup_of, page_of, texts_in, visitor
from tests.factories import guid, numbered_guid

COIN = numbered_guid(1)


@pytest.fixture
def player(world):
    world.add_object(Id=COIN, Name="Coin")
    return world.add_player(Name="Aladric", Inventory={"1": {"ItemId": COIN, "Quantity": 5}})


@pytest.fixture
def path(player):
    return f"/players/{player['_id']}"


@pytest.fixture
def person(world, client):
    """Return the id of somebody with traces of all kinds."""
    return people.build(world, client)[0]


def undos_on(page):
    """Return the paths of the buttons and forms of a page that undo something."""
    found = markup_of(page).select("form[action$='/undo'], button[formaction$='/undo']")
    paths = {form.get("action") or form["formaction"] for form in found}
    return [path.removeprefix("/console") for path in paths]


def test_a_player_is_renamed_and_that_is_undone(lead, path):
    page = lead.led_to(lead.submit(f"{path}/rename", 303, Name=" Walther "))
    assert "Aladric is called Walther now." in page_of(page)
    back = lead.led_to(lead.submit(undos_on(page)[0], 303))
    assert "Renamed: Walther → Aladric" in page_of(back)


def test_a_player_and_a_user_are_found_by_a_former_name(app, lead, path, world, db):
    lead.submit(f"{path}/rename", 303, Name="Walther")
    user = world.add_user(Name="Thalia")
    former = [{"Name": "Melpomene", "Key": "melpomene"}, "of a game"]
    db.users.update_one({"_id": user["_id"]}, {"$set": {"FormerNames": former}})
    for search, now, then in (
        *((f"/{page}", "Walther", "Aladric") for page in ("search?q=alad", "suggest?q=ALADRIC")),
        ("/players?search=alad", "Walther", "Aladric"),
        *((f"/{page}", "Thalia", "Melpomene") for page in ("search?q=melpo", "suggest?q=melpo")),
        ("/users?search=melpo", "Thalia", "Melpomene"),
    ):
        page = lead.read(search)
        assert now in page, search
        assert f"formerly {then}" in page, search
    assert "Walther (formerly Aladric)" in lead.get("/suggest/player?q=aladric").text
    # Who is found by today's name is so once.
    assert "formerly" not in lead.read("/search?q=walther")
    assert "Renamed: Aladric" in lead.read("/history?player=aladric")
    lead.read("/history?user=melpomene")
    assert "Thalia" not in visitor(app, world).read("/search?q=melpo")


def test_a_player_is_deleted_and_keeps_a_page_from_which_it_is_brought_back(lead, path, player, db):
    lead.submit(f"{path}/give", 303, itemid=COIN, quantity="2")
    deleted = lead.submit(f"{path}/delete", 303, confirm="Aladric", reason="Asked")
    page = page_of(lead.led_to(deleted))
    for text in ("Deleted Aladric.", f"deleted {datetime.now(timezone.utc):%Y-%m-%d}", "“Asked”"):
        assert text in page
    for tab in (path, f"{path}/spells", f"{path}/notes", "/players/aladric"):
        assert "This player was deleted" in lead.read(tab)
    history = lead.get(f"{path}/history")
    assert "+2 Coin" in page_of(history)
    # The gift cannot be undone while nobody has it.
    (undo,) = undos_on(history)
    assert "Deleted" in lead.read(f"/history?player={player['_id']}")
    # The player's name is not among those that were looked at last.
    assert path not in lead.get("").text.split("Last changes")[0]
    assert "Brought back" in page_of(lead.led_to(lead.submit(undo, 303, back=f"/console{path}")))
    assert db.players.find_one({"_id": player["_id"]})["Name"] == "Aladric"


def test_a_form_for_somebody_who_was_deleted_meanwhile_says_so(lead, path, staff):
    staff(f"DELETE {path[1:]}")
    page = page_of(lead.submit(f"{path}/give", 404, itemid=COIN, quantity="2"))
    assert "No player with id" in page
    assert "This player was deleted" in page
    lead.submit(f"{path}/delete", 404, confirm="Aladric")


def test_nobody_knows_a_player_or_a_user_who_never_was(lead):
    for path in (f"players/{guid()}", f"players/{guid()}/history", "players/nobody"):
        lead.read(f"/{path}", 404)
    for path in (f"{guid()}", f"{guid()}/history", "nobody/keys", "nobody/personal-data"):
        lead.read(f"/users/{path}", 404)


def test_personal_data_are_a_file_with_a_harmless_name(lead, person):
    # A link elsewhere must not read them in the name of whoever follows it.
    away = lead.get(f"/users/{person}/personal-data", **{"Sec-Fetch-Site": "cross-site"})
    assert away.headers["Location"] == f"/console/users/{person}"
    assert "Personal data exported" not in lead.read(f"/users/{person}")
    answer = lead.get(f"/users/{people.NAME}/personal-data")
    assert answer.is_streamed
    expected = {
        "Content-Disposition": f'attachment; filename="personal-data-{person}.json"',
        "Content-Type": "application/json; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    assert {name: answer.headers[name] for name in expected} == expected
    data = json.loads(answer.data)
    assert data["User"]["Email"] == people.MAIL
    entry = data["HistoryAbout"][0]
    assert (entry["Operation"], entry["Via"]) == ("export-personal-data", "console")
    page = lead.get(f"/users/{person}")
    assert markup_of(page).select(f"a[href='/console/users/{person}/personal-data']")
    assert "Personal data exported" in page_of(page)


def test_an_erasure_under_way_says_so_and_when_it_is_done_what_went(
    lead, person, db, app, world, monkeypatch
):
    key = str(uuid.uuid4())
    path = f"/users/{person}"
    with monkeypatch.context() as patch:
        patch.setattr(Erasures, "_seconds_to_settle", lambda *_: 5.0)
        page = lead.led_to(lead.submit(f"{path}/erase", 303, key, Confirm=people.NAME))
    assert "This person is being erased" in page_of(page)
    assert "Refresh" in texts_in(page, f"a[href='/console{path}/history']")
    monkeypatch.setattr(Erasures, "_seconds_to_settle", lambda *_: 0.0)
    page = lead.led_to(lead.submit(f"{path}/erase", 303, key, Confirm=people.NAME))
    assert "This person was erased" in page_of(page)
    for went in ("Account1", "Characters2", "Bags2", "Sign-ins1", "Keys1"):
        assert went in page_of(page)
    assert "Changes of items and accounts must stay traceable" in page_of(page)
    assert (people.said_in(page.text), people.found_in(db)) == ([], [])
    assert undos_on(page) == []
    assert "This person was erased" in lead.read(path)
    lesser = visitor(app, world, Role.API, Role.USERS_QUERY).read(f"{path}/history")
    assert "This person was erased" in lesser
    assert "Deleted" not in lesser


def test_an_account_that_is_being_erased_is_shown_as_gone(lead, person, db):
    at = datetime.now(timezone.utc)
    db.users.delete_one({"_id": person})
    record = {"_id": person, "BegunAt": at, "Players": [], "Bags": [], "FinishedAt": None}
    db.erasures.insert_one(record)
    for tab in ("", "/history"):
        assert "being erased" in lead.read(f"/users/{person}{tab}")
    banned = lead.submit(f"/users/{person}/ban", 400, duration="many")
    assert "being erased" in page_of(banned)


def test_history_and_the_log_show_who_was_erased_by_id(lead, person, db, caplog):
    with caplog.at_level("INFO", "quartermaster.access"):
        lead.submit(f"/users/{people.NAME}/erase", 303, Confirm=people.NAME)
    paths = [record.details["path"] for record in caplog.records if hasattr(record, "details")]
    assert [path for path in paths if path.endswith("/erase")] == ["/console/users/***/erase"]
    (hero, _) = db.erasures.find_one({"_id": person})["Players"]
    for path in ("/history", f"/history?user={person}", f"/players/{hero}/history"):
        page = lead.read(path)
        assert "None" not in page, path
        assert people.said_in(page) == [], path
        assert re.search(f"{person}|{hero}", page), path
    page = lead.get(f"/players/{hero}/history")
    assert "belonged to a person who was erased" in page_of(page)
    assert undos_on(page) == []
    for link in markup_of(page).select(".when a"):
        assert "None" not in lead.read(link["href"].removeprefix("/console"))
