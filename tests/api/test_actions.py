"""Kick, kill, warp and chat: what the game is asked, and what its answer becomes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import product

import pytest

from app.game.actions.schemas import ActionPageSchema, ActionSchema
from app.game.actions.store import Actions
from app.players.items.store import Catalogue
from app.players.store import Players
from app.storage.client import Storage
from tests.applications import replace_service, service
from tests.changes import cut_off
from tests.factories import numbered_guid
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


FAR, NEAR = {"mapid": MAP}, {"mapid": MAP, "x": 3, "y": -4}


def do_it(db):
    """Answer as a game that has done what it was asked to."""
    now = datetime.now(timezone.utc)
    db.actions.update_many({}, {"$set": {"Taken": now, "TakenBy": "world-1", "Done": now}})


DONE = [
    ("kick", "kick", None, "{} has been kicked by the server!", {}),
    ("kill", "kill", None, "{} has been killed!", {}),
    (
        "warpto",
        "warp",
        FAR,
        f"Warped '{{}}' to {MAP} (7, 8).",
        {"MapId": MAP, "X": None, "Y": None},
    ),
    (
        "warptoloc",
        "warp",
        NEAR,
        f"Warped '{{}}' to {MAP} (3, -4).",
        {"MapId": MAP, "X": 3, "Y": -4},
    ),
]


def test_what_a_game_has_done_is_told_in_the_words_that_clients_match(db, post, player, user):
    def where(action):
        is_far = action["Arguments"].get("X", 0) is None
        return {"Result": {"MapId": MAP, "X": 7, "Y": 8}} if is_far else {}

    for path, kind, subject in (("players", "player", player), ("users", "user", user)):
        about = {"Kind": kind, "Id": subject["_id"], "Name": subject["Name"]}
        for verb, asked_for, body, sentence, arguments in DONE:
            with playing(db, where) as game:
                answer = post(f"{path}/{subject['Name']}/admin/{verb}", body)
            assert answer.json["Message"] == sentence.format(subject["Name"])
            (asked,) = game.taken
            told = (asked["Kind"], asked["Subject"], asked["Arguments"], asked["By"]["Name"])
            assert told == (asked_for, about, arguments, "Clerk")
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


def test_a_colour_is_completed_or_refused_and_a_secret_is_not_said(db, post):
    secret = "qm_" + "a" * 40
    with playing(db) as game:
        post("chat/global", {"Message": "Hello.", "Color": {"R": 7}, "Target": ""})
        answer = post("chat/global", {"Message": f"Look: {secret}", "Target": secret})
    assert game.taken[0]["Arguments"]["Color"] == {"A": 255, "R": 7, "G": 255, "B": 255}
    assert secret not in str(game.taken)
    assert secret not in answer.text
    for colour in ({"R": 256}, "red"):
        post("chat/global", {"Message": "a", "Color": colour}, 400)
    assert db.actions.count_documents({}) == 2


@pytest.mark.usefixtures("impatient")
def test_a_game_counts_for_ten_seconds_and_a_wrong_clock_does_not(db, post):
    answer = post(KICK, status=503)
    assert (answer.json["Message"], answer.headers["Retry-After"]) == (NO_GAME, "10")
    assert db.actions.count_documents({}) == 0
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
    do_it(db)
    assert get(path)["State"] == "done"


def test_few_wait_at_once_and_the_others_are_told_at_once(app, db, staff, player):
    actions = Actions(*(service(app, kind) for kind in (Storage, Players, Catalogue)), 1)
    actions.wait_seconds = 30.0
    replace_service(app, actions)
    look(db)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(staff, f"POST {KICK}")
        wait_until(db.actions.find_one)
        staff(f"POST {KICK}", status=202)
        do_it(db)
        first.result()


@pytest.mark.usefixtures("impatient")
def test_the_same_request_again_asks_once(db, post):
    look(db)
    first, again = (post(KICK, status=202, Idempotency_Key="k") for _ in range(2))
    assert again.json == first.json
    # The service reads the clock of the database, which may be behind on a busy machine.
    past = datetime.now(timezone.utc) - timedelta(minutes=1)
    db.actions.update_one({}, {"$set": {"TakeBefore": past}})
    lapsed = post(KICK, status=409, Idempotency_Key="k").json
    assert "nothing was done" in lapsed["Message"]
    do_it(db)
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
    do_it(db)
    with monkeypatch.context() as patch:
        cut_off(patch)
        post(KICK, status=503, Idempotency_Key="k")
        assert "may have been made" in post(KICK, status=503).json["Message"]
    post(KICK, Idempotency_Key="k")


@on_mongodb
@pytest.mark.usefixtures("impatient")
def test_the_same_request_many_times_at_once_asks_once(db, staff, player):
    look(db)
    answers = staff.at_once(*[(f"POST {KICK}", None, {"Idempotency_Key": "k"})] * 16)
    (action_id,) = {answer.json["ActionId"] for answer in answers}
    assert [action["_id"] for action in db.actions.find()] == [action_id]


@pytest.mark.usefixtures("impatient")
def test_a_key_of_what_is_said_to_all_is_another_one_than_ones_own(db, post):
    look(db)
    post("chat/global", {"Message": "One."}, 202, Idempotency_Key="k")
    post("users/Clerk/admin/kick", None, 202, Idempotency_Key="k")


def test_an_action_that_a_game_has_spoilt_is_no_bug(db, get, post):
    fields = ("By", "Subject", "Arguments", "Kind", "Result", "Reason", "At")
    for field, value in product(fields, (None, 5, [{}])):
        spoilt = {**make_action(), field: value}
        db.actions.insert_one(spoilt, bypass_document_validation=True)
        get(f"actions/{spoilt['_id']}")
    assert len(get("actions?pageSize=50")["Values"]) == 21
    with playing(db) as game:
        game.spoil = {"Subject": None, "Arguments": 5, "Kind": None, "By": "x"}
        answer = post("players/Aladric/admin/warpto", FAR)
    assert answer.json["Message"].startswith("Warped 'Aladric' to ")


def test_actions_are_listed_with_filters(db, get, player, user):
    subjects = [{"Kind": "player", "Id": player["_id"], "Name": "Aladric"}] * 3
    subjects += [{"Kind": "user", "Id": user["_id"], "Name": "Alice"}] * 2
    kinds = ["kick", "chat", "kick", "kick", "warp"]
    actions = [make_action(Subject=s, Kind=k) for s, k in zip(subjects, kinds, strict=True)]
    for minutes, action in enumerate(actions):
        action["At"] += timedelta(minutes=minutes)
    db.actions.insert_many(actions)
    page = get("actions")
    assert ActionPageSchema().validate(page) == {}
    newest_first = [action["_id"] for action in reversed(actions)]
    assert [action["Id"] for action in page["Values"]] == newest_first
    found = {"player=Aladric": 3, "user=Alice": 2, "kind=kick": 3, "user=Alice&player=Aladric": 0}
    assert {query: len(get(f"actions?{query}")["Values"]) for query in found} == found
    get("actions?player=Nobody", 404)


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
