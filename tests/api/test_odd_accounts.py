"""Accounts that a game has stored in its own way can be read, changed and erased."""

from itertools import product

import pytest

from app.core.permissions import Role
from tests import tiers
from tests.factories import guid, make_user, sha256

ABSENT = object()
PASSWORD = sha256("secret")
ODD = [ABSENT, None, "text", 5, 2**63 - 1, [{}], {"odd": None}]


def store(db, **fields):
    user = {**make_user(Name="Odd"), **fields}
    user = {name: held for name, held in user.items() if held is not ABSENT}
    db.users.insert_one(user, bypass_document_validation=True)
    return user["_id"]


REQUESTS = [
    *(("GET", path, None) for path in ("", "/players", "/history", "/moderation")),
    *(("GET", path, None) for path in ("/personal-data", "?pageSize=9", "?search=odd")),
    ("POST", "/admin/ban", {"duration": 1}),
    ("POST", "/admin/unban", None),
    ("POST", "/admin/mute", {"duration": 1}),
    ("POST", "/admin/unmute", None),
    ("POST", "/notes", {"Text": "Odd."}),
    ("POST", "/password/validate", {"password": PASSWORD}),
    ("POST", "/password/reset", {"code": "ABCDEFGH", "new": PASSWORD}),
    ("POST", "/manage/email/change", {"new": f"{guid()[:8]}@example.com"}),
    ("POST", "/manage/password/change", {"new": PASSWORD}),
    ("DELETE", "/api/oauth/token/Odd", None),
    ("POST", "/erase", {"Confirm": "Odd"}),
]
FIELDS = ["Name", "Email", "Power", "Reset", "PasswordHash", "PasswordVersion", "MuteReason"]
# In make test, each field has one odd value, and each value is tried.
NUMBERS = range(len(ODD))
TRIED = [*product(FIELDS, NUMBERS)] if tiers.is_everything else [*zip(FIELDS, NUMBERS, strict=True)]


@pytest.mark.parametrize(("field", "number"), TRIED)
def test_no_account_is_a_500(caller, db, field, number):
    staff, user_id = caller("", *Role), store(db, **{field: ODD[number]})
    for method, path, body in REQUESTS:
        if not path.startswith("/api"):
            path = f"/api/v1/users{'' if path.startswith('?') else f'/{user_id}'}{path}"
        answer = staff(f"{method} {path}", body, None)
        assert answer.status_code < (300 if method == "GET" else 500), (path, answer.json)


@pytest.mark.parametrize(
    ("odd", "call", "password"),
    [
        ({"$unset": {"Power": ""}}, 403, 403),
        ({"$set": {"Power": "all"}}, 403, 403),
        # Nobody knows which tokens are valid without a count.
        ({"$unset": {"PasswordVersion": ""}}, 401, 200),
        ({"$set": {"PasswordVersion": "x"}}, 401, 200),
    ],
)
def test_who_is_stored_oddly_is_not_let_in(
    client, db, alice, caller_of, sign_in, odd, call, password
):
    own = caller_of(alice)
    db.users.update_one({"_id": alice["_id"]}, odd, bypass_document_validation=True)
    own("GET players", status=call)
    answer = sign_in()
    assert answer.status_code == password
    if password == 200:
        headers = {"Authorization": f"Bearer {answer.json['access_token']}"}
        assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_a_ban_of_an_account_without_a_count_leaves_one_that_no_token_has(db, staff):
    user_id = store(db, PasswordVersion=ABSENT)
    staff(f"POST users/{user_id}/admin/ban", {"duration": 1})
    assert db.users.find_one({"_id": user_id})["PasswordVersion"] > 10**12
