"""The keys of the console: made and shown once, rotated, revoked, and found in history."""

import logging
import re
import uuid
from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role, permissions_of_scopes
from tests.callers import bearer
from tests.console_visitor import fields_in, markup_of, page_of, visitor
from tests.factories import guid, make_entry, make_key, numbered_guid
from tests.tiers import some

COIN, ARROW = numbered_guid(1), numbered_guid(2)
SECRET = re.compile("qm_[0-9A-Za-z]{46}")
SHOP = {"Name": "shop", "may-players.read": "true"}


@pytest.fixture(autouse=True)
def catalogue(world):
    world.add_object(Id=COIN, Name="Coin")
    world.add_object(Id=ARROW, Name="Arrow")


@pytest.fixture
def works(client):
    return lambda key: client.get("/api/v1/players", headers=bearer(key)).status_code == 200


def secret_in(answer):
    """Return the text of a key that a page shows, or None."""
    found = SECRET.search(answer.text)
    return found and found[0]


def made(visitor, path="/keys", **fields):
    """Create a key, and return its id and its text."""
    answer = visitor.submit(path, 200, **SHOP, **fields)
    (id_,) = set(re.findall("/keys/([^/]*)/rotate", answer.text.split("Create a key")[0]))
    return id_, secret_in(answer)


def test_a_key_is_shown_once_and_found_nowhere_else(app, world, works, db, caplog):
    caplog.set_level(logging.DEBUG)
    clerk = visitor(app, world)
    answer = clerk.submit("/keys", 200, **SHOP, reason="For the web shop")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "The key shop was created" in page_of(answer)
    (secret,) = SECRET.findall(answer.text)
    assert works(secret)
    listed = clerk.get("/keys")
    assert "shop" in page_of(listed)
    assert secret_in(listed) is None
    stored = [list(db[name].find()) for name in db.list_collection_names()]
    assert secret not in repr(stored) + caplog.text + str(answer.headers)


def test_what_was_typed_is_kept_and_listed(lead, db):
    fields = {
        **{"may-players.change": "true", "Days": "30", "LargestQuantity": "100"},
        **{"Addresses": "203.0.113.0/24, 10.0.0.1", "ItemsPerDay": "5000"},
        "Items": f"coin\r\n\r\n{ARROW}\r\nCoin",
    }
    made(lead, **fields)
    (key,) = db.users.find_one({"_id": lead.user["_id"]})["Keys"].values()
    scopes = permissions_of_scopes(["players.read", "players.change"])
    assert (key["Name"], key["Scopes"]) == ("shop", scopes)
    assert key["Addresses"] == ["203.0.113.0/24", "10.0.0.1"]
    budget = {"LargestQuantity": 100, "ItemsPerDay": 5000, "Items": [COIN, ARROW]}
    assert key["Budget"] == budget
    left = key["ExpiresAt"] - datetime.now(timezone.utc)
    assert timedelta(days=29) < left < timedelta(days=31)
    page = lead.read("/keys")
    assert "203.0.113.0/24, 10.0.0.1" in page
    assert "up to 100 at once, 0 of 5,000 used today; only Coin, Arrow" in page


def test_a_form_that_is_sent_again_makes_no_second_key_and_shows_no_text(lead):
    key = str(uuid.uuid4())
    assert secret_in(lead.submit("/keys", 200, key, **SHOP))
    again = lead.submit("/keys", 200, key, **SHOP)
    assert secret_in(again) is None
    assert "This key was already created" in page_of(again)
    assert "rotate shop: it gets a new secret" in page_of(again)
    (id_,) = set(re.findall("/keys/([^/]*)/revoke", again.text))
    lead.submit(f"/keys/{id_}/revoke", 303, confirm="shop")
    gone = lead.post("/keys", key, **SHOP)
    assert "The key has since been revoked." in page_of(gone)


def test_an_item_that_several_have_the_name_of_is_asked_for_by_id(lead, world):
    world.add_object(Id=numbered_guid(3), Name="Coin")
    answer = lead.submit("/keys", 400, **SHOP, Items="coin")
    assert "several objects have the name coin: enter the id" in page_of(answer)
    made(lead, Items=COIN)


def test_a_rotated_key_shows_its_new_text_once_and_the_former_works_for_hours(lead, works):
    id_, former = made(lead)
    key = str(uuid.uuid4())
    fields = {"OverlapHours": "2", "Days": "10"}
    answer = lead.submit(f"/keys/{id_}/rotate", 200, key, **fields)
    assert "The key shop was rotated" in page_of(answer)
    assert "The former secret works until" in page_of(answer)
    assert "Former secret until" in lead.read("/keys")
    secret = secret_in(answer)
    assert (secret != former, works(secret), works(former)) == (True, True, True)
    again = lead.submit(f"/keys/{id_}/rotate", 200, key, **fields)
    assert "This key was already rotated" in page_of(again)
    assert (secret_in(again), works(secret)) == (None, True)


def test_a_key_that_a_colleague_has_rotated_is_not_rotated_unseen(app, world, lead):
    id_, _ = made(lead)
    rotate, colleague = f"keys/{id_}/rotate", visitor(app, world, *Role)
    form = f"form[action='/console/{rotate}']"
    fields = fields_in(lead.get("/keys"), form)
    colleague.submit(f"/users/{lead.user['_id']}/{rotate}", 200)
    refused = lead.send(f"/{rotate}", fields)
    assert refused.status_code == 409
    assert f"{colleague.user['Name']}: Key shop rotated" in page_of(refused)
    assert lead.send(f"/{rotate}", fields_in(lead.get("/keys"), form)).status_code == 200


def test_a_key_is_revoked_once_its_name_is_typed(app, world, works):
    clerk = visitor(app, world)
    id_, secret = made(clerk)
    for confirm in ("", "shoop"):
        refused = clerk.submit(f"/keys/{id_}/revoke", 400, confirm=confirm)
        assert "Type shop here: this cannot be undone." in page_of(refused)
    assert works(secret)
    # Also who may not see accounts is told.
    revoked = clerk.submit(f"/keys/{id_}/revoke", 303, confirm=" SHOP ")
    assert "The key was revoked." in page_of(clerk.led_to(revoked))
    assert not works(secret)


def test_a_manager_makes_a_key_for_somebody_else(lead, world, works):
    user = world.add_user(Name="thalia")
    path = f"/users/{user['_id']}/keys"
    # Of somebody who only plays.
    assert "can do nothing" in lead.read(path)
    world.db.users.update_one({"_id": user["_id"]}, {"$set": {"Power.Api": True}})
    _, secret = made(lead, path)
    assert works(secret)
    assert ("shop" in lead.read(path), "shop" in lead.read("/keys")) == (True, False)


def test_history_says_which_key_it_was_and_is_filtered_by_it(lead, world):
    player = world.add_player(Name="Aladric")
    for number, key in enumerate(("shop", None)):
        by = {"UserId": lead.user["_id"], "Name": "Lead", "Key": key}
        world.db.history.insert_one(make_entry(player, Version=number, By=by))
    page = lead.get("/history?player=Aladric&key=shop")
    (entry,) = markup_of(page).select(".when a")
    assert "api, key shop" in page_of(page)
    assert "with the key shop" in lead.read(entry["href"].removeprefix("/console"))
    made(lead)
    assert f"/console/history?by={lead.user['_id']}&amp;key=shop" in lead.get("/keys").text


@pytest.mark.parametrize("odd", some([None, "text", {}, ["text", 5], True, 5, []], 3), ids=str)
def test_keys_are_shown_whatever_a_game_has_stored_of_them(lead, db, odd):
    parts = ("Scopes", "Addresses", "Budget", "LastUsedAt", "Secrets")
    budget = dict.fromkeys(("LargestQuantity", "ItemsPerDay", "Items"), odd)
    keys = {
        guid(): {**make_key("a"), **dict.fromkeys(parts, odd)},
        guid(): make_key("b", Budget=budget, Name="other"),
        guid(): odd,
        guid(): make_key("c", Name="intact"),
    }
    db.users.update_one(
        {"_id": lead.user["_id"]}, {"$set": {"Keys": keys}}, bypass_document_validation=True
    )
    assert "intact" in lead.read("/keys")
