"""Kick, kill, warp and chat: what the game is asked, and what its answer becomes."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import product

import pytest

from app.core.permissions import Role
from app.game.actions.schemas import ActionPageSchema, ActionSchema
from app.game.actions.store import WAIT_SECONDS, Actions
from app.http.context import SERVICES
from app.players.items.store import Catalogue
from app.players.store import Players
from app.storage.client import Storage
from tests.applications import service
from tests.callers import Caller
from tests.changes import cut_off
from tests.factories import moment, numbered_guid
from tests.game import look, make_action, playing
from tests.mongod import on_mongodb
from tests.system.programs import wait_until

MAP = numbered_guid(1)
KICK = "players/Aladric/admin/kick"
NO_GAME = "No game is running: no game server has asked for actions in the last 10 seconds."


@pytest.fixture
def user(world):
    return world.add_user(Name="Alice")


@pytest.fixture
def post(staff, player, user):
    return lambda path, body=None, status=200, **headers: staff(
        f"POST {path}", body, status, **headers
    )


@pytest.fixture
def get(staff):
    return lambda path, status=200: staff(f"GET {path}", status=status).json


DONE = [
    ("kick", None, "{} has been kicked by the server!", {}),
    ("kill", None, "{} has been killed!", {}),
    (
        *("warpto", {"mapid": MAP}, f"Warped '{{}}' to {MAP} (7, 8)."),
        {"MapId": MAP, "X": None, "Y": None},
    ),
    (
        *("warptoloc", {"mapid": MAP, "x": 3, "y": -4}, f"Warped '{{}}' to {MAP} (3, -4)."),
        {"MapId": MAP, "X": 3, "Y": -4},
    ),
]


def test_what_a_game_has_done_is_told_in_the_words_that_clients_match(db, post, player, user):
    def where(action):
        is_far = action["Arguments"].get("X", 0) is None
        return {"Result": {"MapId": MAP, "X": 7, "Y": 8}} if is_far else {}

    for path, kind, subject in (("players", "player", player), ("users", "user", user)):
        for verb, body, sentence, arguments in DONE:
            with playing(db, where) as game:
                answer = post(f"{path}/{subject['Name']}/admin/{verb}", body)
            assert answer.json["Message"] == sentence.format(subject["Name"])
            (asked,) = game.taken
            assert asked["Kind"] == verb.removesuffix("loc").removesuffix("to")
            about = {"Kind": kind, "Id": subject["_id"], "Name": subject["Name"]}
            assert (asked["Subject"], asked["Arguments"]) == (about, arguments)
            assert asked["By"]["Name"] == "Clerk"
            assert asked["TakeBefore"] - asked["At"] == timedelta(seconds=30)


def test_an_action_on_a_user_names_the_character_that_is_playing(db, post, get, world, user):
    lately = {"Online": True, "LastSeen": datetime.now(timezone.utc), "UserId": user["_id"]}
    world.add_player(Name="Idle", UserId=user["_id"])
    amelia = world.add_player(Name="Amelia", **lately)
    key = {"Idempotency_Key": "kick-1"}
    with playing(db) as game:
        first = post("users/Alice/admin/kick", **key)
        killed = post("users/Alice/admin/kill")
    assert first.json == {"Message": "Amelia has been kicked by the server!"}
    assert killed.json == {"Message": "Amelia has been killed!"}
    about = {"Kind": "user", "Id": user["_id"], "Name": "Alice"}
    assert game.taken[0]["Subject"] == {**about, "Character": "Amelia"}
    assert get(f"actions/{game.taken[0]['_id']}")["Subject"] == about
    db.players.update_one({"_id": amelia["_id"]}, {"$set": {"Online": False}})
    assert post("users/Alice/admin/kick", **key).json == first.json


COLOUR = {"A": 255, "R": 1, "G": 2, "B": 3}


def test_what_was_said_is_told_as_it_was_sent(db, post):
    for path, where, subject in (
        ("chat/global", {}, ("world", None)),
        (f"chat/proximity/{MAP}", {"mapId": MAP}, ("map", None)),
        ("chat/direct/aladric", {"lookupKey": "aladric"}, ("player", "Aladric")),
    ):
        for more in ({}, {"Color": COLOUR, "Target": "Amelia"}, {"Color": None, "Target": None}):
            body = {"Message": "Hello.", **more}
            with playing(db) as game:
                answer = post(path, body)
            assert answer.json == {"success": True, "chatMessage": body, **where}
            (asked,) = game.taken
            assert (asked["Subject"]["Kind"], asked["Subject"]["Name"]) == subject
            assert asked["Arguments"] == {"Color": None, "Target": None, **body}


def test_a_colour_is_completed_or_refused(db, post):
    said = {"Message": "Hello.", "Color": {"R": 7}, "Target": ""}
    with playing(db) as game:
        assert post("chat/global", said).json["chatMessage"] == said
    assert game.taken[0]["Arguments"]["Color"] == {"A": 255, "R": 7, "G": 255, "B": 255}
    for colour in ({"R": 256}, "red"):
        post("chat/global", {"Message": "a", "Color": colour}, 400)
    assert db.actions.count_documents({}) == 1


def test_without_a_game_it_is_refused_at_once_and_nothing_is_stored(db, post):
    began = time.monotonic()
    answer = post(KICK, status=503)
    assert (answer.json["Message"], answer.headers["Retry-After"]) == (NO_GAME, "10")
    assert time.monotonic() - began < 2
    assert db.actions.count_documents({}) == 0


@pytest.mark.usefixtures("impatient")
def test_a_game_counts_for_ten_seconds_and_a_wrong_clock_does_not(db, post):
    for ago, status in ((8, 202), (13, 503), (-8, 202), (-3600, 503)):
        look(db, ago=ago)
        post(KICK, status=status)


def test_the_game_gives_its_own_reason(db, post):
    with playing(db, lambda _: {"Error": "Aladric is not playing.", "Done": None}):
        assert post(KICK, status=409).json["Message"] == "Aladric is not playing."


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_comes_late_is_to_be_had_later(db, post, get):
    look(db)
    answer = post(KICK, status=202, X_Reason="Stuck").json
    assert answer["Message"] == "The game has not answered yet."
    path = f"actions/{answer['ActionId']}"
    action = get(path)
    assert ActionSchema().validate(action) == {}
    assert (action["State"], action["Reason"]) == ("waiting", "Stuck")
    stored = db.actions.find_one()
    # It is kept as long as history.
    assert stored["ExpiresAt"] - stored["At"] == timedelta(days=400)
    now = datetime.now(timezone.utc)
    written = {"Taken": now, "TakenBy": "world-1", "Done": now}
    db.actions.update_one({"_id": action["Id"]}, {"$set": written})
    assert get(path)["State"] == "done"


def test_it_waits_no_longer_than_two_seconds(app, db, post):
    service(app, Actions).wait_seconds = WAIT_SECONDS
    look(db)
    began = time.monotonic()
    post(KICK, status=202)
    assert time.monotonic() - began > 1.5


def test_few_wait_at_once_and_the_others_are_told_at_once(app, db, staff, player):
    actions = Actions(*(service(app, kind) for kind in (Storage, Players, Catalogue)), 1)
    actions.wait_seconds = 30.0
    app.extensions[SERVICES][Actions] = actions
    look(db)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(staff, f"POST {KICK}")
        wait_until(db.actions.find_one)
        staff(f"POST {KICK}", status=202)
        now = datetime.now(timezone.utc)
        db.actions.update_many({}, {"$set": {"Taken": now, "Done": now}})
        first.result()


@pytest.mark.usefixtures("impatient")
def test_the_same_request_again_asks_once(db, post):
    look(db)
    first, again = (post(KICK, status=202, Idempotency_Key="k") for _ in range(2))
    assert again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    # What nobody took in time was not done.
    action = db.actions.find_one()
    now = datetime.now(timezone.utc)
    # The service reads the clock of the database, which may be behind on a busy machine.
    db.actions.update_one({}, {"$set": {"TakeBefore": now - timedelta(minutes=1)}})
    lapsed = post(KICK, status=409, Idempotency_Key="k").json
    assert "nothing was done" in lapsed["Message"]
    db.actions.update_one({}, {"$set": {**action, "Taken": now, "Done": now}})
    # Also when no game runs any more.
    db.games.delete_many({})
    done = post(KICK, Idempotency_Key="k").json
    assert done["Message"] == "Aladric has been kicked by the server!"
    assert db.actions.count_documents({}) == 1


@on_mongodb
@pytest.mark.usefixtures("impatient")
def test_an_answer_again_rests_on_what_a_majority_holds(db, post, monkeypatch):
    look(db)
    post(KICK, status=202, Idempotency_Key="k")
    now = datetime.now(timezone.utc)
    db.actions.update_one({}, {"$set": {"Taken": now, "Done": now}})
    with monkeypatch.context() as patch:
        cut_off(patch)
        post(KICK, status=503, Idempotency_Key="k")
        assert "may have been made" in post(KICK, status=503).json["Message"]
    post(KICK, Idempotency_Key="k")


@on_mongodb
@pytest.mark.usefixtures("impatient")
def test_the_same_request_many_times_at_once_asks_once(app, db, staff, player):
    look(db)

    def ask(_):
        caller = Caller(app.test_client(), staff.headers, "/api/v1/")
        return caller(f"POST {KICK}", None, 202, Idempotency_Key="k").json["ActionId"]

    with ThreadPoolExecutor(8) as pool:
        (action_id,) = set(pool.map(ask, range(16)))
    assert [action["_id"] for action in db.actions.find()] == [action_id]


@pytest.mark.usefixtures("impatient")
def test_a_key_of_what_is_said_to_all_is_another_one_than_ones_own(db, post):
    look(db)
    post("chat/global", {"Message": "One."}, 202, Idempotency_Key="k")
    post("users/Clerk/admin/kick", None, 202, Idempotency_Key="k")


def test_an_action_that_a_game_has_spoilt_is_no_bug(db, get):
    fields = ("By", "Subject", "Arguments", "Kind", "Result", "Reason", "At")
    for field, value in product(fields, (None, 5, "x", 1.5, [], [{}])):
        db.actions.delete_many({})
        spoilt = {**make_action(), field: value}
        db.actions.insert_one(spoilt, bypass_document_validation=True)
        assert len(get("actions")["Values"]) == 1, (field, value)
        get(f"actions/{spoilt['_id']}")


def test_what_a_game_spoils_while_it_is_waited_for_does_not_matter(db, post):
    spoilt = {"Subject": None, "Arguments": 5, "Kind": None, "By": "x"}
    with playing(db) as game:
        game.spoil = spoilt
        answer = post("players/Aladric/admin/warpto", {"mapid": MAP})
    assert answer.json["Message"].startswith("Warped 'Aladric' to ")


def test_a_secret_is_not_said(db, post):
    secret = "qm_" + "a" * 40
    with playing(db) as game:
        answer = post("chat/global", {"Message": f"Look: {secret}", "Target": secret})
    assert secret not in str(game.taken)
    assert secret not in answer.text


def test_actions_are_listed_the_newest_first_page_by_page(db, get, player, user):
    now = datetime.now(timezone.utc)
    subjects = [{"Kind": "player", "Id": player["_id"], "Name": "Aladric"}] * 3
    subjects += [{"Kind": "user", "Id": user["_id"], "Name": "Alice"}] * 2
    kinds = ["kick", "chat", "kick", "kick", "warp"]
    for number, (subject, kind) in enumerate(zip(subjects, kinds, strict=True)):
        at = now - timedelta(seconds=number // 2)
        db.actions.insert_one(make_action(Subject=subject, Kind=kind, At=at))
    walked, after = [], ""
    while after is not None:
        page = get(f"actions?pageSize=2&after={after}")
        assert ActionPageSchema().validate(page) == {}
        walked += page["Values"]
        after = page["Next"]
    assert len({action["Id"] for action in walked}) == 5
    times = [moment(action["At"]) for action in walked]
    assert times == sorted(times, reverse=True)
    found = {"player=Aladric": 3, "user=Alice": 2, "kind=kick": 3, "user=Alice&player=Aladric": 0}
    assert {query: len(get(f"actions?{query}")["Values"]) for query in found} == found
    get("actions?player=Nobody", 404)
    other = get("actions?pageSize=2")["Next"]
    get(f"actions?kind=kick&after={other}", 400)


def test_what_was_asked_of_users_is_for_those_who_may_read_users(
    client, world, db, get, player, user
):
    asked = make_action(Subject={"Kind": "user", "Id": user["_id"], "Name": "Alice"})
    db.actions.insert_one(asked)
    for headers in (world.headers(Role.API), world.key_headers("game.act")):
        assert client.get("/api/v1/actions", headers=headers).json["Values"] == []
        for path in (f"actions/{asked['_id']}", "actions?user=Alice"):
            assert client.get(f"/api/v1/{path}", headers=headers).status_code == 403
    assert [action["Id"] for action in get("actions")["Values"]] == [asked["_id"]]


REPEATED = [
    ("players/{}/letters", {"Message": "Sorry."}, 200),
    ("players/{}/admin/kick", None, 202),
    ("players/{}/admin/kill", None, 202),
    ("players/{}/admin/warpto", {"mapid": MAP}, 202),
    ("chat/direct/{}", {"Message": "Hello."}, 202),
    ("users/{}/admin/kick", None, 202),
]


@pytest.mark.parametrize(("path", "body", "status"), REPEATED)
def test_a_repeated_request_is_answered_whoever_has_the_name_now(
    db, post, impatient, world, player, user, path, body, status
):
    kind, about, add = ("players", player, world.add_player)
    if path.startswith("users"):
        kind, about, add = ("users", user, partial(world.add_user, Email="other@example.com"))
    by_name, by_id = (path.format(about[field]) for field in ("Name", "_id"))
    look(db)

    def send(path):
        return post(path, body, status, Idempotency_Key="same")

    first = send(by_name)
    again = [send(by_name), send(by_id)]
    renamed = {"$set": {"Name": "Renamed", "NameKey": "renamed"}}
    db[kind].update_one({"_id": about["_id"]}, renamed)
    again += [send(by_name), send(path.format("Renamed"))]
    other = add(Name=about["Name"].upper())
    again += [send(by_name), send(by_id)]
    db[kind].delete_one({"_id": about["_id"]})
    again += [send(by_name), send(by_id)]
    db[kind].delete_one({"_id": other["_id"]})
    again += [send(by_name)]
    for one in again:
        assert (one.json, one.headers["Idempotency-Replayed"]) == (first.json, "true")
    assert db.actions.count_documents({}) == 1
    # Another key is another request: also one that begins like it.
    for key in (None, "other", f"same {kind.removesuffix('s')} x"):
        post(by_name, body, 404, **({"Idempotency_Key": key} if key else {}))
