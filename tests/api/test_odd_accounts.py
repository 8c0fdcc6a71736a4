"""Accounts that a game has stored in its own way can be read, changed and erased."""

from itertools import product

import pytest

from app.core.permissions import Role
from tests import tiers
from tests.factories import guid, make_user, sha256

ABSENT = object()
PASSWORD = sha256("secret")
ODD = [ABSENT, None, "text", 5, 2**63 - 1, [{}], {"odd": None}]


@pytest.fixture
def staff(world):
    return world.headers(*Role)


def stored(db, field, value):
    user = {**make_user(Name="Odd"), field: value}
    user = {name: held for name, held in user.items() if held is not ABSENT}
    db.users.insert_one(user, bypass_document_validation=True)
    return user["_id"]


def requests(user_id):
    base = f"/api/v1/users/{user_id}"
    yield from (("GET", base + path, None) for path in ("", "/players", "/history", "/moderation"))
    yield from (("GET", f"/api/v1/users?{query}", None) for query in ("pageSize=9", "search=odd"))
    yield "GET", f"{base}/personal-data", None
    yield "POST", f"{base}/admin/ban", {"duration": 1}
    yield "POST", f"{base}/admin/unban", None
    yield "POST", f"{base}/admin/mute", {"duration": 1}
    yield "POST", f"{base}/admin/unmute", None
    yield "POST", f"{base}/notes", {"Text": "Odd."}
    yield "POST", f"{base}/password/validate", {"password": PASSWORD}
    yield "POST", f"{base}/password/reset", {"code": "ABCDEFGH", "new": PASSWORD}
    yield "POST", f"{base}/manage/email/change", {"new": f"{guid()[:8]}@example.com"}
    yield "POST", f"{base}/manage/password/change", {"new": PASSWORD}
    yield "GET", base, None
    yield "DELETE", "/api/oauth/token/Odd", None
    yield "POST", f"{base}/erase", {"Confirm": "Odd"}


FIELDS = ["Name", "Email", "Power", "Reset", "PasswordHash", "PasswordVersion", "MuteReason"]
# In make test, each field has one odd value, and each value is tried.
NUMBERS = range(len(ODD))
TRIED = [*product(FIELDS, NUMBERS)] if tiers.is_everything else [*zip(FIELDS, NUMBERS, strict=True)]


@pytest.mark.parametrize(("field", "number"), TRIED)
def test_no_account_is_a_500(client, db, staff, field, number):
    user_id = stored(db, field, ODD[number])
    for method, path, body in requests(user_id):
        answer = client.open(path, method=method, json=body, headers=staff)
        assert answer.status_code < 500, (path, answer.json)
        if method == "GET":
            assert answer.status_code == 200, (path, answer.json)


@pytest.mark.parametrize("odd", [{"$unset": {"Power": ""}}, {"$set": {"Power": "all"}}])
def test_who_has_no_power_is_not_let_in(client, db, world, odd):
    user = world.add_user("secret", roles=(Role.API,), Name="Odd")
    headers = world.headers(user=user)
    db.users.update_one({"_id": user["_id"]}, odd, bypass_document_validation=True)
    assert client.get("/api/v1/players", headers=headers).status_code == 403
    sign_in = {"grant_type": "password", "username": "Odd", "password": PASSWORD}
    assert client.post("/api/oauth/token", json=sign_in).status_code == 403


@pytest.mark.parametrize(
    "odd", [{"$unset": {"PasswordVersion": ""}}, {"$set": {"PasswordVersion": "x"}}]
)
def test_nobody_knows_which_tokens_are_valid_without_a_count(client, db, world, odd):
    user = world.add_user("secret", roles=(Role.API,), Name="Odd")
    headers = world.headers(user=user)
    db.users.update_one({"_id": user["_id"]}, odd, bypass_document_validation=True)
    assert client.get("/api/v1/players", headers=headers).status_code == 401
    sign_in = {"grant_type": "password", "username": "Odd", "password": PASSWORD}
    token = client.post("/api/oauth/token", json=sign_in).json["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_a_ban_of_an_account_without_a_count_leaves_one_that_no_token_has(client, db, staff):
    user_id = stored(db, "PasswordVersion", ABSENT)
    path = f"/api/v1/users/{user_id}/admin/ban"
    assert client.post(path, json={"duration": 1}, headers=staff).status_code == 200
    assert db.users.find_one({"_id": user_id})["PasswordVersion"] > 10**12
