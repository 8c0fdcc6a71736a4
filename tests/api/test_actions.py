"""Kick, kill, warp and chat: what the game is asked, and what its answer becomes."""

import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from app.auth.roles import Role
from app.auth.scopes import Scope
from app.game.actions.schemas import ActionPageSchema, ActionSchema
from app.game.actions.store import WAIT_SECONDS, Actions
from app.http.context import SERVICES
from app.storage.client import Storage
from tests.applications import service
from tests.factories import numbered_guid
from tests.game import look, make_action, playing

MAP = numbered_guid(1)
NO_GAME = "No game is running: none has looked for actions for 10 seconds."


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric")


@pytest.fixture
def user(world):
    return world.add_user(Name="Alice")


@pytest.fixture
def headers(world):
    staff = world.add_user(Name="Staff", roles=(Role.API, Role.USERS_QUERY))
    return world.headers(user=staff)


@pytest.fixture
def post(client, headers, player, user):
    def post(path, body=None, **more):
        return client.post(f"/api/v1/{path}", json=body, headers={**headers, **more})

    return post


@pytest.fixture
def get(client, headers):
    return lambda path, **query: client.get(f"/api/v1/{path}", headers=headers, query_string=query)


@pytest.fixture
def impatient(app):
    """Wait for no answer, for what is not about the waiting."""
    service(app, Actions).wait_seconds = 0.0


@pytest.mark.parametrize(("whose", "name"), [("players", "Aladric"), ("users", "Alice")])
@pytest.mark.parametrize(
    ("action", "body", "sentence", "arguments"),
    [
        ("kick", None, "{} has been kicked by the server!", {}),
        ("kill", None, "{} has been killed!", {}),
        (
            "warpto",
            {"mapid": MAP},
            f"Warped '{{}}' to {MAP} (7, 8).",
            {"MapId": MAP, "X": None, "Y": None},
        ),
        (
            "warptoloc",
            {"mapid": MAP, "x": 3, "y": -4},
            f"Warped '{{}}' to {MAP} (3, -4).",
            {"MapId": MAP, "X": 3, "Y": -4},
        ),
    ],
    ids=["kick", "kill", "warpto", "warptoloc"],
)
def test_what_a_game_has_done_is_told_in_the_words_that_clients_match(
    db, post, player, user, whose, name, action, body, sentence, arguments
):
    where = {"Result": {"MapId": MAP, "X": 7, "Y": 8}} if action == "warpto" else {}
    with playing(db, lambda _: where) as game:
        answer = post(f"{whose}/{name}/admin/{action}", body)
    assert (answer.status_code, answer.json) == (200, {"Message": sentence.format(name)})
    (asked,) = game.taken
    assert asked["Kind"] == action.removesuffix("loc").removesuffix("to")
    subject = player if whose == "players" else user
    assert asked["Subject"] == {"Kind": whose[:-1], "Id": subject["_id"], "Name": name}
    assert asked["Arguments"] == arguments
    assert asked["By"]["Name"] == "Staff"
    assert asked["TakeBefore"] - asked["At"] == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("path", "where", "subject"),
    [
        ("chat/global", {}, ("world", None)),
        (f"chat/proximity/{MAP}", {"mapId": MAP}, ("map", None)),
        ("chat/direct/aladric", {"lookupKey": "aladric"}, ("player", "Aladric")),
    ],
    ids=["global", "proximity", "direct"],
)
@pytest.mark.parametrize(
    "body",
    [
        {"Message": "Hello."},
        {"Message": "Hello.", "Color": {"A": 255, "R": 1, "G": 2, "B": 3}, "Target": "Amelia"},
        {"Message": "Hello.", "Color": None, "Target": None},
    ],
    ids=["message", "all", "nulls"],
)
def test_what_was_said_is_told_as_it_was_sent(db, post, path, where, subject, body):
    with playing(db) as game:
        answer = post(path, body)
    assert answer.status_code == 200
    assert answer.json == {"success": True, "chatMessage": body, **where}
    (asked,) = game.taken
    assert (asked["Subject"]["Kind"], asked["Subject"]["Name"]) == subject
    assert asked["Arguments"] == {"Color": None, "Target": None, **body}


def test_a_colour_is_completed(db, post):
    with playing(db) as game:
        answer = post("chat/global", {"Message": "Hello.", "Color": {"R": 7}, "Target": ""})
    said = {"Message": "Hello.", "Color": {"R": 7}, "Target": ""}
    assert answer.json["chatMessage"] == said
    assert game.taken[0]["Arguments"]["Color"] == {"A": 255, "R": 7, "G": 255, "B": 255}


def test_without_a_game_it_is_refused_at_once_and_nothing_is_stored(db, post):
    began = time.monotonic()
    answer = post("players/Aladric/admin/kick")
    assert answer.status_code == 503
    assert answer.json == {"Message": NO_GAME}
    assert answer.headers["Retry-After"] == "10"
    assert time.monotonic() - began < 2
    assert db.actions.count_documents({}) == 0


@pytest.mark.parametrize(("ago", "status"), [(8, 202), (13, 503), (-8, 202), (-3600, 503)])
def test_a_game_counts_for_ten_seconds_and_a_wrong_clock_does_not(db, post, impatient, ago, status):
    look(db, ago=ago)
    assert post("players/Aladric/admin/kick").status_code == status


def test_the_game_gives_its_own_reason(db, post):
    with playing(db, lambda _: {"Error": "Aladric is not playing.", "Done": None}):
        answer = post("players/Aladric/admin/kick")
    assert (answer.status_code, answer.json) == (409, {"Message": "Aladric is not playing."})


def test_an_answer_that_comes_late_is_to_be_had_later(db, post, get, impatient):
    look(db)
    answer = post("players/Aladric/admin/kick", **{"X-Reason": "Stuck"})
    assert answer.status_code == 202
    assert answer.json["Message"] == "The game has not answered yet."
    path = f"actions/{answer.json['ActionId']}"
    action = get(path).json
    assert ActionSchema().validate(action) == {}
    assert (action["State"], action["Reason"]) == ("waiting", "Stuck")
    now = datetime.now(timezone.utc)
    written = {"Taken": now, "TakenBy": "world-1", "Done": now}
    db.actions.update_one({"_id": action["Id"]}, {"$set": written})
    assert get(path).json["State"] == "done"


def test_it_waits_no_longer_than_two_seconds(app, db, post):
    service(app, Actions).wait_seconds = WAIT_SECONDS
    look(db)
    began = time.monotonic()
    assert post("players/Aladric/admin/kick").status_code == 202
    assert time.monotonic() - began > 1.5


def test_few_wait_at_once_and_the_others_are_told_at_once(app, db, world, headers, player):
    app.extensions[SERVICES][Actions] = Actions(service(app, Storage), 1, wait_seconds=30.0)
    look(db)
    answers = []

    def kick():
        path = "/api/v1/players/Aladric/admin/kick"
        answers.append(app.test_client().post(path, headers=headers).status_code)

    first = threading.Thread(target=kick)
    first.start()
    while not db.actions.find_one():
        time.sleep(0.01)
    kick()
    assert answers == [202]
    now = datetime.now(timezone.utc)
    db.actions.update_many({}, {"$set": {"Taken": now, "Done": now}})
    first.join()
    assert answers == [202, 200]


def test_the_same_request_again_asks_once(db, post, impatient):
    look(db)
    first = post("players/Aladric/admin/kick", **{"Idempotency-Key": "k"})
    again = post("players/Aladric/admin/kick", **{"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    now = datetime.now(timezone.utc)
    db.actions.update_one({}, {"$set": {"Taken": now, "Done": now}})
    # Also when no game runs any more.
    db.games.delete_many({})
    done = post("players/Aladric/admin/kick", **{"Idempotency-Key": "k"})
    assert done.status_code == 200
    assert done.json["Message"] == "Aladric has been kicked by the server!"
    assert db.actions.count_documents({}) == 1


def test_a_key_of_what_is_said_to_all_is_another_one_than_ones_own(db, world, client, impatient):
    look(db)
    staff = world.add_user(Name="Own", roles=tuple(Role))
    headers = {**world.headers(user=staff), "Idempotency-Key": "k"}
    said = client.post("/api/v1/chat/global", json={"Message": "One."}, headers=headers)
    kicked = client.post("/api/v1/users/Own/admin/kick", headers=headers)
    assert (said.status_code, kicked.status_code) == (202, 202)


@pytest.mark.parametrize("value", [None, 5, "x", 1.5, [], [{}]], ids=str)
@pytest.mark.parametrize("field", ["By", "Subject", "Arguments", "Kind", "Result", "Reason", "At"])
def test_an_action_that_a_game_has_spoilt_is_no_bug(db, get, field, value):
    spoilt = {**make_action(), field: value}
    db.actions.insert_one(spoilt, bypass_document_validation=True)
    listed = get("actions")
    assert (listed.status_code, len(listed.json["Values"])) == (200, 1)
    assert get(f"actions/{spoilt['_id']}").status_code == 200


def test_what_a_game_spoils_while_it_is_waited_for_does_not_matter(db, post):
    spoilt = {"Subject": None, "Arguments": 5, "Kind": None, "By": "x"}
    with playing(db) as game:
        game.spoil = spoilt
        answer = post("players/Aladric/admin/warpto", {"mapid": MAP})
    assert (answer.status_code, answer.json["Message"]) == (200, f"Warped 'Aladric' to {MAP}.")


def test_what_nobody_took_in_time_was_not_done(db, post, impatient):
    look(db)
    post("players/Aladric/admin/kick", **{"Idempotency-Key": "k"})
    db.actions.update_one({}, {"$set": {"TakeBefore": datetime.now(timezone.utc)}})
    answer = post("players/Aladric/admin/kick", **{"Idempotency-Key": "k"})
    assert answer.status_code == 409
    assert "nothing was done" in answer.json["Message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/global", {"Message": "a", "Color": {"R": 256}}),
        ("chat/global", {"Message": "a", "Color": "red"}),
    ],
)
def test_a_colour_that_is_none_is_refused(db, post, path, body):
    look(db)
    assert post(path, body).status_code == 400
    assert db.actions.count_documents({}) == 0


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
        page = get("actions", pageSize=2, after=after).json
        assert ActionPageSchema().validate(page) == {}
        walked += page["Values"]
        after = page["Next"]
    assert len({action["Id"] for action in walked}) == 5
    assert [action["At"] for action in walked] == sorted((a["At"] for a in walked), reverse=True)
    assert len(get("actions", player="Aladric").json["Values"]) == 3
    assert len(get("actions", user="Alice").json["Values"]) == 2
    assert len(get("actions", kind="kick").json["Values"]) == 3
    assert get("actions", user="Alice", player="Aladric").json["Values"] == []
    assert get("actions", player="Nobody").status_code == 404
    other = get("actions", pageSize=2).json["Next"]
    assert get("actions", kind="kick", after=other).status_code == 400


def test_what_was_asked_of_users_is_for_those_who_may_read_users(
    client, world, db, get, player, user
):
    asked = make_action(Subject={"Kind": "user", "Id": user["_id"], "Name": "Alice"})
    db.actions.insert_one(asked)
    for headers in (world.headers(Role.API), world.key_headers(Scope.GAME_ACT)):
        assert client.get("/api/v1/actions", headers=headers).json["Values"] == []
        for path in (f"actions/{asked['_id']}", "actions?user=Alice"):
            assert client.get(f"/api/v1/{path}", headers=headers).status_code == 403
    assert [action["Id"] for action in get("actions").json["Values"]] == [asked["_id"]]


def test_an_action_is_kept_as_long_as_history(db, post, impatient):
    look(db)
    post("players/Aladric/admin/kick")
    action = db.actions.find_one()
    assert action["ExpiresAt"] - action["At"] == timedelta(days=400)
