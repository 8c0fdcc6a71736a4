"""Keys: made, used, rotated and revoked; scopes, addresses and budgets."""

from datetime import datetime, timedelta, timezone

import pytest

from app.auth.api_keys import new_secret
from app.auth.callers import Callers
from app.core.permissions import SCOPES, Role
from tests.applications import service
from tests.callers import Caller
from tests.factories import guid, make_key, make_user, moment, numbered_guid, with_keys

ITEM, OTHER = numbered_guid(1), numbered_guid(2)
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


def test_a_key_is_shown_once_and_stored_as_a_digest(staff, make, works, db):
    key = make()
    secret = key["Key"]
    assert (secret[:3], len(secret)) == ("qm_", 49)
    assert secret not in repr(list(db.users.find()))
    del key["Key"]
    assert staff("GET keys").json["Values"] == [key]
    assert works(secret)


def test_it_ends_in_ninety_days_unless_said_otherwise_and_a_rotation_keeps_its_span(staff, make):
    now = datetime.now(timezone.utc)
    assert abs(moment(make()["ExpiresAt"]) - now - timedelta(days=90)) < timedelta(hours=1)
    said = make(Name="other", ExpiresAt="2999-01-01T00:00:00Z")
    assert said["ExpiresAt"].startswith("2999-01-01")
    soon = make(Name="soon", ExpiresAt=(now + timedelta(days=7)).isoformat())
    rotated = staff(f"POST keys/{soon['Id']}/rotate").json
    assert abs(moment(rotated["ExpiresAt"]) - now - timedelta(days=7)) < timedelta(hours=2)


WRONG = {
    "Name": [" ", "x" * 61, "a\nb", "sh\u200bop", numbered_guid(5)],
    "Scopes": [[], ["players"], "players.read"],
    "ExpiresAt": ["2020-01-01T00:00:00Z"],
    "Addresses": [["nowhere"], []],
    "Budget": [[], {"ItemsPerDay": 0}, {"Items": []}, {"Largest": 1}],
}


def test_what_is_wrong_is_said_by_field(staff, db):
    for field, values in WRONG.items():
        for value in values:
            refused = staff("POST keys", {**TERMS, field: value}, 400).json
            assert field in "".join(refused["Errors"]), (field, value)
    budget = {"ItemsPerDay": 0, "Items": [5]}
    refused = staff("POST keys", {**TERMS, "Budget": budget}, 400).json
    assert sorted(refused["Errors"]) == ["Budget.Items.0", "Budget.ItemsPerDay"]
    assert "'Budget.Items.0' must be a guid" in refused["Message"]
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


def test_a_revoked_key_is_unknown_at_once_in_the_same_worker(staff, make, works):
    key = make()
    assert works(key["Key"])
    revoked = staff(f"DELETE keys/{key['Id']}").json
    assert revoked == {"username": "Clerk", "Id": key["Id"]}
    assert not works(key["Key"])
    staff(f"DELETE keys/{key['Id']}", status=404)


def test_after_a_rotation_both_texts_work_for_the_overlap(staff, make, works, app, db):
    key = make()
    rotated = staff(f"POST keys/{key['Id']}/rotate", {"OverlapHours": 2}).json
    assert rotated["Id"] == key["Id"]
    assert rotated["FormerEndsAt"] is not None
    secrets = key["Key"], rotated["Key"]
    assert [len(set(secrets)), *map(works, secrets)] == [2, True, True]
    passed = datetime.now(timezone.utc) - timedelta(seconds=1)
    former = f"Keys.{key['Id']}.Secrets.1.EndsAt"
    db.users.update_one({"_id": staff.user["_id"]}, {"$set": {former: passed}})
    assert [*map(works, secrets)] == [False, True]
    last = staff(f"POST keys/{key['Id']}/rotate", {"OverlapHours": 0}).json["Key"]
    assert [works(rotated["Key"]), works(last)] == [False, True]
    staff(f"POST keys/{guid()}/rotate", status=404)
    # Few former texts work beside a key.
    for _ in range(8):
        staff(f"POST keys/{key['Id']}/rotate")
    stored = db.users.find_one({"_id": staff.user["_id"]})
    assert len(stored["Keys"][key["Id"]]["Secrets"]) == len(stored["KeyDigests"]) == 5


def test_what_is_no_key_is_unauthorized(client):
    right = new_secret()
    for secret in ("qm_", "qm_short", right[:-1], right + "0", "qm_" + "é" * 46, right):
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


@pytest.mark.parametrize(
    ("networks", "address", "status"),
    [
        (["203.0.113.0/24"], "203.0.113.9", 200),
        (["203.0.113.0/24"], "203.0.114.9", 403),
        (["203.0.113.7"], "::ffff:203.0.113.7", 200),
        (["::/0"], "2001:db8::1", 200),
        (["2001:db8::/32"], "2001:db8::1", 200),
        (["2001:db8::/32"], "203.0.113.9", 403),
    ],
)
def test_a_key_may_be_bound_to_networks(client, world, networks, address, status):
    headers = world.key_headers(Addresses=networks)
    from_address = {"environ_overrides": {"REMOTE_ADDR": address}}
    answer = client.get("/api/v1/players", headers=headers, **from_address)
    assert answer.status_code == status
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


def test_history_names_the_key(staff, make, holder, world):
    path, secret = f"players/{world.add_player()['_id']}", make()["Key"]
    holder(secret)(f"POST {path}/items/give", {"itemid": ITEM, "quantity": 1})
    (entry,) = staff(f"GET {path}/history").json["Values"]
    assert entry["By"] == {"UserId": staff.user["_id"], "Name": "Clerk", "Key": "shop"}
    assert staff(f"GET {path}/history?key=shop").json["Values"] == [entry]
    own = staff("GET users/Clerk/history").json["Values"]
    assert (own[0]["Operation"], own[0]["Arguments"]["Name"]) == ("create-key", "shop")
    assert secret not in repr(own)
    refused = staff(f"POST history/{own[0]['Id']}/undo", status=409).json
    assert "revoke the key" in refused["Message"]


def test_when_it_was_used_is_stored_once_a_minute(with_key, app, db):
    key = with_key()
    key("GET players")
    first = db.users.find_one()
    assert [kept["LastUsedAt"].second for kept in first["Keys"].values()] == [0]
    key("GET players")
    assert db.users.find_one() == first


def test_what_a_game_stores_as_keys_opens_nothing_and_breaks_nothing(staff, works, db):
    for damaged in (None, 5, "x", [], {"a": 5}, {"a": {"Name": "x"}}, {guid(): {"Name": "x"}}):
        secret = new_secret()
        user = {**with_keys(make_user(), **{guid(): make_key(secret)}), "Keys": damaged}
        db.users.insert_one(user, bypass_document_validation=True)
        assert not works(secret)
        assert staff(f"GET keys?user={user['_id']}").json == {"Values": []}


@pytest.mark.parametrize("stored", [None, 7, {"0": "game.act"}, [7, None, ["game.act"]]])
def test_unreadable_scopes_open_nothing(stored, client, world):
    headers = world.key_headers(Scopes=stored)
    assert client.get("/api/v1/players", headers=headers).status_code == 401


@pytest.mark.parametrize("stored", [["what"], "what"])
def test_unreadable_networks_open_nothing(stored, client, world):
    headers = world.key_headers(Addresses=stored)
    assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_a_key_is_found_by_its_index(real_db, real_storage):
    real_db.users.insert_many(
        with_keys(make_user(), **{guid(): make_key(new_secret())}) for _ in range(20)
    )
    digest = real_db.users.find_one()["KeyDigests"][0]
    plan = real_storage.client[real_db.name].users.find({"KeyDigests": digest}).explain()
    assert "'indexName': 'key'" in str(plan["queryPlanner"]["winningPlan"])
    assert plan["executionStats"]["totalDocsExamined"] == 1


class TestBudget:
    @pytest.fixture
    def move(self, world):
        """Give or take items by a key; return the answer, which must have the status."""
        path = f"POST players/{world.add_player()['_id']}/items"

        def move(key, quantity=1, status=200, item=ITEM, verb="give", **headers):
            body = {"itemid": item, "quantity": quantity}
            return key(f"{path}/{verb}", body, status, **headers)

        return move

    @pytest.fixture
    def limited(self, make, holder):
        return lambda name="shop", **budget: holder(make(Name=name, Budget=budget)["Key"])

    def test_the_largest_quantity_and_the_items(self, limited, move):
        small, narrow = limited(LargestQuantity=5), limited("narrow", Items=[ITEM])
        move(small, 5)
        assert "LargestQuantity" in move(small, 6, 403).json["Message"]
        move(narrow)
        assert "(Items)" in move(narrow, status=403, item=OTHER).json["Message"]

    def test_the_items_of_a_day_given_or_taken(self, staff, limited, move):
        key = limited(ItemsPerDay=10)
        move(key, 6)
        move(key, 3, verb="take")
        assert "ItemsPerDay" in move(key, 2, 403).json["Message"]
        move(key, 1)
        assert staff("GET keys").json["Values"][0]["UsedToday"] == 10

    def test_what_is_refused_or_repeated_costs_nothing(self, limited, move):
        key, other = limited(ItemsPerDay=10), limited("other", ItemsPerDay=5)
        _, again = (move(key, 10, Idempotency_Key="order-1") for _ in range(2))
        assert again.headers["Idempotency-Replayed"] == "true"
        move(key, 1, 403)
        for _ in range(3):
            move(other, 5, 409, OTHER, "take")
        move(other, 5)

    def test_an_undo_moves_items_too(self, staff, make, holder, move):
        undo = f"POST history/{move(staff, 7).headers['X-History-Id']}/undo"
        for most, status in ((6, 403), (7, 200)):
            terms = {"Scopes": ["history.undo"], "Budget": {"ItemsPerDay": most}}
            holder(make(Name=str(most), **terms)["Key"])(undo, status=status)

    def test_one_that_cannot_be_read_allows_nothing(self, with_key, move):
        for damaged in (5, {"Items": 5}):
            move(with_key(Budget=damaged), status=401)
        move(with_key(Budget={"ItemsPerDay": "x"}), status=403)
