"""The forms of the console: what they change, what they keep, and what they refuse."""

import json
import uuid
from datetime import datetime, timezone
from urllib.parse import urlencode

import pytest

from app.core.permissions import Role
from app.players.store import Players
from tests.callers import Caller
from tests.changes import entries_of
from tests.console_visitor import (
    body_of,
    commands_of,
    database_away,
    fields_in,
    markup_of,
    page_of,
    texts_in,
    visitor,
)
from tests.factories import make_bag, numbered_guid, sha256

POTION, SWORD, SPELL, VARIABLE, GLOBAL = (numbered_guid(number) for number in range(1, 6))


@pytest.fixture(autouse=True)
def catalogue(world):
    world.add_object(Id=POTION, Name="Life Potion", StackLimit=60)
    world.add_object(Id=SWORD, Name="Iron Sword")
    world.add_object(Id=SPELL, Type="spell", Name="Fire Ball")
    world.add_object(Id=VARIABLE, Type="playervariable", Name="Quest Stage")
    world.add_object(Id=GLOBAL, Type="servervariable", Name="Drop Rate", Value=100)


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric", Inventory={"1": {"ItemId": POTION, "Quantity": 57}})


@pytest.fixture
def thalia(world):
    return world.add_user("former", roles=(Role.API,), Name="thalia")


@pytest.fixture
def give(lead, player):
    """Return a way to send the form that gives a sword, unless other fields are named."""

    def give(status=303, key=None, **fields):
        typed = {"itemid": SWORD, "quantity": "1", **fields}
        return lead.submit("/players/Aladric/give", status, key, **typed)

    return give


def stored(db, player):
    return db.players.find_one({"_id": player["_id"]})


def entry_of(answer):
    return answer.headers["Location"].split("done=")[1]


def test_a_change_is_shown_on_its_page_and_in_history_with_its_reason(lead, give, player, db):
    answer = give(itemid="life potion", quantity="12", reason="Ticket 4711 für Ä")
    (entry,) = entries_of(db, player)
    assert (entry["Via"], entry["Reason"]) == ("console", "Ticket 4711 für Ä")
    assert entry["By"]["Name"] == lead.user["Name"]
    page = page_of(lead.led_to(answer))
    assert "Gave 12 Life Potion to Aladric." in page
    assert "“Ticket 4711 für Ä”" in page


def test_a_preview_shows_the_slots_or_the_refusal_and_changes_nothing(lead, give, player, db):
    shown = give(200, itemid="Life Potion", quantity="12", preview="1")
    assert texts_in(shown, "#preview-give") == [
        "Slot 0: empty → 9 Slot 1: 57 → 60 Nothing goes into the bank."
    ]
    assert len(markup_of(shown).select(".slot.will")) == 2
    fields = {"itemid": POTION, "quantity": "99", "preview": "1"}
    refused = lead.submit("/players/Aladric/take", 200, **fields)
    assert "The inventory holds 57 of the item" in page_of(refused)
    assert stored(db, player) == player


def test_a_conflict_keeps_what_was_typed_and_shows_what_changed_since(lead, staff, give):
    give()
    fields = fields_in(lead.get("/players/Aladric"), "#form-take")
    staff("POST players/Aladric/items/take", {"itemid": POTION, "quantity": 50})
    fields |= {"itemid": "Life Potion", "quantity": "57"}
    refused = lead.send("/players/Aladric/take", fields)
    assert refused.status_code == 409
    told = page_of(refused)
    assert "The inventory holds 7 of the item Life Potion, not 57." in told
    assert "Since you opened this page:" in told
    assert "−50 Life Potion" in told
    assert fields_in(refused, "#form-take")["quantity"] == "57"


def test_a_name_that_is_not_enough_brings_choices(give, player, world, db):
    def choices(typed):
        return {button["value"] for button in markup_of(typed).select("button[name=choose]")}

    twin = numbered_guid(99)
    world.add_object(Id=twin, Name="Iron Sword")
    assert choices(give(400, itemid="iron sword")) == {SWORD, twin}
    assert choices(give(400, itemid="potio")) == {POTION}
    assert "No object in the catalogue has that name." in page_of(give(400, itemid="zeppelin"))
    give(itemid="iron sword", choose=twin)
    assert stored(db, player)["Inventory"]["0"] == {"ItemId": twin, "Quantity": 1}


def test_any_text_can_be_typed_for_an_item(give):
    for text in ("life\0potion", "\0", "<b>", "x" * 2000):
        give(400, itemid=text)
    give(itemid=" life potion ")


@pytest.mark.parametrize(
    ("typed", "value"), [("4", 4), ("-1", -1), ("true", True), ("False", False)]
)
def test_a_variable_is_stored_as_the_type_that_was_typed(lead, player, db, typed, value):
    lead.submit("/players/Aladric/variables", 303, variableid="quest stage", value=typed)
    (kept,) = stored(db, player)["Variables"].values()
    assert (kept, type(kept)) == (value, type(value))


def test_a_notice_is_shown_to_whoever_did_it_and_only_for_a_while(app, lead, give, world, db):
    path = give().headers["Location"].removeprefix("/console")
    assert texts_in(lead.get(path), ".toast")
    assert not texts_in(visitor(app, world, *Role).get(path), ".toast")
    db.history.update_many({}, {"$set": {"At": datetime(2026, 1, 1, tzinfo=timezone.utc)}})
    assert not texts_in(lead.get(path), ".toast")
    for strange in ("nonsense", "user:x:1", "player:x", "%00"):
        lead.read(f"/players?done={strange}")


def test_an_undo_leads_back_to_where_it_was_asked_for_and_to_no_other_site(lead, give, player, db):
    back = f"/console/players/{player['_id']}/history?after=x"
    undone = lead.submit(f"/history/{entry_of(give())}/undo", 303, back=back)
    assert undone.headers["Location"].startswith(f"{back}&done=")
    assert stored(db, player)["Inventory"] == player["Inventory"]
    undone = lead.submit(f"/history/{entry_of(give())}/undo", 303, back="//evil.example")
    assert undone.headers["Location"].startswith("/console/history/")


def test_an_undo_asks_for_the_reason_where_one_is_required(app, lead, give):
    app.config["REASON_REQUIRED"] = True
    page = lead.get(f"/history/{entry_of(give(reason='Lost.'))}")
    assert "reason" in fields_in(page, "form[action$='/undo']")


def test_what_is_left_of_a_change_is_undone(lead, give, player, db):
    entry = entry_of(give(quantity="3"))
    whole, rest = (f"form[action$='{entry}/{verb}']" for verb in ("undo", "undo-partial"))
    page = markup_of(lead.get(f"/history/{entry}"))
    assert (len(page.select(whole)), page.select(rest)) == (1, [])
    lead.submit("/players/Aladric/take", 303, itemid=SWORD, quantity="2")
    for answer in (lead.get(f"/history/{entry}"), lead.submit(f"/history/{entry}/undo", 409)):
        page = markup_of(answer)
        assert (page.select(whole), len(page.select(rest))) == ([], 1)
        assert "You can undo the rest." in page_of(answer)
    lead.submit(f"/history/{entry}/undo-partial", 303, partial="true")
    assert stored(db, player)["Inventory"] == player["Inventory"]
    assert "2 of 3" in entries_of(db, player)[-1]["Warning"]
    lead.submit(f"/history/{entry}/undo-partial", 409, partial="true")


def test_a_note_keeps_its_lines(lead, player):
    lead.submit("/players/Aladric/notes", 303, Text="Asked twice.\r\nSee 4711.")
    assert "Asked twice.\nSee 4711." in lead.read("/players/Aladric/notes")


@pytest.mark.parametrize(
    ("flag", "end", "word"),
    [("IsBanned", "BannedUntil", "banned"), ("IsMuted", "MutedUntil", "muted")],
)
def test_a_penalty_is_marked_wherever_the_account_or_its_character_is(
    app, lead, world, thalia, db, flag, end, word
):
    def marked(browser):
        pages = ("/players/Thalion", "/players/Thalion/notes", "/players?search=thal")
        pages += ("/search?q=thal", f"/search?q={thalia['_id']}", "/suggest?q=thal")
        if browser is lead:
            pages += ("/search?q=thalia@example.com", "/users?search=thal", "/users/thalia")
        return {word in texts_in(browser.get(page), ".mark.bad") for page in pages}

    def penalize(until):
        db.users.update_one({"_id": thalia["_id"]}, {"$set": {flag: True, end: until}})

    world.add_player(Name="Thalion", UserId=thalia["_id"])
    assert marked(lead) == {False}
    penalize(datetime(2099, 11, 24, 12, tzinfo=timezone.utc))
    assert marked(lead) == {True}
    assert f"{word} until 2099-11-24 12:00 UTC" in lead.read("/players/Thalion")
    # Whoever may not see accounts is not told about one.
    assert marked(visitor(app, world)) == {False}
    penalize(datetime(2020, 1, 1))
    assert marked(lead) == {False}
    penalize(None)
    assert f"{word} permanently" in lead.read("/players/Thalion")


# A page, its form, what is typed there, and a call of the API that changes the same meanwhile.
REPLACED = [
    *(
        ("/users/thalia", f"{verb}{penalty}", typed, f"users/thalia/admin/{verb}{penalty}", body)
        for penalty in ("ban", "mute")
        for verb, typed, body in (("", {"duration": "3"}, {"duration": 30}), ("un", {}, None))
    ),
    ("/players/Aladric", "rename", {"Name": "Walther"}, "players/Aladric/name", {"Name": "Wala"}),
    (
        *("/players/Aladric/variables", "set-variable", {"variableid": "quest stage"}),
        *(f"players/Aladric/variables/{VARIABLE}", {"value": 8}),
    ),
]


@pytest.mark.parametrize(("path", "form", "typed", "request_", "body"), REPLACED)
def test_what_was_changed_since_is_not_replaced_unseen(
    lead, staff, client, world, player, thalia, path, form, typed, request_, body
):
    for penalty in ("ban", "mute") if form.startswith("un") else ():
        staff(f"POST users/thalia/admin/{penalty}", {"duration": 1})
    staff(f"POST players/Aladric/variables/{VARIABLE}", {"value": 7})
    path = path.replace("Aladric", player["_id"])
    page = lead.get(path)
    action = markup_of(page).select_one(f"#form-{form}")["action"].removeprefix("/console")
    typed = {**typed, "reason": "Ticket 4711", **({"value": "1"} if "variable" in form else {})}
    # Also if it is a tool of the same account.
    tool = Caller(client, world.headers(user=lead.user), "/api/v1/")
    tool(f"POST {request_}", body)
    refused = lead.send(action, {**fields_in(page, f"#form-{form}"), **typed})
    assert refused.status_code == 409
    assert page_of(refused).count("send the form again if you still want to") == 1
    again = fields_in(refused, f"#form-{form}")
    assert typed.items() <= again.items()
    # What else has changed of a player is no obstacle.
    staff(f"POST players/{player['_id']}/notes", {"Text": "Seen."})
    assert lead.send(action, again).status_code == 303


def test_a_change_is_noticed_after_any_number_of_other_changes(lead, staff, thalia, db):
    staff("POST users/thalia/notes", {"Text": "Seen."})
    page = lead.get("/users/thalia")
    seen = fields_in(page, "#form-ban")["seen"]
    assert len(markup_of(page).select("#form-ban [type=checkbox][name=ip]")) == 1
    # Not one's own in the console: a form may be sent twice.
    for days in ("2", "3"):
        lead.submit("/users/thalia/ban", 303, duration=days, ip="true", seen=seen)
    assert db.users.find_one({"Name": "thalia"})["BanByAddress"] is True
    for days in range(1, 10):
        staff("POST users/thalia/admin/ban", {"duration": days})
    lead.submit("/users/thalia/ban", 409, duration="1", seen=seen)


def test_a_curl_line_that_nobody_has_typed_for_changes_nothing(
    lead, staff, client, db, player, thalia
):
    for page in ("users/thalia", "players/Aladric", "players/Aladric/variables"):
        for command in commands_of(lead.get(f"/{page}")):
            if "-d" in command:
                path = command[-1].removeprefix("http://localhost")
                answer = client.post(path, json=body_of(command), headers=staff.headers)
                assert answer.status_code == 400
    assert db.users.find_one({"_id": thalia["_id"]}) == thalia
    assert stored(db, player) == player


def test_a_password_that_is_set_works_and_is_nowhere_to_be_seen(lead, thalia, sign_in, db):
    new = "correct battery"
    for fields, fault in (
        ({"new": "short", "again": "short"}, "8 characters or more"),
        ({"new": new, "again": "correct batterie"}, "not match the first password"),
        ({"new": new}, "required"),
    ):
        refused = lead.submit("/users/thalia/password", 400, **fields, confirm="thalia")
        assert fault in page_of(refused)
        assert new not in refused.text
    assert db.users.find_one({"_id": thalia["_id"]}) == thalia
    lead.submit("/users/thalia/password", 303, new=new, again=new, confirm="thalia", reason="Asked")
    assert sign_in("thalia", new).status_code == 200
    everything = json.dumps([list(db[name].find()) for name in ("users", "history")], default=str)
    assert new not in everything
    assert sha256(new) not in everything


def test_the_filters_of_history_are_in_its_path(lead, give):
    give(quantity="3")
    give(itemid=POTION, quantity="2")
    page = lead.read(f"/history?player=Aladric&item=iron+sword&by={lead.user['Name']}")
    assert "+3 Iron Sword" in page
    assert "+2 Life Potion" not in page
    wrong = lead.get("/history?from=yesterday&player=Aladric")
    assert (wrong.status_code, fields_in(wrong, ".filters-card")["from"]) == (400, "yesterday")
    assert "must be a time" in page_of(wrong).lower()
    shared = lead.get("/history?from=2020-01-01T00:30%2B01:00&to=2020-01-01T00:30:05Z")
    shown = fields_in(shared, ".filters-card")
    assert (shown["from"], shown["to"]) == ("2019-12-31T23:30:00.000", "2020-01-01T00:30:05.000")


def test_players_are_found_by_name_and_id_and_users_by_address(lead, player, thalia):
    for query, found in (
        *(("lad", "Aladric"), ("ALADRIC", "Aladric"), (player["_id"], "Aladric")),
        *(("thalia%40", "thalia@example.com"), (thalia["_id"], "thalia")),
        *(("zzz", "Nobody has that name"), ("al", "3 letters or more")),
    ):
        assert found in lead.read(f"/search?q={query}"), query


def test_whom_one_has_looked_at_is_remembered_for_the_same_account(lead, player, app, world):
    lead.get("/players/Aladric")
    assert "Aladric" in lead.read()
    name, other = "quartermaster-recent", visitor(app, world)
    other.set_cookie(name, lead.cookie(name).value)
    assert "Recently viewed" not in other.read()
    for strange in ("", ".", "nonsense", f"{lead.user['_id']}.pnothing", "a" * 3000):
        lead.set_cookie(name, strange)
        lead.read()


@pytest.mark.parametrize("text", ["a\0b\0c", "\u200b" * 3, "x" * 300, "(((", "%00%00"])
def test_any_text_can_be_searched_for(lead, text):
    for path in ("search", "suggest", "suggest/item"):
        lead.read(f"/{path}?{urlencode({'q': text})}")
    for path in ("players", "users", "catalogue/item"):
        lead.read(f"/{path}?{urlencode({'search': text})}")
    history = lead.get(f"/history?{urlencode({'item': text, 'reason': text})}")
    assert history.status_code in (200, 400)


def test_a_form_that_comes_back_with_other_values_is_explained(give, player, db):
    key = str(uuid.uuid4())
    give(key=key)
    again = give(409, key, quantity="2")
    assert "This form was already sent with other values" in page_of(again)
    assert fields_in(again, "#form-give")["key"] != key
    assert stored(db, player)["Inventory"]["0"]["Quantity"] == 1


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("players/a%20b/take", "players/a%20b"),
        ("sign-ins/x/end", "sign-ins"),
        ("users/thalia/unban", "users/thalia"),
        ("users/thalia/keys/x/rotate", "users/thalia/keys"),
        ("history/player:x:1/undo", "history/player%3Ax%3A1"),
    ],
)
def test_the_address_of_a_form_leads_to_its_page(lead, path, page):
    answer = lead.get(f"/{path}")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/console/{page}")


def test_what_could_not_be_written_can_be_sent_again_as_the_same_change(
    give, player, db, monkeypatch, caplog
):
    key = str(uuid.uuid4())
    with monkeypatch.context() as patch:
        patch.setattr(Players, "get", database_away)
        patch.setattr(Players, "change", database_away)
        answer = give(503, key)
    assert answer.headers["Retry-After"].isdigit()
    assert "The database does not answer. (no other cause)" in caplog.messages
    assert "Reload this page to send the form again" in page_of(answer)
    give(303, key)
    assert stored(db, player)["Inventory"]["0"]["Quantity"] == 1


@pytest.mark.parametrize("size", [3, 10**9, -5])
def test_a_bag_of_any_size_can_be_opened(lead, player, db, size):
    bag = make_bag({"0": {"ItemId": SWORD, "Quantity": 2}}, size=size)
    db.bags.insert_one(bag, bypass_document_validation=True)
    page = lead.get(f"/players/Aladric?bag={bag['_id']}")
    assert "Iron Sword" in page_of(page)
    assert len(page.data) < 100_000


def test_a_bag_that_nobody_has_is_not_found(lead, player):
    assert "must be a guid" in lead.read("/players/Aladric?bag=nonsense", 400)
    assert "No bag with id" in lead.read(f"/players/Aladric?bag={SPELL}", 404)
