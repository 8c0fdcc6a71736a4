"""Banning and muting: whom it hits, what it ends, and when it is over."""

from datetime import timedelta

import pytest

from app.core.permissions import Role
from app.storage.client import Storage
from tests.applications import service
from tests.callers import Caller
from tests.changes import entries_of
from tests.factories import sha256

USERS, PLAYERS = "users", "players"
TOKEN = "/api/oauth/token"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def hero(world, alice):
    return world.add_player(Name="Hero", UserId=alice["_id"])


@pytest.fixture
def query(caller):
    """Somebody who may query users, and no more."""
    return caller("/api/v1/", Role.API, Role.USERS_QUERY)


@pytest.fixture
def send(query):
    return lambda path, body=None, status=200, **headers: (
        query(f"POST {path}", body, status, **headers).json
    )


@pytest.fixture
def get(query):
    return lambda path: query(f"GET {path}").json


@pytest.fixture
def pass_time(app, monkeypatch):
    """Let the clock of the database go on."""
    clock = service(app, Storage).clock
    passed = [timedelta()]
    real = type(clock).now
    monkeypatch.setattr(type(clock), "now", lambda self: real(self) + passed[0])

    def later(span):
        passed[0] += span

    return later


def sign_in(client, name="Alice"):
    body = {"grant_type": "password", "username": name, "password": sha256("secret")}
    return client.post(TOKEN, json=body)


@pytest.mark.parametrize("path", [f"{USERS}/alice", f"{PLAYERS}/HERO"])
def test_each_penalty_is_imposed_and_lifted_by_user_or_player(send, get, hero, path):
    name = "Alice" if USERS in path else "Hero"
    for action, flag in (("ban", "IsBanned"), ("mute", "IsMuted")):
        done = {"ban": "banned", "mute": "muted"}[action]
        body = {"duration": 7, "reason": "Cheating", "moderator": "Gandalf", "ip": True}
        said = send(f"{path}/admin/{action}", body)
        assert said == {"Message": f"{name} has been {done}!"}
        assert get(f"{USERS}/Alice/moderation")[flag] is True
        said = send(f"{path}/admin/un{action}")
        assert said == {"Message": f"{name} has been un{done}!"}
        assert get(f"{USERS}/Alice/moderation")[flag] is False


def test_it_tells_until_when_by_whom_and_why_and_then_is_over(send, get, hero, pass_time, db):
    send(f"{USERS}/Alice/admin/ban", {"duration": 2, "reason": "Cheating", "moderator": "Gandalf"})
    send(f"{USERS}/Alice/admin/mute", {"duration": 1})
    told = get(f"{USERS}/Alice/moderation")
    assert (told["BanReason"], told["BannedBy"], told["MuteReason"]) == (
        *("Cheating", "Gandalf", None),
    )
    assert told["MutedBy"].startswith("user")
    assert told["BannedUntil"] > told["MutedUntil"]
    assert get(f"{USERS}/Alice")["IsMuted"] is True
    pass_time(DAY + HOUR)
    assert get(f"{USERS}/Alice")["IsMuted"] is False
    assert get(f"{USERS}/Alice/moderation")["IsBanned"] is True
    pass_time(DAY)
    assert set(get(f"{USERS}/Alice/moderation").values()) == {False, None}


def test_a_banned_account_gets_no_token_until_it_is_over(client, send, alice, pass_time):
    refresh = sign_in(client).json["refresh_token"]
    send(f"{USERS}/Alice/admin/ban", {"duration": 1})
    refused = sign_in(client)
    assert refused.status_code == 403
    assert refused.json["error"] == "access_denied"
    assert refused.json["Message"].startswith("This account is banned until 20")
    renewed = client.post(TOKEN, json={"grant_type": "refresh_token", "refresh_token": refresh})
    assert renewed.json["error"] == "invalid_grant"
    wrong = {"grant_type": "password", "username": "Alice", "password": sha256("wrong")}
    assert client.post(TOKEN, json=wrong).json["error"] == "invalid_grant"
    pass_time(DAY + HOUR)
    assert sign_in(client).status_code == 200
    # What was void stays void.
    renewed = client.post(TOKEN, json={"grant_type": "refresh_token", "refresh_token": refresh})
    assert renewed.status_code == 400


def test_a_token_of_a_banned_account_ends(client, send, alice, world, app):
    headers = world.headers(user=alice)
    assert client.get("/api/v1/players", headers=headers).status_code == 200
    send(f"{USERS}/Alice/admin/ban", {"duration": 1})
    denied = client.get("/api/v1/players", headers=headers)
    assert denied.status_code == 401
    assert denied.json["Message"] == "Authorization has been denied for this request."
    send(f"{USERS}/Alice/admin/unban")
    assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_a_ban_that_the_game_has_written_counts_too(client, alice, world, app):
    headers = world.headers(user=alice)
    for until in (None, "soon"):
        written = {"$set": {"IsBanned": True, "BannedUntil": until}}
        world.db.users.update_one({"_id": alice["_id"]}, written, bypass_document_validation=True)
        assert client.get("/api/v1/players", headers=headers).status_code == 401
        assert sign_in(client).json["Message"] == "This account is banned."


def test_a_mute_leaves_the_tokens(client, send, alice, world):
    headers = world.headers(user=alice)
    send(f"{USERS}/Alice/admin/mute", {"duration": 1})
    assert client.get("/api/v1/players", headers=headers).status_code == 200


@pytest.mark.parametrize("action", ["ban", "mute"])
def test_staff_are_only_hit_by_their_peers(client, world, send, db, action):
    boss = world.add_user(roles=tuple(Role), Name="Boss")
    world.add_player(Name="King", UserId=boss["_id"])
    before = db.users.find_one({"_id": boss["_id"]})
    for path in (f"{USERS}/Boss", f"{PLAYERS}/King"):
        refused = send(f"{path}/admin/{action}", {"duration": 1}, 403)
        assert refused["Message"] == "This request needs the role 'users.manage'."
    assert db.users.find_one({"_id": boss["_id"]}) == before
    peer = world.headers(user=world.add_user("secret", roles=tuple(Role)))
    answer = client.post(f"/api/v1/{USERS}/Boss/admin/{action}", json={"duration": 1}, headers=peer)
    assert answer.status_code == 200


def test_it_is_in_history_with_its_reason(send, get, hero):
    send(f"{USERS}/Alice/admin/ban", {"duration": 7, "reason": "Cheating", "moderator": "Gandalf"})
    send(f"{USERS}/Alice/admin/unban", X_Reason="It%20was%20somebody%20else")
    send(f"{USERS}/Alice/admin/unban")
    lifted, imposed = get(f"{USERS}/Alice/history")["Values"]
    assert (imposed["Operation"], imposed["Reason"]) == ("ban", "Cheating")
    assert imposed["Arguments"] == {"Duration": 7, "Moderator": "Gandalf", "Ip": False}
    changed = {change["Path"]: change["After"] for change in imposed["Changes"]}
    assert (changed["IsBanned"], changed["BanReason"], changed["BannedBy"]) == (
        *(True, "Cheating", "Gandalf"),
    )
    assert "PasswordVersion" not in changed
    assert (lifted["Operation"], lifted["Reason"]) == ("unban", "It was somebody else")
    refused = send(f"history/{imposed['Id']}/undo", {}, 409)
    assert refused["Message"].endswith("unban the user instead.")


def test_a_token_in_a_reason_is_masked(send, alice, world, db):
    token = world.headers(user=alice)["Authorization"].removeprefix("Bearer ")
    send(f"{USERS}/Alice/admin/mute", {"duration": 1, "reason": f"used {token}"})
    stored = db.users.find_one({"_id": alice["_id"]})
    assert stored["MuteReason"] == "used ***"
    assert token not in str(entries_of(db, alice))


def test_a_player_of_nobody_is_told_so(send, get, world):
    world.add_player(Name="Lost")
    for odd in (None, 5):
        world.db.players.update_one(
            {"Name": "Lost"}, {"$set": {"UserId": odd}}, bypass_document_validation=True
        )
        missing = send(f"{PLAYERS}/Lost/admin/unban", None, 404)
        assert missing["Message"] == "The player 'Lost' belongs to no account."
        log = get("logs/player/Lost/activity")
        assert (log["Total"], log["Values"]) == (0, [])


def test_a_key_bans_nobody_who_may_do_more_than_the_key(client, world, alice):
    world.add_user("secret", Name="Player")
    key = Caller(client, world.key_headers("users.change"), "/api/v1/")
    for action in ("ban", "mute"):
        key(f"POST users/Player/admin/{action}", {"duration": 1})
        refused = key(f"POST users/Alice/admin/{action}", {"duration": 1}, 403)
        assert refused.json["Code"] == "NOT_PEER"
    Caller(client, world.key_headers(), "/api/v1/")("POST users/Alice/admin/ban", {"duration": 1})
