"""The keys of the console: made and shown once, rotated, revoked, and found in history."""

from __future__ import annotations

import logging
import re
import uuid
from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role, permissions_of_scopes
from tests.changes import entries_of
from tests.console_visitor import page_of, visitor
from tests.factories import guid, make_key, numbered_guid, with_keys

ALL = (Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
COIN, ARROW = numbered_guid(1), numbered_guid(2)
SECRET = re.compile("qm_[0-9A-Za-z]{46}")
READ = {"may-players.read": "true"}


@pytest.fixture
def catalogue(world):
    world.add_object(Id=COIN, Name="Coin")
    world.add_object(Id=ARROW, Name="Arrow")


@pytest.fixture
def staff(app, world, catalogue):
    return visitor(app, world, *ALL)


@pytest.fixture
def tool_maker(app, world, catalogue):
    return visitor(app, world, Role.API)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def works(client, secret):
    return client.get("/api/v1/players", headers=bearer(secret)).status_code == 200


def keys_in(db, visitor):
    return db.users.find_one({"_id": visitor.user["_id"]}).get("Keys", {})


def made(visitor, path="/keys", key=None, **fields):
    """Create a key, and return its id and its text."""
    answer = visitor.submit(path, 200, key, **{"Name": "shop", **READ, **fields})
    (id_,) = set(re.findall("/keys/([^/]*)/rotate", answer.text.split("Create a key")[0]))
    return id_, SECRET.search(answer.text)[0]


def seen_by(visitor, path):
    return re.search('name="seen" value="([^"]*)"', visitor.get(path).text)[1]


def test_a_key_is_shown_once_and_found_nowhere_else(tool_maker, client, db, caplog):
    caplog.set_level(logging.DEBUG)
    answer = tool_maker.submit("/keys", 200, Name="shop", **READ, reason="For the web shop")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "The key shop was created" in page_of(answer)
    (secret,) = SECRET.findall(answer.text)
    assert works(client, secret)
    listed = tool_maker.get("/keys")
    assert "shop" in page_of(listed)
    assert SECRET.search(listed.text) is None
    stored = [list(db[name].find()) for name in db.list_collection_names()]
    assert secret not in repr(stored)
    assert secret not in caplog.text
    assert secret not in str(answer.headers)


def test_what_was_typed_is_kept_and_listed(staff, db):
    fields = {
        "Name": " shop ",
        "may-players.change": "true",
        "Days": "30",
        "Addresses": "203.0.113.0/24, 10.0.0.1",
        "LargestQuantity": "100",
        "ItemsPerDay": "5000",
        "Items": f"coin\r\n\r\n{ARROW}\r\nCoin",
    }
    made(staff, **fields)
    (key,) = keys_in(db, staff).values()
    scopes = permissions_of_scopes(["players.read", "players.change"])
    assert (key["Name"], key["Scopes"]) == ("shop", scopes)
    assert key["Addresses"] == ["203.0.113.0/24", "10.0.0.1"]
    assert key["Budget"] == {
        "LargestQuantity": 100,
        "ItemsPerDay": 5000,
        "Items": [COIN, ARROW],
    }
    left = key["ExpiresAt"] - datetime.now(timezone.utc)
    assert timedelta(days=29) < left < timedelta(days=31)
    page = staff.read("/keys")
    assert "203.0.113.0/24, 10.0.0.1" in page
    assert "up to 100 at once, 0 of 5,000 used today; only Coin, Arrow" in page
    (entry,) = entries_of(db, staff.user)
    assert (entry["Operation"], entry["Via"]) == ("create-key", "console")
    assert set(entry["Arguments"]) == {"Name", "Scopes", "ExpiresAt", "Addresses", "Budget"}


def test_a_form_that_is_sent_again_makes_no_second_key_and_shows_no_text(staff, db):
    key = str(uuid.uuid4())
    id_, _ = made(staff, key=key)
    again = staff.submit("/keys", 200, key, Name="shop", **READ)
    assert SECRET.search(again.text) is None
    assert "This key was already created" in page_of(again)
    assert "rotate shop: it gets a new secret" in page_of(again)
    assert list(keys_in(db, staff)) == [id_]
    staff.post(f"/keys/{id_}/revoke", confirm="shop")
    gone = staff.post("/keys", key, Name="shop", **READ)
    assert "The key has since been revoked." in page_of(gone)
    other = staff.submit("/keys", 409, key, Name="other", **READ)
    assert "This form was already sent with other values" in page_of(other)


def test_an_item_that_several_have_the_name_of_is_asked_for_by_id(staff, world):
    world.add_object(Id=numbered_guid(3), Name="Coin")
    answer = staff.submit("/keys", 400, Name="shop", **READ, Items="coin")
    assert "several objects have the name coin: enter the id" in page_of(answer)
    made(staff, Items=COIN)


def test_a_rotated_key_shows_its_new_text_once_and_the_former_works_for_hours(staff, client, db):
    id_, former = made(staff)
    key = str(uuid.uuid4())
    fields = {"OverlapHours": "2", "Days": "10"}
    answer = staff.submit(f"/keys/{id_}/rotate", 200, key, **fields)
    assert "The key shop was rotated" in page_of(answer)
    assert "The former secret works until" in page_of(answer)
    (secret,) = SECRET.findall(answer.text)
    assert secret != former
    assert works(client, secret)
    assert works(client, former)
    assert "Former secret until" in staff.read("/keys")
    again = staff.post(f"/keys/{id_}/rotate", key, **fields)
    assert "This key was already rotated" in page_of(again)
    assert SECRET.search(again.text) is None
    assert works(client, secret)
    (stored,) = keys_in(db, staff).values()
    assert stored["ExpiresAt"] - datetime.now(timezone.utc) < timedelta(days=11)
    staff.post(f"/keys/{id_}/rotate", OverlapHours="0")
    assert not works(client, secret)


def test_a_key_that_a_colleague_has_rotated_is_not_rotated_unseen(app, world, staff):
    id_, _ = made(staff)
    path = f"/users/{staff.user['_id']}/keys"
    colleague = visitor(app, world, *ALL)
    seen = seen_by(staff, "/keys")
    colleague.submit(f"{path}/{id_}/rotate", 200)
    answer = staff.submit(f"/keys/{id_}/rotate", 409, seen=seen)
    assert f"{colleague.user['Name']}: Key shop rotated" in page_of(answer)
    staff.submit(f"/keys/{id_}/rotate", 200, seen=seen_by(staff, "/keys"))


def test_a_key_is_revoked_once_its_name_is_typed(staff, client, db):
    id_, secret = made(staff)
    for confirm in ("", "shoop"):
        refused = staff.submit(f"/keys/{id_}/revoke", 400, confirm=confirm, reason="Leaked")
        assert "Type shop here: this cannot be undone." in page_of(refused)
        assert 'value="Leaked"' in refused.text
    assert works(client, secret)
    key = str(uuid.uuid4())
    for _ in range(2):
        done = staff.post(f"/keys/{id_}/revoke", key, confirm=" SHOP ")
        told = page_of(staff.led_to(done))
        assert "The key was revoked." in told
    assert not works(client, secret)
    assert keys_in(db, staff) == {}


def test_who_may_not_see_accounts_is_told_that_a_key_of_their_own_was_revoked(tool_maker):
    id_, _ = made(tool_maker)
    done = tool_maker.post(f"/keys/{id_}/revoke", confirm="shop")
    page = tool_maker.get(done.headers["Location"].removeprefix("/console"))
    assert "The key was revoked." in page_of(page)


def test_a_manager_makes_rotates_and_revokes_the_keys_of_others(staff, world, client, db):
    user = world.add_user(Name="thalia", roles=(Role.API,))
    path = f"/users/{user['_id']}/keys"
    id_, secret = made(staff, path)
    assert works(client, secret)
    assert "shop" in staff.read("/users/thalia/keys")
    assert "shop" not in staff.read("/keys")
    rotated = staff.post(f"{path}/{id_}/rotate")
    assert works(client, SECRET.search(rotated.text)[0])
    revoked = staff.post(f"{path}/{id_}/revoke", confirm="shop")
    told = page_of(staff.led_to(revoked))
    assert "The key was revoked." in told
    assert db.users.find_one({"_id": user["_id"]})["Keys"] == {}
    told = staff.read("/users/thalia/history")
    for line in ("Key shop made", "Key shop rotated", "Key shop revoked"):
        assert line in told
    listed = staff.get("/users/thalia/history").text
    entry = re.search('class="when"><a href="/console([^"]*)"', listed)[1]
    assert "not kept" in page_of(staff.get(entry))


def test_a_key_of_somebody_who_only_plays_is_said_to_be_of_no_use(staff, world):
    world.add_user(Name="thalia")
    assert "can do nothing" in staff.read("/users/thalia/keys")


def test_history_tells_which_key_it_was_and_is_filtered_by_it(staff, client, world):
    _, secret = made(staff, **{"may-players.change": "true"})
    world.add_player(Name="Aladric")
    give = {"itemid": COIN, "quantity": 5}
    path = "/api/v1/players/Aladric/items/give"
    assert client.post(path, json=give, headers=bearer(secret)).status_code == 200
    other = {**give, "quantity": 7}
    assert client.post(path, json=other, headers=world.headers()).status_code == 200
    page = staff.get("/history?player=Aladric&key=shop")
    assert "api, key shop" in page_of(page)
    assert "+5 Coin" in page_of(page)
    assert "+7 Coin" not in page_of(page)
    assert 'name="key" type="text" value="shop"' in page.text
    entry = re.search('class="when"><a href="/console([^"]*)"', page.text)[1]
    assert "with the key shop" in page_of(staff.get(entry))
    assert f"/console/history?by={staff.user['_id']}&amp;key=shop" in staff.get("/keys").text


@pytest.mark.parametrize("odd", [None, "text", 5, {}, [], ["text", 5], True], ids=str)
def test_keys_are_shown_whatever_a_game_has_stored_of_them(staff, world, odd):
    parts = ("Scopes", "Addresses", "Budget", "LastUsedAt", "Secrets")
    budget = dict.fromkeys(("LargestQuantity", "ItemsPerDay", "Items"), odd)
    keys = {
        guid(): {**make_key("a"), **dict.fromkeys(parts, odd)},
        guid(): make_key("b", Budget=budget, Name="other"),
        guid(): odd,
        guid(): make_key("c", Name="intact"),
    }
    user = with_keys(world.add_user(Name="thalia"))
    world.db.users.delete_one({"_id": user["_id"]})
    is_mock = "mongomock" in type(world.db).__module__
    options = {} if is_mock else {"bypass_document_validation": True}
    world.db.users.insert_one({**user, "Keys": keys}, **options)
    page = staff.get("/users/thalia/keys")
    assert page.status_code == 200
    assert "intact" in page.text
