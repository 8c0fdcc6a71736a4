"""The pages of the console for the game: what they ask it, and what they say of its answer."""

import re
import uuid
from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from tests.console_visitor import (
    Visitor,
    body_of,
    commands_of,
    fields_in,
    markup_of,
    page_of,
    texts_in,
    visitor,
)
from tests.factories import guid, make_entry, numbered_guid
from tests.game import look, make_action, playing
from tests.tiers import some

NO_GAME = "No game is running: no game server has asked for actions in the last 10 seconds."
MAP = numbered_guid(1)


@pytest.fixture(autouse=True)
def maps(world):
    world.add_object(Id=MAP, Type="map", Name="Ravenrock")


@pytest.fixture
def clerk(app, world):
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


@pytest.fixture
def holder(app, world):
    """Return a way to sign in as somebody with a named role."""

    def sign_in(role):
        browser = Visitor(app)
        browser.user = world.add_user(Roles=[role])
        browser.begin_session()
        return browser

    return sign_in


PLACE = {"MapId": MAP, "X": None, "Y": None}
ACTIONS = [
    ("players/Aladric/kick", {}, {}, "Kicked Aladric."),
    ("players/Aladric/kill", {}, {}, "Killed Aladric."),
    ("users/thalia/kick", {}, {}, "Kicked thalia."),
    ("users/thalia/warp", {"mapid": MAP}, PLACE, "Warped thalia to Ravenrock (7, 8)."),
    ("players/Aladric/warp", {"mapid": "ravenrock"}, PLACE, "Warped Aladric to Ravenrock (7, 8)."),
    (
        *("players/Aladric/warp", {"mapid": numbered_guid(9), "x": "3", "y": "-4"}),
        {"MapId": numbered_guid(9), "X": 3, "Y": -4},
        "Warped Aladric to 00000000… (7, 8).",
    ),
    (
        *("players/Aladric/message", {"Message": "Come to the hall."}),
        {"Message": "Come to the hall.", "Color": None, "Target": None},
        "Said “Come to the hall.” to Aladric.",
    ),
]


@pytest.mark.parametrize(("path", "fields", "arguments", "sentence"), ACTIONS)
def test_the_game_is_asked_and_what_came_of_it_is_shown(
    clerk, player, user, db, path, fields, arguments, sentence
):
    kind, name, verb = path.split("/")
    where = {"Result": {"MapId": MAP, "X": 7, "Y": 8}} if verb == "warp" else {}
    with playing(db, lambda _: where) as game:
        answer = clerk.submit(f"/{path}", 303, **fields, confirm=name, reason="Idle")
    (asked,) = game.taken
    assert (asked["Arguments"], asked["Via"], asked["Reason"]) == (arguments, "console", "Idle")
    subject = player if kind == "players" else user
    assert asked["Subject"] == {"Kind": kind[:-1], "Id": subject["_id"], "Name": name}
    by = {"UserId": clerk.user["_id"], "Name": clerk.user["Name"], "Key": None}
    assert asked["By"] == by
    page = page_of(clerk.led_to(answer))
    assert sentence in page
    assert "“Idle”" in page


def test_what_is_said_to_players_is_shown_to_those_alone_who_may_say_it(
    clerk, holder, player, game, db
):
    for form in ("message", "letter"):
        clerk.submit(f"/players/Aladric/{form}", 303, Message="Come to the hall.")
    viewer = holder("viewer")
    for path in ("", "/game", "/players/Aladric", "/players/Aladric/history"):
        assert "Come to the hall." not in viewer.read(path)
    actions = [f"/game/{action['_id']}" for action in db.actions.find()]
    for path in (*actions, "/game.csv", "/chat.csv", "/chat"):
        viewer.read(path, 403)


def test_whoever_may_only_kick_is_told_what_came_of_it(holder, player, game):
    moderator = holder("moderator")
    kicked = moderator.submit("/players/Aladric/kick", 303, confirm="Aladric")
    page = page_of(moderator.led_to(kicked))
    assert "Kicked Aladric." in page
    assert "Game actions" not in page


FORMS = [
    ("/players/Aladric/kick", {"confirm": "Aladric"}),
    ("/players/Aladric/warp", {"mapid": "Ravenrock", "confirm": "Aladric"}),
    ("/players/Aladric/message", {"Message": "Hello."}),
    ("/users/thalia/kill", {"confirm": "thalia"}),
    ("/users/thalia/warp", {"mapid": "Ravenrock", "confirm": "thalia"}),
    ("/chat", {"Message": "Hello."}),
]


@pytest.mark.parametrize(("path", "fields"), some(FORMS, 2))
def test_without_a_game_the_page_says_so_and_keeps_what_was_typed(clerk, user, db, path, fields):
    key = str(uuid.uuid4())
    page = path.rpartition("/")[0] or path
    assert NO_GAME in clerk.read(page)
    refused = clerk.submit(path, 503, key, **fields)
    assert page_of(refused).count(NO_GAME) == 1
    shown = fields_in(refused, "form[data-typed]")
    assert {**fields, "key": key}.items() <= shown.items()
    assert db.actions.count_documents({}) == 0
    # Once there is a game, the same form is carried out.
    with playing(db) as game:
        assert clerk.send(path, shown).status_code == 303
        assert NO_GAME not in clerk.read(page)
    assert len(game.taken) == 1


@pytest.mark.parametrize(("path", "fields"), some(FORMS, 2))
def test_the_game_says_in_its_own_words_why_it_did_not(clerk, user, db, path, fields):
    with playing(db, lambda _: {"Done": None, "Error": "It is <b>not</b> there."}):
        refused = clerk.submit(path, 409, **fields)
    assert "It is <b>not</b> there." in texts_in(refused, ".refusal")[0]
    assert "failed" in page_of(refused)
    shown = fields_in(refused, "form[data-typed]")
    assert fields.items() <= shown.items()


def test_what_is_not_answered_yet_is_followed_until_it_is(clerk, player, db, impatient):
    look(db)
    kicked = clerk.submit("/players/Aladric/kick", 303, confirm="Aladric")
    (action,) = db.actions.find()
    path = f"/game/{action['_id']}"

    def follows(answer):
        return bool(markup_of(answer).select("[data-follow=answer]"))

    def becomes(**fields):
        db.actions.update_one({"_id": action["_id"]}, {"$set": fields})
        return clerk.led_to(kicked)

    waiting = clerk.led_to(kicked)
    assert "The game was asked to kick Aladric. It has not answered yet." in page_of(waiting)
    assert markup_of(waiting).select(f"a[href='/console{path}']")
    assert (follows(waiting), follows(clerk.get(path))) == (True, True)
    assert "No game server has taken it yet." in clerk.read(path)
    becomes(Taken=action["At"], TakenBy="world-1")
    assert "world-1 has taken it" in clerk.read(path)
    done = becomes(Done=action["At"])
    assert ("Kicked Aladric." in page_of(done), follows(done)) == (True, False)
    failed = becomes(Error="Nobody is there.")
    assert "The game did not kick Aladric: Nobody is there." in page_of(failed)


def test_what_a_game_took_long_ago_is_not_waited_for_and_what_none_took_has_expired(
    clerk, player, db
):
    before = datetime.now(timezone.utc) - timedelta(minutes=3)
    subject = {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    by = {"UserId": clerk.user["_id"], "Name": clerk.user["Name"]}
    action = make_action(At=before, TakeBefore=before, By=by, Subject=subject)
    db.actions.insert_one(action)
    assert "expired" in clerk.read("/players/Aladric")
    assert "so nothing was done" in clerk.read(f"/game/{action['_id']}")
    notice = clerk.read(f"/players/Aladric?done=action:{action['_id']}")
    assert "No game server took it in time, so nothing was done: kick Aladric." in notice
    db.actions.update_one({}, {"$set": {"Taken": before, "TakenBy": "world-1"}})
    page = clerk.get("/players/Aladric")
    assert "in progress" in page_of(page)
    assert not markup_of(page).select("[data-follow]")


def test_only_who_has_asked_gets_the_news_and_not_for_long(app, world, clerk, player, db, game):
    kicked = clerk.submit("/players/Aladric/kick", 303, confirm="Aladric")
    path = kicked.headers["Location"].removeprefix("/console")
    assert "Kicked Aladric." in clerk.read(path)
    assert "Kicked Aladric." not in visitor(app, world).read(path)
    long_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    db.actions.update_many({}, {"$set": {"At": long_ago}})
    assert "Kicked Aladric." not in clerk.read(path)
    for mark in ("action:", "action:x", f"action:{guid()}"):
        clerk.read(f"/players/Aladric?done={mark}")


def test_the_page_says_who_is_not_online(clerk, user, world, db):
    world.add_player(Name="Amelia", UserId=user["_id"], Online=False)
    assert "is not online: the game" not in clerk.read("/players/Aladric")
    assert "Amelia is not online: the game" in clerk.read("/players/Amelia")
    assert "No character of this account is online" in clerk.read("/users/thalia")
    online = texts_in(clerk.get("/players/online"), "tbody th")
    assert online == ["Aladric"]
    seen = {"Online": True, "LastSeen": datetime.now(timezone.utc)}
    db.players.update_one({"Name": "Amelia"}, {"$set": seen})
    assert "Now playing Amelia." in clerk.read("/users/thalia")


COLOUR = {"A": 255, "R": 255, "G": 200, "B": 0}
# Whom a message is for, and in what colour: the API for it, and the sentence about it.
CHAT = [
    ({"to": ""}, "chat/global", ("world", None), None, "to everybody."),
    (
        {"to": "map", "mapid": "Ravenrock", "colour": "#ffc800"},
        *(f"chat/proximity/{MAP}", ("map", None), None, "to all on Ravenrock."),
    ),
    (
        {"to": "player", "player": "Aladric", "coloured": "true", "colour": "#FFC800"},
        *("chat/direct/Aladric", ("player", "Aladric"), COLOUR, "to Aladric."),
    ),
]


@pytest.mark.parametrize(("fields", "api", "subject", "colour", "sentence"), CHAT)
def test_something_is_said(clerk, player, game, fields, api, subject, colour, sentence):
    said = clerk.submit("/chat", 303, Message="The gates open.", **fields)
    (asked,) = game.taken
    assert (asked["Kind"], asked["Subject"]["Kind"], asked["Subject"]["Name"]) == ("chat", *subject)
    assert asked["Arguments"] == {"Message": "The gates open.", "Color": colour, "Target": None}
    page = clerk.led_to(said)
    assert f"Said “The gates open.” {sentence}" in page_of(page)
    # The next message is for the same ones, and what was said is below.
    chosen = {name: fields[name] for name in ("mapid", "player") if name in fields}
    assert {"to": fields["to"] or "everybody", **chosen}.items() <= fields_in(
        page, "#form-chat"
    ).items()
    assert page_of(page).count("“The gates open.”") == 2


@pytest.mark.parametrize(("fields", "api", "subject", "colour", "sentence"), CHAT)
def test_the_curl_line_of_the_chat_does_the_same(
    clerk, player, impatient, fields, api, subject, colour, sentence
):
    (line,) = commands_of(clerk.submit("/chat", 503, Message="Hello.", **fields))
    assert line[-1].endswith(f"/api/v1/{api}")
    assert body_of(line) == {"Message": "Hello.", **({"Color": colour} if colour else {})}


def test_the_page_of_the_game_says_which_servers_ask_and_which_are_away(clerk, player, db):
    def states(page):
        return dict(re.findall(r"(long gone|tomorrow|world-\d).*?(running|offline)", page, re.S))

    assert "no game server has ever asked for actions." in clerk.read("/game")
    look(db, "long gone", ago=2 * 86400)
    assert states(clerk.read("/game")) == {"long gone": "offline"}
    look(db, "world-2", ago=11)
    look(db, "tomorrow", ago=-3600)
    page = clerk.read("/game")
    assert NO_GAME in page
    assert states(page) == {"world-2": "offline", "tomorrow": "offline"}
    look(db, "world-1", ago=1)
    page = clerk.read("/game")
    assert NO_GAME not in page
    assert states(page) == {"world-1": "running", "world-2": "offline", "tomorrow": "offline"}
    assert "1 player online" in page


def test_the_list_of_actions_has_filters_and_pages(clerk, player, db):
    subject = {"Kind": "player", "Id": player["_id"], "Name": "Aladric"}
    wanted = [make_action(Kind="kill", Subject=subject) for _ in range(25)]
    db.actions.insert_many([*wanted, make_action(Kind="kill"), make_action(Subject=subject)])
    seen, path = [], "/console/game?kind=kill&player=aladric"
    while path:
        page = markup_of(clerk.get(path.removeprefix("/console")))
        seen += [link["href"].rpartition("/")[2] for link in page.select(".when a")]
        following = page.select_one("a[rel=next]")
        path = following and following["href"].partition("#")[0]
    assert sorted(seen) == sorted(action["_id"] for action in wanted)
    assert "Nothing matches." in clerk.read("/game?kind=warp")
    assert "No player with name 'Nobody'." in clerk.read("/game?player=Nobody", 404)
    for wrong in ("kind=dance", "after=x"):
        clerk.read(f"/game?{wrong}", 400)


def test_the_page_of_the_game_shows_the_last_changes_and_how_tools_follow(clerk, player, db):
    renamed = {"Path": "Name", "Before": "Aladric", "After": "Aldric"}
    db.history.insert_one(make_entry(player, Operation="rename", Changes=[renamed]))
    subject = {"Kind": "guild", "Id": guid(), "Name": "Lanterns"}
    meant = {"VariableId": guid(), "Value": 5}
    db.actions.insert_one(make_action(Kind="guild-variable", Subject=subject, Arguments=meant))
    page = clerk.get("/game")
    assert "Renamed: Aladric → Aldric" in page_of(page)
    assert any(line[-1].endswith("/api/v1/events?after=now") for line in commands_of(page))
    assert "Lanterns" in page_of(page)
    assert "et a variable" in page_of(page)


@pytest.mark.parametrize("spoil", [{"$set": {"Name": 7}}, {"$unset": {"Name": ""}}])
def test_an_account_whose_name_a_game_has_spoilt_can_be_kicked(clerk, user, db, game, spoil):
    db.users.update_one({"_id": user["_id"]}, spoil, bypass_document_validation=True)
    kicked = clerk.submit(f"/users/{user['_id']}/kick", 303, confirm=user["_id"])
    assert clerk.led_to(kicked).status_code == 200
