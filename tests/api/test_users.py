"""Endpoints 20 to 25 and 27 to 31 (contract-users)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from app.users.passwords import Passwords
from app.users.schemas import ChangedUserSchema, UserSchema
from tests.applications import service
from tests.factories import NOW, numbered_guid, sha256

OLD, NEW = sha256("old password"), sha256("new password")


@pytest.fixture
def site(caller):
    """Somebody who may query users, and no more."""
    return caller("/api/v1/", Role.API, Role.USERS_QUERY)


@pytest.fixture
def alice(world):
    return world.add_user("old password", Name="Alice", Email="alice@example.com")


def names(answer):
    body = answer.json
    return [user["Name"] for user in body.get("Values", body.get("entries"))]


@pytest.fixture
def crowd(world):
    """Three accounts beside those of the callers, whose names begin with user."""
    for name, email in (("anna", "z@x.co"), ("Bert", "y@x.co"), ("Carl", "x@x.co")):
        world.add_user(Name=name, Email=email)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pageSize=3", ["anna", "Bert", "Carl"]),
        ("pageSize=2&page=1&limit=1", ["Carl"]),
        ("search=ERT", ["Bert"]),
        ("search=nobody", []),
        ("sortBy=email&sortDirection=Descending&pageSize=3", ["anna", "Bert", "Carl"]),
        ("sortBy=Email&search=arl", ["Carl"]),
    ],
)
def test_users_are_listed_sorted_and_searched(site, crowd, query, expected):
    answer = site(f"GET users?{query}")
    assert list(answer.json) == ["Total", "Page", "PageSize", "Count", "Values"]
    assert names(answer) == expected


def test_the_former_list_says_that_it_is(site, crowd):
    answer = site("POST users", {"count": 3})
    assert list(answer.json) == ["total", "Page", "count", "entries"]
    assert names(answer) == ["anna", "Bert", "Carl"]
    assert answer.headers["Link"] == '</api/v1/users>; rel="successor-version"'
    assert answer.headers["Deprecation"].startswith("@")
    site("POST users", {"count": "3"}, 400)


def test_a_user_is_found_by_name_or_id(site, alice):
    for key in ("Alice", "ALICE", alice["_id"]):
        record = site(f"GET users/{key}").json
        assert record["Id"] == alice["_id"]
    assert list(record) == [
        *("Id", "Name", "Email", "Power", "PasswordResetCode", "IsMuted", "MuteReason")
    ]
    assert (record["Name"], record["Email"]) == ("Alice", "alice@example.com")
    assert UserSchema().validate(record) == {}


FIRST, SECOND = map(numbered_guid, (1, 2))
LISTED = [{"VariableId": FIRST, "Value": 7}, {"VariableId": SECOND, "Value": True}]


@pytest.mark.parametrize(
    ("stored", "listed"),
    [
        ({}, []),
        ({"Variables": None}, []),
        ({"Variables": {"b": "x", "a": None}}, []),
        ({"Variables": {SECOND: True, FIRST: 7}}, LISTED),
    ],
)
def test_a_user_has_the_variables_that_the_game_stores(site, world, stored, listed):
    world.add_user(Name="Alice", **stored)
    assert site("GET users/alice/variables").json == listed


def test_a_user_registers_without_any_power(site):
    body = {"username": "Zoë9", "password": OLD, "email": "Zoe@Example.com"}
    answer = site("POST users/register", body)
    assert answer.json == {"Username": "Zoë9", "Email": "Zoe@Example.com"}
    assert not any(site("GET users/zoë9").json["Power"].values())
    site("POST users/zoë9/password/validate", {"password": OLD})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"username": "ALICE"}, "Account already exists with username 'ALICE'."),
        ({"email": "ALICE@example.com"}, "Account already with email 'ALICE@example.com'."),
    ],
)
def test_a_name_or_address_that_is_taken_is_a_409(site, alice, db, body, message):
    good = {"username": "newcomer", "password": OLD, "email": "new@example.com"}
    refused = site("POST users/register", {**good, **body}, 409)
    assert refused.json["Message"] == message
    assert db.users.count_documents({"NameKey": {"$in": ["alice", "newcomer"]}}) == 1


def test_a_password_is_validated_in_either_case(site, alice, world):
    for password in (OLD, OLD.upper()):
        answer = site("POST users/Alice/password/validate", {"password": password})
        assert answer.json == {"Message": "Password Correct"}
    wrong = site("POST users/Alice/password/validate", {"password": NEW}, 400)
    assert "Correct" not in wrong.json["Message"]
    world.add_user(None, Name="Ghost")
    site("POST users/Ghost/password/validate", {"password": OLD}, 400)


@pytest.mark.parametrize("more", [{"authorization": OLD}, {}])
def test_an_email_is_changed_with_the_password_or_by_a_manager(staff, alice, world, more):
    world.add_user(Name="Bob", Email="bob@example.com")
    change = f"POST users/Alice/{'' if more else 'manage/'}email/change"
    for email in ("New@example.com", "NEW@example.com"):
        changed = staff(change, {"new": email, **more}).json
        assert changed["Email"] == staff("GET users/Alice").json["Email"] == email
        assert ChangedUserSchema().validate(changed) == {}
    taken = staff(change, {"new": "BOB@example.com", **more}, 409)
    assert taken.json["Message"] == "Account already with email 'BOB@example.com'."
    assert list(staff(change, {"new": "nowhere", **more}, 400).json["Errors"]) == ["new"]


@pytest.mark.parametrize(
    ("path", "more", "said"),
    [
        ("password/change", {"authorization": OLD}, "Password Updated"),
        ("manage/password/change", {}, "Password Correct"),
    ],
)
def test_a_password_is_changed_with_the_current_one_or_by_a_manager(staff, alice, path, more, said):
    answer = staff(f"POST users/Alice/{path}", {"new": NEW, **more})
    assert answer.json == {"Message": said}
    staff("POST users/Alice/password/validate", {"password": NEW})
    staff("POST users/Alice/password/validate", {"password": OLD}, 400)


CHANGES = [("email/change", "new@example.com"), ("password/change", NEW)]


@pytest.mark.parametrize(("path", "new"), CHANGES)
def test_a_wrong_current_password_is_a_403_and_changes_nothing(site, world, alice, db, path, new):
    world.add_user(None, Name="Ghost")
    for name in ("Alice", "Ghost"):
        refused = site(f"POST users/{name}/{path}", {"new": new, "authorization": NEW}, 403)
        assert refused.json["Message"] == "Invalid credentials."
    assert db.users.find_one({"_id": alice["_id"]}) == alice


@pytest.mark.parametrize(("path", "new"), CHANGES)
def test_a_password_that_changes_between_check_and_write_is_noticed(
    site, alice, db, app, monkeypatch, path, new
):
    passwords = service(app, Passwords)
    real = passwords.matches

    def overtaken(*args):
        change = {"$set": {"PasswordHash": "another"}, "$inc": {"Version": 1}}
        db.users.update_one({"_id": alice["_id"]}, change)
        return real(*args)

    monkeypatch.setattr(passwords, "matches", overtaken)
    site(f"POST users/Alice/{path}", {"new": new, "authorization": OLD}, 403)
    after = db.users.find_one({"_id": alice["_id"]})
    assert (after["PasswordHash"], after["Email"]) == ("another", alice["Email"])


@pytest.fixture
def characters(world, alice):
    """Three characters of Alice in the order of their making, one of them named by a number."""
    for name, minutes in (("Third", 3), ("first", 1), ("2", 2)):
        made = {"CreationDate": NOW + timedelta(minutes=minutes)}
        world.add_player(Name=name, UserId=alice["_id"], **made)


def test_a_character_is_found_by_name_then_by_index_or_by_id(site, characters):
    listed = site("GET users/alice/players").json
    assert [player["Name"] for player in listed] == ["first", "2", "Third"]
    assert "Inventory" not in listed[0]
    for key, name in (
        *(("FIRST", "first"), ("third", "Third"), ("0", "first"), ("1", "2"), ("2", "2")),
        (listed[0]["Id"].upper(), "first"),
    ):
        assert site(f"GET users/Alice/players/{key}").json["Name"] == name


def test_a_character_is_found_only_among_its_users(site, characters, world):
    stranger = world.add_player(Name="Stranger")["_id"]
    for key in (stranger, "Stranger", "3", "-1", "٢", "9" * 30, "1.0"):
        missing = site(f"GET users/Alice/players/{key}", status=404)
        by = "id" if key == stranger else "name"
        assert missing.json["Message"] == f"No player with {by} '{key}'."


@pytest.mark.parametrize("name", ["register", "players", "password", "manage", "0"])
def test_a_user_whose_name_is_a_word_of_a_path_is_reached_by_it(site, world, name):
    user = world.add_user("old password", Name=name, Email="odd@example.com")
    assert site(f"GET users/{name}").json["Id"] == user["_id"]
    assert site(f"GET users/{name}/players").json == []
    site(f"POST users/{name}/password/validate", {"password": OLD})


def test_a_user_is_renamed_and_signs_in_with_the_new_name(staff, sign_in, alice, world):
    world.add_user(Name="Erik")
    for name, status, code in (("ERIK", 409, "NAME_TAKEN"), ("a/b", 400, "INVALID")):
        refused = staff("POST users/Alice/name", {"Name": name}, status)
        assert refused.json["Code"] == code
    answer = staff("POST users/Alice/name", {"Name": "Alicia"})
    assert answer.json == {"Id": alice["_id"], "Name": "Alicia"}
    world.db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Api": True}})
    assert sign_in("alicia", "old password").status_code == 200
    staff("GET users/Alice", status=404)


def test_a_deleted_user_is_erased(staff, alice, db, world):
    player = world.add_player(UserId=alice["_id"], Online=True, LastSeen=datetime.now(timezone.utc))
    refused = staff("DELETE users/Alice", status=409)
    assert refused.json["Code"] == "PLAYER_ONLINE"
    db.players.update_one({"_id": player["_id"]}, {"$set": {"Online": False}})
    staff("DELETE users/Alice")
    # The name is stored nowhere any more, and the id for ever.
    staff("DELETE users/Alice", status=404)
    staff(f"DELETE users/{alice['_id']}")
    assert db.users.count_documents({"_id": alice["_id"]}) == 0
    assert db.players.count_documents({}) == 0
