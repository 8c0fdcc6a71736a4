"""The pages of the console for the game: what they ask it, and what they say of its answer."""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from tests.console_visitor import PASSWORD, Visitor, body_of, commands_of, page_of, visitor
from tests.factories import guid, make_entry, numbered_guid
from tests.game import look, make_action, playing
from tests.tiers import some

NO_GAME = "No game is running: no game server has asked for actions in the last 10 seconds."
MAP, OTHER_MAP, TWIN = (numbered_guid(number) for number in (1, 2, 3))
# The forms of a player's page that need no more than the name of the player.
VERBS = {"kick": "Kicked Aladric.", "kill": "Killed Aladric."}


@pytest.fixture(autouse=True)
def maps(world):
    world.add_object(Id=MAP, Type="map", Name="Ravenrock")
    world.add_object(Id=OTHER_MAP, Type="map", Name="Twin Peaks")


@pytest.fixture
def staff(app, world):
    return visitor(app, world, Role.API, Role.USERS_QUERY)


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric", Online=True, LastSeen=datetime.now(timezone.utc))


@pytest.fixture
def user(world, player):
    return world.add_user(Name="thalia")


@pytest.fixture
def game(db):
    with playing(db) as game:
        yield game


@pytest.mark.parametrize("verb", VERBS)
def test_a_player_is_kicked_and_killed_by_name_alone(staff, player, game, verb):
    for confirm in ("", "Amelia"):
        refused = staff.submit(f"/players/Aladric/{verb}", 400, confirm=confirm, reason="Idle")
        assert "Type Aladric here: this cannot be undone." in refused.text
        assert 'value="Idle"' in refused.text
    assert game.taken == []
    answer = staff.post(f"/players/Aladric/{verb}", confirm=" aladric ", reason="Idle")
    page = page_of(staff.led_to(answer))
    assert VERBS[verb] in page
    assert "“Idle”" in page
    (asked,) = game.taken
    assert (asked["Kind"], asked["Via"], asked["Reason"]) == (verb, "console", "Idle")
    assert asked["Subject"] == {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    by = {"UserId": staff.user["_id"], "Name": staff.user["Name"], "Key": None}
    assert asked["By"] == by


@pytest.mark.parametrize(
    ("typed", "arguments", "told"),
    [
        ({"mapid": "ravenrock"}, {"MapId": MAP, "X": None, "Y": None}, "to Ravenrock (7, 8)."),
        (
            {"mapid": MAP, "x": "3", "y": "-4"},
            {"MapId": MAP, "X": 3, "Y": -4},
            "to Ravenrock (7, 8).",
        ),
        (
            {"mapid": numbered_guid(9)},
            {"MapId": numbered_guid(9), "X": None, "Y": None},
            "to 00000000… (7, 8).",
        ),
    ],
    ids=["by name", "to a place", "by an id that the catalogue has not"],
)
def test_a_player_is_warped(staff, player, db, typed, arguments, told):
    where = {"Result": {"MapId": MAP, "X": 7, "Y": 8}}
    with playing(db, lambda _: where) as game:
        answer = staff.post("/players/Aladric/warp", **typed, confirm="Aladric")
    assert f"Warped Aladric {told}" in page_of(staff.led_to(answer))
    assert [asked["Arguments"] for asked in game.taken] == [arguments]


def test_what_is_said_to_players_is_shown_to_those_alone_who_may_say_it(
    app, world, player, game, staff
):
    staff.post("/players/Aladric/message", Message="Come to the hall.")
    staff.post("/players/Aladric/letter", Message="Come to the hall.")
    letter, said = world.db.actions.find(sort=[("Kind", -1)])
    world.add_user(PASSWORD, Name="Vera", Roles=["viewer"])
    viewer = Visitor(app)
    viewer.sign_in("Vera")
    for path in ("", "/game", "/players/Aladric", "/players/Aladric/history"):
        assert "Come to the hall." not in viewer.read(path)
    for action in (letter, said):
        viewer.read(f"/game/{action['_id']}", 403)
    for path in ("/game.csv", "/chat.csv", "/chat"):
        viewer.read(path, 403)


def test_whoever_may_only_kick_is_told_what_came_of_it(app, world, player, game):
    world.add_user(PASSWORD, Name="Milo", Roles=["moderator"])
    moderator = Visitor(app)
    moderator.sign_in("Milo")
    page = page_of(moderator.led_to(moderator.post("/players/Aladric/kick", confirm="Aladric")))
    assert "Kicked Aladric." in page
    assert "Game actions" not in page


def test_a_message_reaches_one_player(staff, player, game):
    answer = staff.post("/players/Aladric/message", Message="Come to the hall.")
    assert "Said “Come to the hall.” to Aladric." in page_of(staff.led_to(answer))
    (asked,) = game.taken
    assert asked["Subject"]["Id"] == player["_id"]
    assert asked["Arguments"] == {"Message": "Come to the hall.", "Color": None, "Target": None}
    staff.submit("/players/Aladric/message", 400)


@pytest.mark.parametrize("verb", ["kick", "kill", "warp"])
def test_whoever_plays_with_an_account_is_reached_by_its_user(staff, user, game, verb):
    fields = {"mapid": "Ravenrock"} if verb == "warp" else {}
    staff.submit(f"/users/thalia/{verb}", 400, **fields, confirm="x")
    page = page_of(staff.led_to(staff.post(f"/users/thalia/{verb}", **fields, confirm="thalia")))
    assert f"{verb.capitalize()}" in page
    (asked,) = game.taken
    assert asked["Subject"] == {"Kind": "user", "Id": user["_id"], "Name": "thalia"}
    assert "thalia" in staff.read(f"/game?user={user['_id']}")


FORMS = [
    ("/players/Aladric/kick", {"confirm": "Aladric"}),
    ("/players/Aladric/kill", {"confirm": "Aladric"}),
    ("/players/Aladric/warp", {"mapid": "Ravenrock", "confirm": "Aladric"}),
    ("/players/Aladric/message", {"Message": "Hello."}),
    ("/users/thalia/kick", {"confirm": "thalia"}),
    ("/users/thalia/kill", {"confirm": "thalia"}),
    ("/users/thalia/warp", {"mapid": "Ravenrock", "confirm": "thalia"}),
    ("/chat", {"Message": "Hello."}),
]


def test_without_a_game_the_page_says_so_beside_another_refusal(staff, user):
    answer = staff.submit("/players/Aladric/kick", 400, str(uuid.uuid4()), confirm="somebody else")
    assert page_of(answer).count(NO_GAME) == 1


@pytest.mark.parametrize(("path", "fields"), some(FORMS))
def test_without_a_game_the_page_says_so_and_keeps_what_was_typed(staff, user, db, path, fields):
    key = str(uuid.uuid4())
    page = path.rpartition("/")[0] or path
    assert NO_GAME in staff.read(page)
    answer = staff.submit(path, 503, key, **fields)
    assert page_of(answer).count(NO_GAME) == 1
    for name, value in fields.items():
        assert re.search(f'name="{name}"[^>]* value="{value}"', answer.text), name
    assert db.actions.count_documents({}) == 0
    # Once there is a game, the same form is carried out.
    assert f'value="{key}"' in answer.text
    with playing(db) as game:
        staff.submit(path, 303, key, **fields)
        assert NO_GAME not in staff.read(page)
    assert len(game.taken) == 1


@pytest.mark.parametrize(("path", "fields"), some(FORMS))
def test_the_game_says_in_its_own_words_why_it_did_not(staff, user, db, path, fields):
    why = {"Done": None, "Error": "Aladric is <b>not</b> playing."}
    with playing(db, lambda _: why):
        answer = staff.post(path, **fields)
    assert answer.status_code == 409
    assert "Aladric is <b>not</b> playing." in answer.text.replace("&lt;", "<").replace("&gt;", ">")
    assert "<b>not</b>" not in answer.text
    assert "failed" in page_of(answer)
    for name, value in fields.items():
        assert re.search(f'name="{name}"[^>]* value="{value}"', answer.text), name


def test_what_is_not_answered_yet_is_told_with_a_link_until_it_is(staff, player, db, impatient):
    look(db)
    answer = staff.post("/players/Aladric/kick", confirm="Aladric")
    page = staff.led_to(answer)
    assert "The game was asked to kick Aladric. It has not answered yet." in page_of(page)
    assert page.text.count('data-follow="answer"') == 2
    (asked,) = db.actions.find()
    assert f'href="/console/game/{asked["_id"]}"' in page.text
    shown = staff.get(f"/game/{asked['_id']}")
    assert "No game server has taken it yet." in page_of(shown)
    assert 'data-follow="answer"' in shown.text
    taken = {"Taken": asked["At"], "TakenBy": "world-1"}
    db.actions.update_one({"_id": asked["_id"]}, {"$set": taken})
    assert "world-1 has taken it" in staff.read(f"/game/{asked['_id']}")
    db.actions.update_one({"_id": asked["_id"]}, {"$set": {"Done": asked["At"]}})
    later = staff.led_to(answer)
    assert "Kicked Aladric." in page_of(later)
    assert "data-follow" not in later.text
    db.actions.update_one({"_id": asked["_id"]}, {"$set": {"Error": "Nobody is there."}})
    told = page_of(staff.led_to(answer))
    assert "The game did not kick Aladric: Nobody is there." in told


def test_what_a_game_took_long_ago_is_not_waited_for(staff, player, db):
    before = datetime.now(timezone.utc) - timedelta(minutes=3)
    subject = {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    db.actions.insert_one(make_action(At=before, Subject=subject, Taken=before, TakenBy="world-1"))
    page = staff.get("/players/Aladric")
    assert "in progress" in page_of(page)
    assert "data-follow" not in page.text


def test_what_no_game_took_in_time_has_lapsed(staff, player, db):
    before = datetime.now(timezone.utc) - timedelta(minutes=2)
    by = {"UserId": staff.user["_id"], "Name": staff.user["Name"]}
    subject = {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    action = make_action(At=before, TakeBefore=before, By=by, Subject=subject)
    db.actions.insert_one(action)
    assert "expired" in staff.read("/players/Aladric")
    assert "so nothing was done" in staff.read(f"/game/{action['_id']}")
    notice = staff.read(f"/players/Aladric?done=action:{action['_id']}")
    assert "No game server took it in time, so nothing was done: kick Aladric." in notice


def test_only_who_has_asked_gets_the_news_and_not_for_long(app, world, staff, player, db, game):
    answer = staff.post("/players/Aladric/kick", confirm="Aladric")
    path = answer.headers["Location"].removeprefix("/console")
    assert "Kicked Aladric." not in page_of(visitor(app, world, Role.API).get(path))
    long_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    db.actions.update_many({}, {"$set": {"At": long_ago}})
    assert "Kicked Aladric." not in staff.read(path)
    for mark in ("action:", "action:x", f"action:{guid()}"):
        staff.read(f"/players/Aladric?done={mark}")


def test_who_is_not_online_is_told_of(staff, user, world, db, game):
    assert "is not online: the game will most likely refuse" not in page_of(
        staff.get("/players/Aladric")
    )
    world.add_player(Name="Amelia", UserId=user["_id"], Online=False)
    assert "Amelia is not online: the game" in staff.read("/players/Amelia")
    assert "No character of this account is online" in staff.read("/users/thalia")
    seen = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    db.players.update_one({"Name": "Amelia"}, {"$set": seen})
    assert "Now playing Amelia." in staff.read("/users/thalia")


COLOUR = {"A": 255, "R": 255, "G": 200, "B": 0}


@pytest.mark.parametrize(
    ("fields", "subject", "colour", "told", "back"),
    [
        ({"to": ""}, ("world", None), None, "to everybody.", "/chat"),
        (
            {"to": "everybody", "player": "Aladric"},
            ("world", None),
            None,
            "to everybody.",
            "/chat?to=everybody",
        ),
        (
            {"to": "map", "mapid": "Ravenrock", "colour": "#ffc800"},
            ("map", None),
            None,
            "to all on Ravenrock.",
            "/chat?to=map&mapid=Ravenrock",
        ),
        (
            {"to": "player", "player": " aladric ", "coloured": "true", "colour": "#FFC800"},
            ("player", "Aladric"),
            COLOUR,
            "to Aladric.",
            "/chat?to=player&player=+aladric+",
        ),
    ],
    ids=["everybody", "everybody by choice", "a map", "a player in a colour"],
)
def test_something_is_said(staff, player, game, fields, subject, colour, told, back):
    answer = staff.post("/chat", Message="The gates open.", **fields)
    assert re.sub("[?&]done=.*", "", answer.headers["Location"]) == f"/console{back}"
    page = staff.led_to(answer)
    assert f"Said “The gates open.” {told}" in page_of(page)
    (asked,) = game.taken
    assert (asked["Kind"], asked["Subject"]["Kind"], asked["Subject"]["Name"]) == ("chat", *subject)
    assert asked["Arguments"] == {"Message": "The gates open.", "Color": colour, "Target": None}
    # The next message is for the same ones, and what was said is below.
    assert re.search(rf'value="{fields["to"] or "everybody"}" checked', page.text)
    assert page_of(page).count("“The gates open.”") == 2
    assert "done" in page_of(page)


def test_the_page_of_the_game_tells_who_looks_and_who_is_away(staff, player, db):
    page = staff.read("/game")
    assert "No game is running: no game server has ever asked for actions." in page
    look(db, "long gone", ago=2 * 86400)
    page = staff.get("/game")
    assert NO_GAME in page_of(page)
    assert states(page) == {"long gone": "offline"}
    look(db, "world-2", ago=11)
    look(db, "tomorrow", ago=-3600)
    page = staff.get("/game")
    assert NO_GAME in page_of(page)
    assert "long gone" not in page.text
    assert states(page) == {"world-2": "offline", "tomorrow": "offline"}
    look(db, "world-1", ago=1)
    page = staff.get("/game")
    assert NO_GAME not in page_of(page)
    assert states(page) == {"world-1": "running", "world-2": "offline", "tomorrow": "offline"}
    assert "1 player online" in page_of(page)


def states(page):
    """Return what the page of the game says of each server."""
    rows = re.findall(r'<th scope="row"><bdi>(.*?)</bdi></th>.*?class="mark \w+">(\w+)<', page.text)
    return dict(rows)


def test_players_online_have_a_list(staff, player, world):
    world.add_player(Name="Amelia", Online=False)
    page = staff.get("/players/online")
    assert "Aladric" in page.text
    assert "Amelia" not in page.text
    staff.read("/players/online?after=x", 400)


def test_the_list_of_actions_has_filters_and_pages(staff, player, world, db):
    amelia = world.add_player(Name="Amelia")
    for number in range(45):
        who = amelia if number % 2 else player
        subject = {"Kind": "player", "Id": who["_id"], "Name": who["Name"]}
        kind = "kill" if number % 3 else "kick"
        at = datetime.now(timezone.utc) - timedelta(minutes=number)
        db.actions.insert_one(make_action(Kind=kind, Subject=subject, At=at, TakeBefore=at))
    seen, path = [], "/game?kind=kill&player=amelia"
    while path:
        page = staff.get(path)
        seen += re.findall(r'href="/console/game/([^"#]+)"', page.text)
        following = re.search(r'rel="next" href="/console([^"#]+)', page.text)
        path = following and following[1].replace("&amp;", "&")
    wanted = {"Kind": "kill", "Subject.Id": amelia["_id"]}
    assert sorted(seen) == sorted(action["_id"] for action in db.actions.find(wanted))
    assert "Nothing matches." in staff.read("/game?kind=warp")
    staff.read("/game?kind=dance", 400)
    assert "No player with name 'Nobody'." in staff.read("/game?player=Nobody", 404)
    staff.read("/game?after=x", 400)


def test_a_variable_of_a_guild_that_a_tool_asked_for_is_told_in_words(staff, db):
    subject = {"Kind": "guild", "Id": guid(), "Name": "Lanterns"}
    meant = {"VariableId": guid(), "Value": 5}
    action = make_action(Kind="guild-variable", Subject=subject, Arguments=meant)
    db.actions.insert_one(action)
    for path in ("/game", "/game?kind=guild-variable", f"/game/{action['_id']}"):
        page = staff.read(path)
        assert "Lanterns" in page, path
        assert "et a variable" in page, path


def test_the_page_of_the_game_shows_the_last_changes_and_how_tools_follow(staff, player, db):
    renamed = {"Path": "Name", "Before": "Aladric", "After": "Aldric"}
    db.history.insert_one(make_entry(player, Operation="rename", Changes=[renamed]))
    page = staff.get("/game")
    assert "Renamed: Aladric → Aldric" in page_of(page)
    assert any(line[-1].endswith("/api/v1/events?after=now") for line in commands_of(page))


@pytest.mark.parametrize("name", [7, None], ids=["a number", "nothing"])
def test_an_account_whose_name_a_game_has_spoilt_can_be_kicked(staff, user, db, game, name):
    spoil = {"$set": {"Name": name}} if name else {"$unset": {"Name": ""}}
    db.users.update_one({"_id": user["_id"]}, spoil, bypass_document_validation=True)
    answer = staff.post(f"/users/{user['_id']}/kick", confirm=user["_id"])
    assert staff.led_to(answer).status_code == 200
    assert game.taken[0]["Subject"]["Id"] == user["_id"]


def test_what_a_game_should_not_write_breaks_no_page(staff, player, db):
    now = datetime.now(timezone.utc)
    subject = {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    odd = {"Taken": "yes", "TakenBy": 7, "Done": 1, "Error": False, "Result": [1]}
    warp = {"Kind": "warp", "Arguments": {"MapId": 7, "X": "far", "Y": None}}
    chat = {"Kind": "chat", "Arguments": {}}
    kinds = (warp, chat, {"Kind": "heal"})
    actions = [make_action(At=now, Subject=subject, **odd, **kind) for kind in kinds]
    db.actions.insert_many(actions, bypass_document_validation=True)
    db.games.insert_one({"_id": "odd", "LookedAt": "now"}, bypass_document_validation=True)
    pages = ["/game", "/chat", "/players/Aladric"]
    for path in [*pages, *(f"/game/{action['_id']}" for action in actions)]:
        staff.read(path)


def test_the_curl_lines_of_forms_do_the_same(staff, user, client, world, db, game):
    """Each form is refused at first, so that its page has the line with what was typed."""
    headers = {**world.headers(Role.API, Role.USERS_QUERY), "X-Reason": ""}
    typed = {
        "/players/Aladric/warp": {"mapid": MAP, "x": "3", "y": "-4"},
        "/players/Aladric/kick": {},
        "/players/Aladric/kill": {},
        "/users/thalia/warp": {"mapid": "Ravenrock"},
        "/users/thalia/kick": {},
    }
    for path, fields in typed.items():
        page = staff.post(path, **fields, confirm="")
        verb = path.rpartition("/")[2]
        (line,) = [c for c in commands_of(page) if f"admin/{verb}" in c[-1]]
        url = line[-1].removeprefix("http://localhost")
        body = body_of(line) if "-d" in line else None
        key = next(word for word in line if word.startswith("Idempotency-Key"))
        sent = {**headers, "Idempotency-Key": key.partition(": ")[2]}
        assert client.post(url, json=body, headers=sent).status_code == 200
        own = re.search(rf'id="form-{verb}".*?name="key" value="([^"]*)"', page.text, re.DOTALL)[1]
        name = "thalia" if "thalia" in path else "Aladric"
        staff.submit(path, 303, own, **fields, confirm=name)
    assert [asked["Kind"] for asked in game.taken] == ["warp", "kick", "kill", "warp", "kick"]
    assert game.taken[0]["Arguments"] == {"MapId": MAP, "X": 3, "Y": -4}


def test_the_curl_lines_of_the_chat_do_the_same(staff, player, client, world, db):
    with playing(db, lambda _: {"Done": None, "Error": "No."}):
        for fields, path, colour in (
            ({}, "chat/global", {}),
            ({"to": "map", "mapid": "Ravenrock"}, f"chat/proximity/{MAP}", {}),
            (
                {"to": "player", "player": "Aladric", "coloured": "true", "colour": "#ffc800"},
                "chat/direct/Aladric",
                {"Color": COLOUR},
            ),
        ):
            (line,) = commands_of(staff.post("/chat", Message="Hello.", **fields))
            assert line[-1].endswith(f"/api/v1/{path}")
            assert body_of(line) == {"Message": "Hello.", **colour}


def test_players_are_suggested_to_choose_by_name(staff, player):
    options = staff.get("/suggest/player?q=ladr").text
    assert 'data-value="Aladric"' in options
    assert "<li" not in staff.get("/suggest/player?q=la").text
