"""Banning and muting: whom it hits, what it ends, and when it is over."""

import pytest

from app.core.permissions import Role
from tests.changes import entries_of


@pytest.fixture
def query(caller):
    """Somebody who may query users, and no more."""
    return caller("/api/v1/", Role.API, Role.USERS_QUERY)


@pytest.fixture
def own(caller_of, alice):
    """Alice, with a token from before."""
    return caller_of(alice)


@pytest.mark.parametrize(("path", "name"), [("users/alice", "Alice"), ("players/HERO", "Hero")])
def test_each_penalty_is_imposed_and_lifted_by_user_or_player(query, world, alice, path, name):
    world.add_player(Name="Hero", UserId=alice["_id"])
    for action, done, flag in (("ban", "banned", "IsBanned"), ("mute", "muted", "IsMuted")):
        for verb, is_imposed in (("", True), ("un", False)):
            body = {"duration": 7, "reason": "Cheating", "ip": True} if is_imposed else None
            said = query(f"POST {path}/admin/{verb}{action}", body).json
            assert said == {"Message": f"{name} has been {verb}{done}!"}
            assert query("GET users/Alice/moderation").json[flag] is is_imposed


def test_it_tells_until_when_by_whom_and_why_and_then_is_over(query, alice, pass_time):
    ban = {"duration": 2, "reason": "Cheating", "moderator": "Gandalf"}
    query("POST users/Alice/admin/ban", ban)
    query("POST users/Alice/admin/mute", {"duration": 1})
    told = query("GET users/Alice/moderation").json
    assert (told["BanReason"], told["BannedBy"], told["MuteReason"]) == (
        *("Cheating", "Gandalf", None),
    )
    assert told["MutedBy"].startswith("user")
    assert told["BannedUntil"] > told["MutedUntil"]
    assert query("GET users/Alice").json["IsMuted"] is True
    pass_time(hours=25)
    assert query("GET users/Alice").json["IsMuted"] is False
    assert query("GET users/Alice/moderation").json["IsBanned"] is True
    pass_time(days=1)
    assert set(query("GET users/Alice/moderation").json.values()) == {False, None}


def test_a_banned_account_gets_no_token_until_it_is_over(query, own, sign_in, refresh, pass_time):
    token = sign_in().json["refresh_token"]
    query("POST users/Alice/admin/mute", {"duration": 1})
    own("GET players")  # a mute leaves the tokens
    query("POST users/Alice/admin/ban", {"duration": 1})
    own("GET players", status=401)
    refused = sign_in()
    assert (refused.status_code, refused.json["error"]) == (403, "access_denied")
    assert refused.json["Message"].startswith("This account is banned until 20")
    assert sign_in(password="wrong").json["error"] == "invalid_grant"
    assert refresh(token).json["error"] == "invalid_grant"
    pass_time(hours=25)
    assert sign_in().status_code == 200
    # What was void stays void.
    own("GET players", status=401)
    assert refresh(token).status_code == 400


def test_a_ban_that_the_game_has_written_counts_too(own, sign_in, db):
    for until in (None, "soon"):
        written = {"$set": {"IsBanned": True, "BannedUntil": until}}
        db.users.update_one({"Name": "Alice"}, written, bypass_document_validation=True)
        own("GET players", status=401)
        assert sign_in().json["Message"] == "This account is banned."


@pytest.mark.parametrize("action", ["ban", "mute"])
def test_staff_are_only_hit_by_their_peers(query, staff, world, db, action):
    boss = world.add_user(roles=tuple(Role), Name="Boss")
    world.add_player(Name="King", UserId=boss["_id"])
    for path in ("users/Boss", "players/King"):
        refused = query(f"POST {path}/admin/{action}", {"duration": 1}, 403)
        assert refused.json["Message"] == "This request needs the role 'users.manage'."
    assert db.users.find_one({"_id": boss["_id"]}) == boss
    staff(f"POST users/Boss/admin/{action}", {"duration": 1})


def test_it_is_in_history_with_its_reason(query, alice):
    ban = {"duration": 7, "reason": "Cheating", "moderator": "Gandalf"}
    query("POST users/Alice/admin/ban", ban)
    query("POST users/Alice/admin/unban", X_Reason="It%20was%20somebody%20else")
    query("POST users/Alice/admin/unban")
    lifted, imposed = query("GET users/Alice/history").json["Values"]
    assert (imposed["Operation"], imposed["Reason"]) == ("ban", "Cheating")
    assert imposed["Arguments"] == {"Duration": 7, "Moderator": "Gandalf", "Ip": False}
    changed = {change["Path"]: change["After"] for change in imposed["Changes"]}
    assert (changed["IsBanned"], changed["BanReason"]) == (True, "Cheating")
    assert "PasswordVersion" not in changed
    assert (lifted["Operation"], lifted["Reason"]) == ("unban", "It was somebody else")
    refused = query(f"POST history/{imposed['Id']}/undo", status=409)
    assert refused.json["Message"].endswith("unban the user instead.")


def test_a_token_in_a_reason_is_masked(query, own, db):
    token = own.headers["Authorization"].removeprefix("Bearer ")
    query("POST users/Alice/admin/mute", {"duration": 1, "reason": f"used {token}"})
    assert db.users.find_one({"Name": "Alice"})["MuteReason"] == "used ***"
    assert token not in str(entries_of(db, own.user))


def test_a_player_of_nobody_is_told_so(query, world):
    for odd in (None, 5):
        name = f"Lost {odd}"
        world.add_player(Name=name)
        world.db.players.update_one(
            {"Name": name}, {"$set": {"UserId": odd}}, bypass_document_validation=True
        )
        missing = query(f"POST players/{name}/admin/unban", status=404)
        assert missing.json["Message"] == f"The player '{name}' belongs to no account."
        log = query(f"GET logs/player/{name}/activity").json
        assert (log["Total"], log["Values"]) == (0, [])


def test_a_key_bans_nobody_who_may_do_more_than_the_key(with_key, world, alice):
    world.add_user(Name="Player")
    key = with_key("users.change")
    for action in ("ban", "mute"):
        key(f"POST users/Player/admin/{action}", {"duration": 1})
        refused = key(f"POST users/Alice/admin/{action}", {"duration": 1}, 403)
        assert refused.json["Code"] == "NOT_PEER"
    with_key()("POST users/Alice/admin/ban", {"duration": 1})
