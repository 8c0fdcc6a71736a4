"""The forms of the console: what they change, what they keep, and what they refuse."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime, timezone
from urllib.parse import urlencode

import pytest

from app.core.permissions import Role
from app.players.store import Players
from tests.changes import entries_of
from tests.console_visitor import body_of, commands_of, database_away, page_of, visitor
from tests.factories import make_bag, numbered_guid, sha256

ALL = (Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
POTION, SWORD, SPELL, VARIABLE, GLOBAL = (numbered_guid(number) for number in range(1, 6))


@pytest.fixture
def catalogue(world):
    world.add_object(Id=POTION, Name="Life Potion", StackLimit=60)
    world.add_object(Id=SWORD, Name="Iron Sword")
    world.add_object(Id=SPELL, Type="spell", Name="Fire Ball")
    world.add_object(Id=VARIABLE, Type="playervariable", Name="Quest Stage")
    world.add_object(Id=GLOBAL, Type="servervariable", Name="Drop Rate", Value=100)


@pytest.fixture
def staff(app, world, catalogue):
    return visitor(app, world, *ALL)


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric", Inventory={"1": {"ItemId": POTION, "Quantity": 57}})


def stored(db, player):
    return db.players.find_one({"_id": player["_id"]})


def test_giving_says_so_and_leaves_an_entry_with_its_door_and_reason(staff, player, db):
    fields = {"itemid": "life potion", "quantity": "12", "reason": "Ticket 4711 für Ä"}
    answer = staff.submit("/players/Aladric/give", 303, **fields)
    after = stored(db, player)
    assert after["Inventory"]["1"]["Quantity"] == 60
    assert after["Inventory"]["0"] == {"ItemId": POTION, "Quantity": 9}
    (entry,) = entries_of(db, player)
    assert (entry["Via"], entry["Reason"]) == ("console", "Ticket 4711 für Ä")
    assert entry["By"]["Name"] == staff.user["Name"]
    page = staff.led_to(answer)
    assert "Gave 12 Life Potion to Aladric." in page_of(page)
    assert "“Ticket 4711 für Ä”" in page_of(page)


def test_a_preview_shows_the_slots_and_changes_nothing(staff, player, db):
    fields = {"itemid": "Life Potion", "quantity": "12", "preview": "1"}
    answer = staff.submit("/players/Aladric/give", 200, **fields)
    assert "Slot 1: 57 → 60" in page_of(answer)
    assert "Slot 0: empty → 9" in page_of(answer)
    assert answer.text.count('class="slot will"') == 2
    assert stored(db, player) == player


def test_a_preview_that_would_be_refused_says_why(staff, player):
    fields = {"itemid": POTION, "quantity": "99", "preview": "1"}
    answer = staff.submit("/players/Aladric/take", 200, **fields)
    assert "The inventory holds 57 of the item" in page_of(answer)


def test_a_conflict_keeps_the_input_and_shows_what_changed_since(staff, player, client, world):
    give = {"itemid": SWORD, "quantity": 1}
    headers = world.headers()
    client.post("/api/v1/players/Aladric/items/give", json=give, headers=headers)
    seen = re.search('name="seen" value="([^"]*)"', staff.get("/players/Aladric").text)[1]
    take = {"itemid": POTION, "quantity": 50}
    client.post("/api/v1/players/Aladric/items/take", json=take, headers=headers)
    fields = {"itemid": "Life Potion", "quantity": "57", "seen": seen}
    answer = staff.submit("/players/Aladric/take", 409, **fields)
    assert "The inventory holds 7 of the item" in page_of(answer)
    assert "Since you opened this page:" in page_of(answer)
    assert "−50 Life Potion" in page_of(answer)
    assert 'value="57"' in answer.text


def test_a_name_that_several_have_is_asked_for(staff, player, world, db):
    twin = numbered_guid(99)
    world.add_object(Id=twin, Name="Iron Sword")
    answer = staff.submit("/players/Aladric/give", 400, itemid="iron sword", quantity="2")
    assert answer.text.count('name="choose"') == 2
    fields = {"itemid": "iron sword", "quantity": "2", "choose": twin}
    staff.submit("/players/Aladric/give", 303, **fields)
    assert stored(db, player)["Inventory"]["0"] == {"ItemId": twin, "Quantity": 2}


def test_a_part_of_a_name_brings_suggestions(staff, player):
    answer = staff.submit("/players/Aladric/give", 400, itemid="potio", quantity="2")
    assert f'value="{POTION}"' in answer.text
    nothing = staff.post("/players/Aladric/give", itemid="zeppelin", quantity="2")
    assert "No object in the catalogue has that name." in nothing.text


def test_a_reason_is_asked_for_where_it_is_required(app, staff, player, db):
    app.config["REASON_REQUIRED"] = True
    answer = staff.submit("/players/Aladric/give", 400, itemid=SWORD, quantity="1")
    assert "Give the reason for the change." in answer.text
    assert stored(db, player) == player
    fields = {"itemid": SWORD, "quantity": "1", "reason": "a"}
    staff.submit("/players/Aladric/give", 303, **fields)


def test_where_a_reason_is_required_every_form_asks_for_it(app, staff, player, world):
    app.config["REASON_REQUIRED"] = True
    world.add_user(Name="thalia")
    fields = {"itemid": SWORD, "quantity": "1", "reason": "a"}
    done = staff.post("/players/Aladric/give", **fields).headers["Location"]
    staff.post("/players/Aladric/teach", spellid=SPELL, reason="a")
    pages = [
        f"/players/Aladric{tab}" for tab in ("", "/spells", "/variables", "/history", "/notes")
    ]
    staff.post("/users/thalia/keys", Name="shop", reason="a", **{"may-players.read": "true"})
    pages += [f"/users/thalia{tab}" for tab in ("", "/notes", "/keys", "/sign-ins")]
    pages += [
        "/history",
        "/keys",
        "/chat",
        "/batches/new",
        f"/catalogue/servervariable/{GLOBAL}",
        done.removeprefix("/console"),
    ]
    for path in pages:
        for form in re.findall(r'<form method="post".*?</form>', staff.get(path).text, re.DOTALL):
            if "/sign-out" in form or "/end" in form:
                continue  # These leave no entry, but for that of a user, who is asked by name.
            assert 'name="reason"' in form, (path, form)


def test_a_variable_stays_what_it_is_set_as(staff, player, db):
    for typed, value in (("4", 4), ("-1", -1), ("true", True), ("False", False)):
        staff.submit("/players/Aladric/variables", 303, variableid="quest stage", value=typed)
        (kept,) = stored(db, player)["Variables"].values()
        assert (kept, type(kept)) == (value, type(value))


def test_a_global_variable_is_set_and_set_back_by_undo(staff, db):
    answer = staff.post(f"/catalogue/servervariable/{GLOBAL}/value", value="150")
    assert db.objects.find_one({"_id": GLOBAL})["Value"] == 150
    entry = answer.headers["Location"].split("done=")[1]
    staff.submit(f"/history/{entry}/undo", 303)
    assert db.objects.find_one({"_id": GLOBAL})["Value"] == 100
    wrong = staff.submit(f"/catalogue/servervariable/{GLOBAL}/value", 409, value="true")
    assert "must be a whole number" in wrong.text


def test_a_notice_is_shown_to_whoever_did_it_and_only_for_a_while(app, staff, player, world, db):
    done = staff.post("/players/Aladric/give", itemid=SWORD, quantity="3").headers["Location"]
    path = done.removeprefix("/console")
    assert 'class="toast"' in staff.get(path).text
    assert 'class="toast"' not in visitor(app, world, *ALL).get(path).text
    old = datetime(2026, 1, 1, tzinfo=timezone.utc)
    db.history.update_one({"Subject.Id": player["_id"]}, {"$set": {"At": old}})
    assert 'class="toast"' not in staff.get(path).text
    for strange in ("nonsense", "user:x:1", "player:x", "%00"):
        staff.read(f"/players?done={strange}")


def test_who_manages_users_is_banned_by_peers_alone(app, world, staff):
    world.add_user(Name="chief", roles=ALL)
    lesser = visitor(app, world, Role.API, Role.USERS_QUERY)
    assert 'id="form-ban"' not in lesser.get("/users/chief").text
    assert 'id="form-ban"' in staff.get("/users/chief").text
    assert "Only others with that role" in lesser.get("/users/chief").text
    assert "Only others with that role" not in staff.get("/users/chief").text


def test_an_undo_leads_back_to_where_it_was_asked_for(staff, player, db):
    given = staff.post("/players/Aladric/give", itemid=SWORD, quantity="3")
    entry = given.headers["Location"].split("done=")[1]
    back = f"/console/players/{player['_id']}/history?after=x"
    answer = staff.post(f"/history/{entry}/undo", back=back)
    assert answer.headers["Location"].startswith(f"{back}&done=")
    assert stored(db, player)["Inventory"] == player["Inventory"]
    again = staff.submit(f"/history/{entry}/undo", 409, back="https://evil.example/console")
    assert "was already undone" in again.text


def test_what_is_left_of_a_change_is_undone(staff, player, db):
    given = staff.post("/players/Aladric/give", itemid=SWORD, quantity="3")
    entry = given.headers["Location"].split("done=")[1]
    assert 'undo-partial"' not in staff.get(f"/history/{entry}").text
    staff.submit("/players/Aladric/take", 303, itemid=SWORD, quantity="2")
    for page in (staff.get(f"/history/{entry}"), staff.submit(f"/history/{entry}/undo", 409)):
        assert "You can undo the rest." in page.text
        assert "Undo as much as possible" in page.text
        assert f'action="/console/history/{entry}/undo"' not in page.text
        assert "Partial" in page.text
    staff.submit(f"/history/{entry}/undo-partial", 303, partial="true")
    assert stored(db, player)["Inventory"] == player["Inventory"]
    assert "2 of 3" in entries_of(db, player)[-1]["Warning"]
    staff.submit(f"/history/{entry}/undo-partial", 409, partial="true")


def test_an_undo_leads_to_no_other_site(staff, player):
    given = staff.post("/players/Aladric/give", itemid=SWORD, quantity="3")
    entry = given.headers["Location"].split("done=")[1]
    answer = staff.post(f"/history/{entry}/undo", back="//evil.example")
    assert answer.headers["Location"].startswith("/console/history/")


def test_a_note_is_written_shown_and_hidden_by_undo(staff, player, db):
    answer = staff.submit("/players/Aladric/notes", 303, Text="Asked twice.\r\nSee 4711.")
    assert "Asked twice.\nSee 4711." in staff.read("/players/Aladric/notes")
    entry = answer.headers["Location"].split("done=")[1]
    staff.submit(f"/history/{entry}/undo", 303)
    assert "Asked twice." not in staff.read("/players/Aladric/notes")


def test_a_user_is_banned_and_unbanned(staff, world, db):
    user = world.add_user(Name="thalia")
    fields = {"duration": "7", "reason": "Selling items", "ip": "true"}
    staff.submit("/users/thalia/ban", 303, **fields)
    page = staff.read("/users/thalia")
    assert "Banned until" in page
    assert "“Selling items”" in page
    kept = db.users.find_one({"_id": user["_id"]})
    assert (kept["IsBanned"], kept["BanByAddress"]) == (True, True)
    assert entries_of(db, user)[-1]["Via"] == "console"
    staff.submit("/users/thalia/unban", 303)
    assert db.users.find_one({"_id": user["_id"]})["IsBanned"] is False
    staff.submit("/users/thalia/unban", 303)


def test_a_ban_and_a_mute_are_seen_wherever_the_account_or_its_character_is(staff, app, world, db):
    user = world.add_user(Name="thalia", Email="thalia@example.com")
    world.add_player(Name="Thalion", UserId=user["_id"])
    pages = ["/players/Thalion", "/players/Thalion/notes", "/players?search=thal"]
    pages += ["/search?q=thal", "/search?q=thalia@example.com", "/suggest?q=thal"]
    pages += [f"/search?q={user['_id']}"]
    of_users = [*pages, "/users?search=thal", "/users/thalia"]
    clerk = visitor(app, world)
    until = datetime(2099, 11, 24, 12, tzinfo=timezone.utc)
    for flag, end, word in (
        ("IsBanned", "BannedUntil", "banned"),
        ("IsMuted", "MutedUntil", "muted"),
    ):
        assert [page for page in of_users if word in marks_of(staff.get(page))] == []
        db.users.update_one({"_id": user["_id"]}, {"$set": {flag: True, end: until}})
        assert [page for page in of_users if word not in marks_of(staff.get(page))] == []
        assert f"{word} until 2099-11-24 12:00 UTC" in staff.read("/players/Thalion")
        # Whoever may not see accounts is not told about one.
        assert [page for page in pages if word in marks_of(clerk.get(page))] == []
        db.users.update_one({"_id": user["_id"]}, {"$set": {end: datetime(2020, 1, 1)}})
        assert [page for page in of_users if word in marks_of(staff.get(page))] == []
    db.users.update_one({"_id": user["_id"]}, {"$set": {"IsBanned": True, "BannedUntil": None}})
    assert "banned permanently" in staff.read("/players/Thalion")


def marks_of(answer):
    assert answer.status_code == 200
    return re.findall('<span class="mark bad">([^<]*)</span>', answer.text)


@pytest.mark.parametrize("penalty", ["ban", "mute"])
@pytest.mark.parametrize("verb", ["", "un"])
def test_a_form_that_a_colleague_was_faster_with_can_be_sent_again(
    staff, world, client, penalty, verb
):
    world.add_user(Name="thalia")
    api, manager = f"/api/v1/users/thalia/admin/{{}}{penalty}", world.headers(*ALL)
    body = {"duration": 30, "reason": "Selling items"}
    if verb:
        client.post(api.format(""), json=body, headers=manager)
    seen = re.search('name="seen" value="([^"]*)"', staff.get("/users/thalia").text)[1]
    client.post(api.format(verb), json=None if verb else body, headers=manager)
    path, typed = f"/users/thalia/{verb}{penalty}", {"duration": "3", "reason": "Ticket 4711"}
    answer = staff.submit(path, 409, **typed, seen=seen)
    assert page_of(answer).count("send the form again if you still want to") == 1
    form = re.search(f'<form[^>]* id="form-{verb}{penalty}".*?</form>', answer.text, re.DOTALL)[0]
    assert 'value="Ticket 4711"' in form
    assert verb or 'value="3"' in form
    fields = dict(re.findall('name="([^"]*)"[^>]*? value="([^"]*)"', form))
    assert staff.send(path, fields).status_code == 303


def test_a_colleagues_ban_is_noticed_after_any_number_of_other_changes(staff, world, client):
    world.add_user(Name="thalia")
    staff.post("/users/thalia/notes", Text="Seen.")
    seen = re.search('name="seen" value="([^"]*)"', staff.get("/users/thalia").text)[1]
    manager = world.headers(*ALL)
    for days in range(1, 10):
        path = "/api/v1/users/thalia/admin/ban"
        assert client.post(path, json={"duration": days}, headers=manager).status_code == 200
    staff.submit("/users/thalia/ban", 409, duration="1", seen=seen)


def test_a_variable_is_compared_with_what_the_page_has_shown(staff, player, world, client):
    path = f"/api/v1/players/Aladric/variables/{VARIABLE}"
    colleague = world.headers()
    client.post(path, json={"value": 7}, headers=colleague)
    staff.post("/players/Aladric/give", itemid=SWORD, quantity="1")
    seen = re.search('name="seen" value="([^"]*)"', staff.get("/players/Aladric").text)[1]
    fields = {"variableid": "quest stage", "value": "1", "seen": seen}
    # What was set before the page was shown is no surprise, and what is set after it is.
    staff.submit("/players/Aladric/variables", 303, **fields)
    client.post(path, json={"value": 8}, headers=colleague)
    staff.submit("/players/Aladric/variables", 409, **fields)


def test_a_change_by_a_tool_of_the_same_account_is_not_overwritten(staff, player, world, client):
    path = f"/api/v1/players/Aladric/variables/{VARIABLE}"
    seen = re.search('name="seen" value="([^"]*)"', staff.get("/players/Aladric").text)[1]
    fields = {"variableid": "quest stage", "value": "1", "seen": seen}
    staff.submit("/players/Aladric/variables", 303, **fields)
    client.post(path, json={"value": 8}, headers=world.headers(user=staff.user))
    staff.submit("/players/Aladric/variables", 409, **fields)


def test_the_curl_line_of_a_refused_form_sends_what_was_typed(staff, world):
    world.add_user(Name="thalia")
    many = {"duration": "many", "ip": True}
    for path, typed, sent in (
        ("ban", {"duration": "many", "ip": "true"}, many),
        ("ban", {"duration": "0", "reason": "x"}, {"duration": 0, "reason": "x"}),
        ("email", {"new": "o'brien@example.com"}, {"new": "o'brien@example.com"}),
    ):
        assert sent in bodies_of(staff.submit(f"/users/thalia/{path}", 400, **typed))


def test_a_curl_line_that_nobody_has_typed_for_changes_nothing(staff, world, client, db, player):
    user = world.add_user(Name="thalia")
    manager = world.headers(*ALL)
    pages = ["/users/thalia", "/users/thalia/keys", "/players/Aladric", "/players/Aladric/spells"]
    pages += ["/players/Aladric/variables", f"/catalogue/servervariable/{GLOBAL}"]
    for page in pages:
        for command in commands_of(staff.get(page)):
            if "-d" in command:
                path, body = command[-1].removeprefix("http://localhost"), body_of(command)
                assert client.post(path, json=body, headers=manager).status_code == 400
    assert db.users.find_one({"_id": user["_id"]}) == user
    assert stored(db, player) == player


def bodies_of(answer):
    return [body_of(command) for command in commands_of(answer) if "-d" in command]


def test_what_cannot_be_undone_asks_by_name(staff, world, db):
    user = world.add_user("former", Name="thalia")
    fields = {"new": "correct battery", "again": "correct battery"}
    for confirm in ("", "other"):
        answer = staff.submit("/users/thalia/password", 400, **fields, confirm=confirm)
        assert "Type thalia here" in answer.text
        assert "correct battery" not in answer.text
    assert db.users.find_one({"_id": user["_id"]}) == user
    staff.submit("/users/thalia/password", 303, **fields, confirm="Thalia")


def test_a_password_that_is_set_works_and_is_nowhere_to_be_seen(staff, world, client, db):
    world.add_user("former", Name="thalia", roles=(Role.API,))
    new = "correct battery"
    fields = {"new": new, "again": new, "confirm": "thalia", "reason": "asked on the phone"}
    staff.submit("/users/thalia/password", 303, **fields)
    body = {"grant_type": "password", "username": "thalia", "password": sha256(new)}
    assert client.post("/api/oauth/token", data=body).status_code == 200
    everything = json.dumps([list(db[name].find()) for name in ("users", "history")], default=str)
    assert new not in everything
    assert sha256(new) not in everything


def test_a_password_that_is_typed_wrong_is_refused(staff, world):
    world.add_user("former", Name="thalia")
    for fields, fault in (
        ({"new": "short", "again": "short"}, "8 characters or more"),
        ({"new": "long enough", "again": "long enoug"}, "not match the first password"),
        ({"new": "long enough"}, "required"),
    ):
        assert fault in staff.submit("/users/thalia/password", 400, **fields, confirm="thalia").text


def test_an_address_is_changed_and_is_not_in_history(staff, world, db):
    world.add_user(Name="thalia", Email="former@example.com")
    taken = world.add_user(Name="other", Email="taken@example.com")
    fields = {"new": taken["Email"], "confirm": "thalia"}
    refused = staff.submit("/users/thalia/email", 409, **fields)
    assert 'value="taken@example.com"' in refused.text
    fields["new"] = "moved@example.com"
    staff.submit("/users/thalia/email", 303, **fields)
    user = db.users.find_one({"Name": "thalia"})
    assert user["Email"] == "moved@example.com"
    assert "example.com" not in str(entries_of(db, user))


def test_a_code_is_mailed_once_for_one_form(staff, world, db, data_dir):
    user = world.add_user(Name="thalia", Email="thalia@example.com")
    key = str(uuid.uuid4())
    for _ in range(2):
        staff.submit("/users/thalia/mail-code", 303, key)
    code = db.users.find_one({"_id": user["_id"]})["Reset"]["Code"]
    (mail,) = (data_dir / "outbox").iterdir()
    assert code in mail.read_text()
    assert len(entries_of(db, user)) == 1


def test_somebody_is_signed_out_everywhere(staff, world, app, db):
    other = visitor(app, world)
    name = other.user["Name"]
    staff.submit(f"/users/{name}/sign-out", 400, confirm="nobody")
    assert other.get("/sign-ins").status_code == 200
    staff.submit(f"/users/{name}/sign-out", 303, confirm=name)
    assert other.get("/sign-ins").status_code == 303


def test_the_filters_of_history_live_in_the_path(staff, player):
    staff.post("/players/Aladric/give", itemid=SWORD, quantity="3", reason="for the contest")
    staff.post("/players/Aladric/give", itemid=POTION, quantity="2")
    page = staff.read(f"/history?player=Aladric&item=iron+sword&by={staff.user['Name']}")
    assert "+3 Iron Sword" in page
    assert "+2 Life Potion" not in page
    wrong = staff.get("/history?from=yesterday&player=Aladric")
    assert wrong.status_code == 400
    assert "Must be a time" in wrong.text or "must be a time" in wrong.text
    assert 'value="yesterday"' in wrong.text
    staff.read("/history?from=2020-01-01T00:00")
    shared = staff.get("/history?from=2020-01-01T00:30%2B01:00&to=2020-01-01T00:30:05Z")
    assert 'value="2019-12-31T23:30:00.000"' in shared.text
    assert 'value="2020-01-01T00:30:05.000"' in shared.text
    staff.read("/history?player=nobody", 404)


def test_players_are_found_by_name_and_id_and_users_by_address(staff, player, world):
    user = world.add_user(Name="thalia", Email="thalia@example.com")
    assert "Aladric" in staff.read("/search?q=lad")
    assert "Aladric" in staff.read(f"/search?q={player['_id']}")
    assert "Aladric" in staff.read("/search?q=ALADRIC")
    assert "thalia@example.com" in staff.read("/search?q=thalia%40")
    assert "thalia" in staff.read(f"/search?q={user['_id']}")
    assert "Nobody has that name" in staff.read("/search?q=zzz")
    assert "3 letters or more" in staff.read("/search?q=al")
    staff.read(f"/search?q={'x' * 300}")


def test_whom_one_has_looked_at_is_remembered_for_the_same_account(staff, player, app, world):
    staff.get("/players/Aladric")
    assert "Aladric" in staff.read("")
    other = visitor(app, world)
    value = staff.cookie("quartermaster-recent").value
    other._client.set_cookie("quartermaster-recent", value, path="/console")
    assert "Recently viewed" not in page_of(other.get(""))


def test_a_strange_cookie_of_recent_ones_is_ignored(staff):
    for cookie in ("", ".", "nonsense", "x.pnothing", "a" * 3000):
        value = cookie.replace("x", staff.user["_id"])
        staff._client.set_cookie("quartermaster-recent", value, path="/console")
        staff.read()


def test_any_text_can_be_searched_for(staff):
    for text in ("\0\0\0", "a\0b\0c", "\u200b" * 3, "x" * 300, "(((", "%00%00"):
        for path in ("search", "suggest", "suggest/item"):
            staff.read(f"/{path}?{urlencode({'q': text})}")
        for path in ("players", "users", "catalogue/item"):
            staff.read(f"/{path}?{urlencode({'search': text})}")
        history = staff.get(f"/history?{urlencode({'item': text, 'reason': text})}")
        assert history.status_code in (200, 400)


def test_any_text_can_be_typed_for_an_item(staff, player):
    for text in ("life\0potion", "\0", "<b>", "x" * 2000):
        staff.submit("/players/Aladric/give", 400, itemid=text, quantity="1")
    assert (
        staff.post("/players/Aladric/give", itemid=" life potion ", quantity="1").status_code == 303
    )


def test_a_refusal_names_the_item_and_keeps_what_was_typed(staff, player):
    answer = staff.submit("/players/Aladric/take", 409, itemid=POTION, quantity="99")
    assert "The inventory holds 57 of the item Life Potion, not 99." in page_of(answer)
    assert re.search('<input[^>]*name="quantity"[^>]*value="99"[^>]*>', answer.text)


def test_a_form_that_comes_back_with_other_values_is_explained(staff, player, db):
    key = str(uuid.uuid4())
    staff.post("/players/Aladric/give", key, itemid=SWORD, quantity="1")
    answer = staff.submit("/players/Aladric/give", 409, key, itemid=SWORD, quantity="2")
    assert "This form was already sent with other values" in answer.text
    assert key not in answer.text
    assert stored(db, player)["Inventory"]["0"]["Quantity"] == 1


def test_the_address_of_a_form_leads_to_its_page(staff, player):
    id_ = player["_id"]
    for path, page in (
        (f"/players/{id_}/give", f"/console/players/{id_}"),
        ("/players/a%20b/take", "/console/players/a%20b"),
        (f"/sign-ins/{id_}/end", "/console/sign-ins"),
        ("/users/thalia/unban", "/console/users/thalia"),
        (f"/users/thalia/keys/{id_}/rotate", "/console/users/thalia/keys"),
        ("/users/thalia/erase", "/console/users/thalia"),
        ("/history/player:x:1/undo", "/console/history/player%3Ax%3A1"),
    ):
        answer = staff.get(path)
        assert answer.status_code == 303
        assert answer.headers["Location"].replace(":", "%3A") == page
    staff.read("/nowhere/at/all", 404)


def test_what_could_not_be_written_can_be_sent_again_as_the_same_change(
    staff, player, app, db, monkeypatch, caplog
):
    key = str(uuid.uuid4())
    fields = {"itemid": SWORD, "quantity": "1", "reason": "a <b> reason"}
    with monkeypatch.context() as patch:
        patch.setattr(Players, "get", database_away)
        patch.setattr(Players, "change", database_away)
        answer = staff.post("/players/Aladric/give", key, **fields)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"].isdigit()
    assert "The database does not answer. (no other cause)" in caplog.messages
    assert "Reload this page to send the form again" in page_of(answer)
    assert staff.post("/players/Aladric/give", key, **fields).status_code == 303
    assert stored(db, player)["Inventory"]["0"]["Quantity"] == 1


def bypass(db):
    is_mock = "mongomock" in type(db).__module__
    return {} if is_mock else {"bypass_document_validation": True}


def test_a_bag_of_any_size_can_be_opened(staff, world, db, player):
    bag = make_bag({"0": {"ItemId": SWORD, "Quantity": 2}}, size=3)
    for size in (3, 500, 10**9, -5):
        db.bags.replace_one(
            {"_id": bag["_id"]}, {**bag, "SlotCount": size}, upsert=True, **bypass(db)
        )
        page = staff.get(f"/players/Aladric?bag={bag['_id']}")
        assert page.status_code == 200
        assert "Iron Sword" in page_of(page)
        assert len(page.data) < 100_000
    assert "must be a guid" in staff.read("/players/Aladric?bag=nonsense", 400)
    assert "No bag with id" in staff.read(f"/players/Aladric?bag={SPELL}", 404)
