"""Endpoints 20 to 25 and 27 to 31 (contract-users)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from app.core.permissions import Role
from app.users.passwords import Passwords
from app.users.schemas import ChangedUserSchema, UserSchema
from tests.applications import service
from tests.factories import NOW, guid, sha256

USERS = "/api/v1/users"
QUERY = (Role.API, Role.USERS_QUERY)
OLD, NEW = sha256("old password"), sha256("new password")


@pytest.fixture
def get(caller):
    return caller(USERS, *QUERY).get


@pytest.fixture
def post(caller):
    return caller(USERS, *QUERY).post


@pytest.mark.parametrize("stored", [{}, {"Variables": None}, {"Variables": {"b": "x", "a": None}}])
def test_a_user_has_no_variables_unless_the_game_stores_some(get, world, stored):
    user = world.add_user(**stored)
    assert get(f"/{user['_id']}/variables").json == []


def test_the_variables_of_a_user_are_those_that_the_game_stores(get, world):
    first, second = sorted((guid(), guid()))
    world.add_user(Name="Alice", Variables={second: True, first: 7})
    values = [{"VariableId": first, "Value": 7}, {"VariableId": second, "Value": True}]
    assert get("/alice/variables").json == values


@pytest.fixture
def manage(caller):
    return caller(USERS, *Role).post


@pytest.fixture
def alice(world):
    return world.add_user("old password", Name="Alice", Email="alice@example.com")


def names(response):
    body = response.json
    return [user["Name"] for user in body.get("Values", body.get("entries"))]


@pytest.fixture
def crowd(world):
    """Three accounts beside those of the callers, whose names begin with user."""
    for name, email in (("anna", "z@x.co"), ("Bert", "y@x.co"), ("Carl", "x@x.co")):
        world.add_user(Name=name, Email=email)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"pageSize": 3}, ["anna", "Bert", "Carl"]),
        ({"pageSize": 2, "page": 1, "limit": 1}, ["Carl"]),
        ({"search": "ERT"}, ["Bert"]),
        ({"search": "nobody"}, []),
        (
            {"sortBy": "email", "sortDirection": "Descending", "pageSize": 3},
            ["anna", "Bert", "Carl"],
        ),
        ({"sortBy": "Email", "search": "arl"}, ["Carl"]),
    ],
)
def test_users_are_listed_sorted_and_searched(get, crowd, query, expected):
    response = get(**query)
    assert response.status_code == 200
    assert list(response.json) == ["Total", "Page", "PageSize", "Count", "Values"]
    assert names(response) == expected


def test_the_former_list_says_that_it_is(post, crowd, client):
    response = post(count=3)
    assert list(response.json) == ["total", "Page", "count", "entries"]
    assert names(response) == ["anna", "Bert", "Carl"]
    assert response.headers["Link"] == '</api/v1/users>; rel="successor-version"'
    assert response.headers["Deprecation"].startswith("@")
    paths = client.get("/api/openapi.json").json["paths"]
    assert paths["/api/v1/users"]["post"]["deprecated"] is True
    assert post(count="3").status_code == 400


@pytest.mark.parametrize("key", ["Alice", "ALICE", "id"])
def test_a_user_is_found_by_name_or_id(get, alice, key):
    record = get(f"/{alice['_id'] if key == 'id' else key}").json
    assert list(record) == [
        *("Id", "Name", "Email", "Power", "PasswordResetCode", "IsMuted", "MuteReason")
    ]
    assert (record["Id"], record["Name"], record["Email"]) == (
        *(alice["_id"], "Alice", "alice@example.com"),
    )
    assert list(record["Power"]) == [
        *("Editor", "Ban", "Kick", "Mute", "Api", "PersonalInformation")
    ]
    assert UserSchema().validate(record) == {}


def test_a_user_registers_without_any_power(post, get):
    body = {"username": "Zoë9", "password": OLD, "email": "Zoe@Example.com"}
    response = post("/register", **body)
    assert response.status_code == 200
    assert response.json == {"Username": "Zoë9", "Email": "Zoe@Example.com"}
    assert not any(get("/zoë9").json["Power"].values())
    assert post("/zoë9/password/validate", password=OLD).status_code == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"username": "ALICE"}, "Account already exists with username 'ALICE'."),
        ({"email": "ALICE@example.com"}, "Account already with email 'ALICE@example.com'."),
        ({"email": "alice@ｅxample.com"}, "Account already with email 'alice@ｅxample.com'."),
    ],
)
def test_a_name_or_address_that_is_taken_is_a_409(post, alice, db, body, message):
    good = {"username": "newcomer", "password": OLD, "email": "new@example.com"}
    response = post("/register", **{**good, **body})
    assert (response.status_code, response.json["Message"]) == (409, message)
    assert db.users.count_documents({"NameKey": {"$in": ["alice", "newcomer"]}}) == 1


def test_a_password_is_validated_in_either_case(post, alice):
    for password in (OLD, OLD.upper()):
        response = post("/Alice/password/validate", password=password)
        assert (response.status_code, response.json) == (200, {"Message": "Password Correct"})
    wrong = post("/Alice/password/validate", password=NEW)
    assert wrong.status_code == 400
    assert "Correct" not in wrong.json["Message"]


def test_an_account_without_a_password_has_no_right_one(post, world):
    world.add_user(None, Name="Ghost")
    assert post("/Ghost/password/validate", password=OLD).status_code == 400
    assert post("/Ghost/password/change", new=NEW, authorization=OLD).status_code == 403


def test_an_email_is_changed_with_the_password(post, alice, get):
    response = post("/Alice/email/change", new="New@example.com", authorization=OLD)
    assert response.status_code == 200
    assert response.json["Email"] == "New@example.com"
    assert list(response.json["Power"]) == [
        *("Editor", "Ban", "Kick", "Mute", "Api", "ApiPersonalInformation", "ApiUserManagement")
    ]
    assert ChangedUserSchema().validate(response.json) == {}
    assert get("/Alice").json["Email"] == "New@example.com"
    assert post("/Alice/email/change", new="NEW@example.com", authorization=OLD).status_code == 200


def test_a_password_is_changed_with_the_current_one(post, alice):
    response = post("/Alice/password/change", new=NEW, authorization=OLD)
    assert (response.status_code, response.json) == (200, {"Message": "Password Updated"})
    assert post("/Alice/password/validate", password=NEW).status_code == 200
    assert post("/Alice/password/validate", password=OLD).status_code == 400


@pytest.mark.parametrize(
    ("path", "new"), [("email/change", "new@example.com"), ("password/change", NEW)]
)
def test_a_wrong_current_password_is_a_403_and_changes_nothing(post, alice, db, path, new):
    before = db.users.find_one({"_id": alice["_id"]})
    response = post(f"/Alice/{path}", new=new, authorization=NEW)
    assert (response.status_code, response.json["Message"]) == (403, "Invalid credentials.")
    assert db.users.find_one({"_id": alice["_id"]}) == before


def test_a_manager_needs_no_password(manage, post, alice):
    response = manage("/Alice/manage/email/change", new="boss@example.com")
    assert response.json["Email"] == "boss@example.com"
    assert "ApiUserManagement" in response.json["Power"]
    response = manage("/Alice/manage/password/change", new=NEW)
    assert (response.status_code, response.json) == (200, {"Message": "Password Correct"})
    assert post("/Alice/password/validate", password=NEW).status_code == 200


@pytest.mark.parametrize("path", ["email/change", "manage/email/change"])
def test_an_address_that_another_has_is_a_409(manage, alice, world, path):
    world.add_user(Name="Bob", Email="bob@example.com")
    body = {"new": "BOB@example.com"}
    if "manage" not in path:
        body["authorization"] = OLD
    response = manage(f"/Alice/{path}", **body)
    assert (response.status_code, response.json["Message"]) == (
        409,
        "Account already with email 'BOB@example.com'.",
    )
    bad = manage(f"/Alice/{path}", **{**body, "new": "nowhere"})
    assert (bad.status_code, list(bad.json["Errors"])) == (400, ["new"])


@pytest.mark.parametrize(
    ("path", "new"), [("email/change", "new@example.com"), ("password/change", NEW)]
)
def test_a_password_that_changes_between_check_and_write_is_noticed(
    post, alice, db, app, monkeypatch, path, new
):
    passwords = service(app, Passwords)
    real = passwords.matches

    def overtaken(*args):
        is_right = real(*args)
        db.users.update_one({"_id": alice["_id"]}, {"$set": {"PasswordHash": "another"}})
        db.users.update_one({"_id": alice["_id"]}, {"$inc": {"Version": 1}})
        return is_right

    monkeypatch.setattr(passwords, "matches", overtaken)
    assert post(f"/Alice/{path}", new=new, authorization=OLD).status_code == 403
    after = db.users.find_one({"_id": alice["_id"]})
    assert (after["PasswordHash"], after["Email"]) == ("another", alice["Email"])


@pytest.fixture
def characters(world, alice):
    """Three characters of Alice in the order of their making, one of them named by a number."""
    for name, minutes in (("Third", 3), ("first", 1), ("2", 2)):
        world.add_player(
            Name=name, UserId=alice["_id"], CreationDate=NOW + timedelta(minutes=minutes)
        )
    return world.add_player(Name="Stranger")


def test_characters_are_listed_in_the_order_of_their_making(get, characters):
    response = get("/alice/players")
    assert [player["Name"] for player in response.json] == ["first", "2", "Third"]
    assert "Inventory" not in response.json[0]


@pytest.mark.parametrize(
    ("key", "name"),
    [("FIRST", "first"), ("third", "Third"), ("0", "first"), ("1", "2"), ("2", "2")],
)
def test_a_character_is_found_by_name_then_by_index(get, characters, key, name):
    assert get(f"/Alice/players/{key}").json["Name"] == name


def test_a_character_is_found_by_id_and_only_among_its_users(get, characters):
    own = get("/Alice/players").json[0]["Id"]
    assert get(f"/Alice/players/{own.upper()}").json["Id"] == own
    for key in (characters["_id"], "Stranger", "3", "-1", "٢", "9" * 30, "1.0"):
        response = get(f"/Alice/players/{key}")
        assert response.status_code == 404, key
        by = "id" if key == characters["_id"] else "name"
        assert response.json["Message"] == f"No player with {by} '{key}'."


@pytest.mark.parametrize("name", ["register", "players", "password", "manage", "0"])
def test_a_user_whose_name_is_a_word_of_a_path_is_reached_by_it(get, post, world, name):
    user = world.add_user("old password", Name=name, Email="odd@example.com")
    assert get(f"/{name}").json["Id"] == user["_id"]
    assert get(f"/{name}/players").json == []
    assert post(f"/{name}/password/validate", password=OLD).status_code == 200


def test_no_answer_holds_a_hash(get, post, manage, alice):
    answers = [
        *(get("/Alice"), get(search="alice"), post("/Alice/password/validate", password=OLD)),
        post("/Alice/email/change", new="n@example.com", authorization=OLD),
        manage("/Alice/manage/email/change", new="m@example.com"),
        post("/Alice/password/change", new=NEW, authorization=NEW),
        post("/Alice/password/validate", password="nonsense"),
    ]
    for answer in answers:
        assert not {"argon2", alice["PasswordHash"], OLD, NEW} & set(answer.text.split('"'))
        assert "argon2" not in answer.text


def test_a_user_is_renamed_and_signs_in_with_the_new_name(client, world, as_role):
    user = world.add_user("secret", roles=(Role.API,), Name="Dora")
    world.add_user(Name="Erik")
    headers = as_role(*Role)
    path = "/api/v1/users/Dora/name"
    for name, status, code in (("ERIK", 409, "NAME_TAKEN"), ("a/b", 400, "INVALID")):
        refused = client.post(path, json={"Name": name}, headers=headers)
        assert (refused.status_code, refused.json["Code"]) == (status, code)
    answer = client.post(path, json={"Name": "Dorothea"}, headers=headers)
    assert (answer.status_code, answer.json) == (200, {"Id": user["_id"], "Name": "Dorothea"})
    entry = client.get(f"/api/v1/history/{answer.headers['X-History-Id']}", headers=headers).json
    assert (entry["Operation"], entry["Arguments"]) == ("rename", {"Name": "Dorothea"})
    undo = client.post(f"/api/v1/history/{entry['Id']}/undo", headers=headers)
    assert (undo.status_code, undo.json["Code"]) == (409, "CANNOT_UNDO")
    body = {"grant_type": "password", "username": "dorothea", "password": sha256("secret")}
    assert client.post("/api/oauth/token", json=body).status_code == 200
    assert client.get("/api/v1/users/Dora", headers=headers).status_code == 404


def test_a_deleted_user_is_erased(client, world, as_role):
    user = world.add_user(Name="Dora")
    player = world.add_player(UserId=user["_id"], Online=True, LastSeen=datetime.now(timezone.utc))
    headers, path = as_role(*Role), "/api/v1/users/Dora"
    refused = client.delete(path, headers=headers)
    assert (refused.status_code, refused.json["Code"]) == (409, "PLAYER_ONLINE")
    world.db.players.update_one({"_id": player["_id"]}, {"$set": {"Online": False}})
    assert client.delete(path, headers=headers).status_code == 200
    # The name is stored nowhere any more, and the id for ever.
    assert client.delete(path, headers=headers).status_code == 404
    assert client.delete(f"/api/v1/users/{user['_id']}", headers=headers).status_code == 200
    assert world.db.users.count_documents({"_id": user["_id"]}) == 0
    assert world.db.players.count_documents({"_id": player["_id"]}) == 0
