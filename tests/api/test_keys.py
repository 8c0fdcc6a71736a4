"""Keys: made, used, rotated and revoked; scopes, addresses and budgets."""

from datetime import datetime, timedelta, timezone

import pytest

from app.auth.api_keys import new_secret
from app.auth.callers import Callers
from app.core.permissions import SCOPES, Role
from tests.applications import service
from tests.callers import Caller
from tests.factories import ITEM, guid, make_key, make_user, moment, numbered_guid, with_keys

TERMS = {"Name": "shop", "Scopes": ["players.read", "players.change"]}


@pytest.fixture
def make(staff):
    """Create a key of the clerk."""
    return lambda **terms: staff("POST keys", {**TERMS, **terms}).json


@pytest.fixture
def holder(client):
    """Return the caller who holds the text of a key."""
    return lambda secret: Caller(client, {"Authorization": f"Bearer {secret}"}, "/api/v1/")


@pytest.fixture
def works(holder):
    def works(secret):
        status = holder(secret)("GET players", status=None).status_code
        assert status in (200, 401)
        return status == 200

    return works


@pytest.fixture
def with_key(client, world):
    """Return the caller with a key that is stored with these fields."""
    return lambda **fields: Caller(client, world.key_headers(**fields), "/api/v1/")


def test_a_key_is_shown_once_stored_as_a_digest_and_unknown_when_revoked(staff, make, works, db):
    key = make()
    secret, path = key.pop("Key"), f"DELETE keys/{key['Id']}"
    assert (secret[:3], len(secret)) == ("qm_", 49)
    assert secret not in repr(list(db.users.find()))
    assert staff("GET keys").json["Values"] == [key]
    assert works(secret)
    assert staff(path).json == {"username": "Clerk", "Id": key["Id"]}
    # At once in the same worker.
    assert not works(secret)
    staff(path, status=404)


def test_it_ends_in_ninety_days_unless_said_otherwise_and_a_rotation_keeps_its_span(staff, make):
    now = datetime.now(timezone.utc)
    assert abs(moment(make()["ExpiresAt"]) - now - timedelta(days=90)) < timedelta(hours=1)
    soon = make(Name="soon", ExpiresAt=(now + timedelta(days=7)).isoformat())
    rotated = staff(f"POST keys/{soon['Id']}/rotate").json
    for key in (soon, rotated):
        assert abs(moment(key["ExpiresAt"]) - now - timedelta(days=7)) < timedelta(hours=2)


WRONG = {
    "Name": [" ", "x" * 61, "a\nb", "sh\u200bop", numbered_guid(5)],
    "Scopes": [[], ["players"], "players.read"],
    "ExpiresAt": ["2020-01-01T00:00:00Z"],
    "Addresses": [["nowhere"], []],
    "Budget": [[], {"ItemsPerDay": 0}, {"Items": []}, {"Largest": 1}, {"Items": [5]}],
}


def test_what_is_wrong_is_said_by_field(staff, db):
    for field, values in WRONG.items():
        for value in values:
            refused = staff("POST keys", {**TERMS, field: value}, 400).json
            assert field in "".join(refused["Errors"]), (field, value)
    assert [*refused["Errors"]] == ["Budget.Items.0"]
    assert not db.users.count_documents({"Keys": {"$exists": True}})


def test_names_are_unique_within_an_account_and_keys_have_a_limit(staff, make, db):
    make()
    staff("POST keys", TERMS, 409)
    keys = {guid(): make_key(new_secret(), Name=str(number)) for number in range(50)}
    db.users.update_one({"_id": staff.user["_id"]}, {"$set": {"Keys": keys}})
    assert "50 keys" in staff("POST keys", TERMS, 409).json["Message"]


def test_ones_own_keys_or_with_users_manage_anybodys(client, staff, world):
    other = world.add_user(roles=(Role.API,), Name="Other")
    theirs = Caller(client, world.headers(user=other), "/api/v1/")
    key = theirs("POST keys", TERMS).json["Id"]
    theirs("GET keys?user=Clerk", status=403)
    assert staff("GET keys?user=Other").json["Values"][0]["Id"] == key
    staff(f"DELETE keys/{key}", status=404)
    staff(f"DELETE keys/{key}?user=Other")
    assert theirs("GET keys").json["Values"] == []


def test_after_a_rotation_both_texts_work_for_the_overlap(staff, make, works, db):
    key = make()
    path, own = f"POST keys/{key['Id']}/rotate", {"_id": staff.user["_id"]}
    rotated = staff(path, {"OverlapHours": 2}).json
    assert (rotated["Id"], rotated["FormerEndsAt"] is None) == (key["Id"], False)
    secrets = key["Key"], rotated["Key"]
    assert [len(set(secrets)), *map(works, secrets)] == [2, True, True]
    passed = datetime.now(timezone.utc) - timedelta(seconds=1)
    db.users.update_one(own, {"$set": {f"Keys.{key['Id']}.Secrets.1.EndsAt": passed}})
    assert [*map(works, secrets)] == [False, True]
    last = staff(path, {"OverlapHours": 0}).json["Key"]
    assert [works(rotated["Key"]), works(last)] == [False, True]
    staff(f"POST keys/{guid()}/rotate", status=404)
    # Few former texts work beside a key.
    for _ in range(5):
        staff(path)
    stored = db.users.find_one(own)
    assert len(stored["Keys"][key["Id"]]["Secrets"]) == len(stored["KeyDigests"]) == 5


def test_what_is_no_key_is_unauthorized(client):
    right = new_secret()
    for secret in ("qm_", right[:-1], right + "0", "qm_" + "é" * 46, right):
        authorization = f"Bearer {secret}".encode()
        answer = client.get("/api/v1/players", headers={"Authorization": authorization})
        assert answer.status_code == 401, secret


def test_an_expired_key_is_unauthorized_even_while_it_is_cached(with_key, app, monkeypatch):
    key = with_key(ExpiresAt=datetime.now(timezone.utc) + timedelta(hours=1))
    key("GET players")
    later = datetime.now(timezone.utc) + timedelta(hours=2)
    clock = service(app, Callers)._database_clock
    monkeypatch.setattr(clock, "time", later.timestamp)
    key("GET players", status=401)


def test_a_key_works_unless_its_account_is_banned_whatever_its_password_is(with_key, db):
    key = with_key()
    for update, status in (
        ({"$set": {"IsBanned": True}}, 401),
        ({"$set": {"IsBanned": False}}, 200),
        ({"$inc": {"PasswordVersion": 1}}, 200),
    ):
        db.users.update_one({}, update)
        key("GET players", status=status)


def test_a_key_may_be_bound_to_networks(client, world):
    for network, address, status in (
        ("203.0.113.0/24", "203.0.113.9", 200),
        ("203.0.113.0/24", "203.0.114.9", 403),
        ("203.0.113.7", "::ffff:203.0.113.7", 200),
        ("2001:db8::/32", "2001:db8::1", 200),
        ("2001:db8::/32", "203.0.113.9", 403),
    ):
        headers = world.key_headers(Addresses=[network])
        from_address = {"environ_overrides": {"REMOTE_ADDR": address}}
        answer = client.get("/api/v1/players", headers=headers, **from_address)
        assert answer.status_code == status, (network, address)
        assert status == 200 or address in answer.json["Message"]


def test_a_key_does_not_change_the_account_it_belongs_to(staff, make, holder):
    """Or it could set its owner's password, sign in, and make keys."""
    key, digest = holder(make(Scopes=[*SCOPES])["Key"]), "a" * 64
    for path, body in (
        ("manage/password/change", {"new": digest}),
        ("manage/email/change", {"new": "other@example.com"}),
        ("password/change", {"new": digest, "authorization": digest}),
        ("password/reset", {"code": "ABCDEFGH", "new": digest}),
    ):
        for name in ("clerk", staff.user["_id"]):
            refused = key(f"POST users/{name}/{path}", body, 403)
            assert "not for keys" in refused.json["Message"]


def test_history_names_the_key(staff, make, holder, player):
    secret = make()["Key"]
    holder(secret)("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 1})
    (entry,) = staff("GET players/Aladric/history").json["Values"]
    assert entry["By"] == {"UserId": staff.user["_id"], "Name": "Clerk", "Key": "shop"}
    assert staff("GET players/Aladric/history?key=shop").json["Values"] == [entry]
    (made,) = staff("GET users/Clerk/history").json["Values"]
    assert (made["Operation"], made["Arguments"]["Name"]) == ("create-key", "shop")
    assert secret not in repr(made)
    refused = staff(f"POST history/{made['Id']}/undo", status=409).json
    assert "revoke the key" in refused["Message"]


def test_when_it_was_used_is_stored_once_a_minute(with_key, db):
    key = with_key()
    key("GET players")
    first = db.users.find_one()
    assert [kept["LastUsedAt"].second for kept in first["Keys"].values()] == [0]
    key("GET players")
    assert db.users.find_one() == first


def test_what_a_game_stores_as_keys_opens_nothing_and_breaks_nothing(staff, works, with_key, db):
    for damaged in (None, 5, "x", [], {"a": 5}, {"a": {"Name": "x"}}, {guid(): {"Name": "x"}}):
        secret = new_secret()
        user = {**with_keys(make_user(), **{guid(): make_key(secret)}), "Keys": damaged}
        db.users.insert_one(user, bypass_document_validation=True)
        assert not works(secret)
        assert staff(f"GET keys?user={user['_id']}").json == {"Values": []}
    for field, values in (
        ("Scopes", (None, 7, {"0": "game.act"}, [7, None, ["game.act"]])),
        ("Addresses", (["what"], "what")),
        ("Budget", (5, {"Items": 5})),
    ):
        for value in values:
            with_key(**{field: value})("GET players", status=401)


def test_a_key_is_found_by_its_index(real_db, real_storage):
    keys = [{guid(): make_key(new_secret())} for _ in range(20)]
    real_db.users.insert_many(with_keys(make_user(), **key) for key in keys)
    digest = real_db.users.find_one()["KeyDigests"][0]
    plan = real_storage.client[real_db.name].users.find({"KeyDigests": digest}).explain()
    assert "'indexName': 'key'" in str(plan["queryPlanner"]["winningPlan"])
    assert plan["executionStats"]["totalDocsExamined"] == 1


def test_a_budget_limits_what_a_key_moves(staff, make, holder, with_key, player):
    def move(key, quantity, why, item=ITEM, **headers):
        body = {"itemid": item, "quantity": quantity}
        answer = key("POST players/Aladric/items/give", body, 403 if why else 200, **headers)
        assert why in answer.json.get("Message", "")

    key = holder(make(Budget={"LargestQuantity": 5, "Items": [ITEM], "ItemsPerDay": 9})["Key"])
    move(key, 6, "(LargestQuantity)")
    move(key, 1, "(Items)", item=guid())
    for _ in range(2):
        move(key, 1, "", Idempotency_Key="order-1")
    for quantity, why in ((5, ""), (2, ""), (2, "(ItemsPerDay)"), (1, "")):
        move(key, quantity, why)
    assert staff("GET keys").json["Values"][0]["UsedToday"] == 9
    move(with_key(Budget={"ItemsPerDay": "x"}), 1, "budget")
