"""Keys: made, used, rotated and revoked; scopes, addresses and budgets."""

from datetime import datetime, timedelta, timezone

import pytest

from app.auth.api_keys import LENGTH, is_well_formed, new_secret
from app.auth.callers import Callers
from app.auth.roles import Role
from app.auth.scopes import Scope
from tests.applications import service
from tests.factories import guid, make_key, make_user, numbered_guid, with_keys

KEYS = "/api/v1/keys"
ITEM, OTHER = numbered_guid(1), numbered_guid(2)


@pytest.fixture
def person(world):
    return world.add_user(roles=(Role.API, Role.USERS_QUERY, Role.USERS_MANAGE), Name="Keeper")


@pytest.fixture
def headers(world, person):
    return world.headers(user=person)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def made(client, headers, **terms):
    body = {"Name": "shop", "Scopes": ["players.read", "players.change"], **terms}
    answer = client.post(KEYS, json=body, headers=headers)
    assert answer.status_code == 200, answer.json
    return answer.json


def give(client, player, secret, quantity=1, item=ITEM, **headers):
    return client.post(
        f"/api/v1/players/{player['_id']}/items/give",
        json={"itemid": item, "quantity": quantity, "bankoverflow": True},
        headers={**bearer(secret), **headers},
    )


def test_a_key_is_shown_once_and_stored_as_a_digest(client, headers, person, db):
    key = made(client, headers)
    secret = key["Key"]
    assert secret.startswith("qm_")
    assert len(secret) == LENGTH
    assert is_well_formed(secret)
    assert secret not in repr(list(db.users.find()))
    listed = client.get(KEYS, headers=headers).json["Values"]
    assert listed == [{name: value for name, value in key.items() if name != "Key"}]
    assert client.get("/api/v1/players", headers=bearer(secret)).status_code == 200


def test_it_ends_in_ninety_days_unless_said_otherwise(client, headers):
    ends = datetime.fromisoformat(made(client, headers)["ExpiresAt"].replace("Z", "+00:00"))
    wanted = datetime.now(timezone.utc) + timedelta(days=90)
    assert abs(ends - wanted) < timedelta(hours=1)
    said = "2999-01-01T00:00:00Z"
    assert made(client, headers, Name="other", ExpiresAt=said)["ExpiresAt"].startswith("2999-01-01")


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"Name": " "}, "Name"),
        ({"Name": "x" * 61}, "Name"),
        ({"Name": "a\nb"}, "Name"),
        ({"Name": "sh\u200bop"}, "Name"),
        ({"Name": numbered_guid(5)}, "Name"),
        ({"Budget": []}, "Budget"),
        ({"Scopes": []}, "Scopes"),
        ({"Scopes": ["players"]}, "Scopes"),
        ({"Scopes": "players.read"}, "Scopes"),
        ({"ExpiresAt": "2020-01-01T00:00:00Z"}, "ExpiresAt"),
        ({"Addresses": ["nowhere"]}, "Addresses"),
        ({"Addresses": []}, "Addresses"),
        ({"Budget": {"ItemsPerDay": 0}}, "Budget"),
        ({"Budget": {"Items": []}}, "Budget"),
        ({"Budget": {"Largest": 1}}, "Budget"),
    ],
)
def test_what_is_wrong_is_said_by_field(client, headers, db, terms, field):
    body = {"Name": "shop", "Scopes": ["players.read"], **terms}
    answer = client.post(KEYS, json=body, headers=headers)
    assert answer.status_code == 400
    assert field in "".join(answer.json["Errors"])
    assert not db.users.count_documents({"Keys": {"$exists": True}})


def test_what_is_wrong_within_the_budget_is_said_by_its_path(client, headers):
    body = {"Name": "shop", "Scopes": ["players.read"], "Budget": {"ItemsPerDay": 0, "Items": [5]}}
    answer = client.post(KEYS, json=body, headers=headers)
    assert sorted(answer.json["Errors"]) == ["Budget.Items.0", "Budget.ItemsPerDay"]
    assert "'Budget.Items.0' must be a guid" in answer.json["Message"]


def test_names_are_unique_within_an_account_and_keys_have_a_limit(client, headers, db, person):
    made(client, headers)
    body = {"Name": "shop", "Scopes": ["players.read"]}
    assert client.post(KEYS, json=body, headers=headers).status_code == 409
    keys = {guid(): make_key(new_secret(), Name=str(number)) for number in range(50)}
    db.users.update_one({"_id": person["_id"]}, {"$set": {"Keys": keys}})
    refused = client.post(KEYS, json=body, headers=headers)
    assert refused.status_code == 409
    assert "50 keys" in refused.json["Message"]


def test_ones_own_keys_or_with_users_manage_anybodys(client, headers, world, person):
    other = world.add_user(roles=(Role.API,), Name="Other")
    mine, theirs = headers, world.headers(user=other)
    key = made(client, theirs)
    assert client.get(f"{KEYS}?user=Keeper", headers=theirs).status_code == 403
    assert client.get(f"{KEYS}?user=Other", headers=mine).json["Values"][0]["Id"] == key["Id"]
    assert client.delete(f"{KEYS}/{key['Id']}", headers=mine).status_code == 404
    assert client.delete(f"{KEYS}/{key['Id']}?user=Other", headers=mine).status_code == 200
    assert client.get(KEYS, headers=theirs).json["Values"] == []
    assert client.get(f"{KEYS}?user=nobody", headers=mine).status_code == 404


def test_a_revoked_key_is_unknown_at_once_in_the_same_worker(client, headers):
    key = made(client, headers)
    assert client.get("/api/v1/players", headers=bearer(key["Key"])).status_code == 200
    answer = client.delete(f"{KEYS}/{key['Id']}", headers=headers)
    assert answer.json == {"username": "Keeper", "Id": key["Id"]}
    assert client.get("/api/v1/players", headers=bearer(key["Key"])).status_code == 401
    assert client.delete(f"{KEYS}/{key['Id']}", headers=headers).status_code == 404


def test_after_a_rotation_both_texts_work_for_the_overlap(client, headers, app, db, person):
    key = made(client, headers)
    rotated = client.post(
        f"{KEYS}/{key['Id']}/rotate", json={"OverlapHours": 2}, headers=headers
    ).json
    assert rotated["Id"] == key["Id"]
    assert rotated["Key"] != key["Key"]
    assert rotated["FormerEndsAt"] is not None
    for secret in (key["Key"], rotated["Key"]):
        assert client.get("/api/v1/players", headers=bearer(secret)).status_code == 200
    passed = datetime.now(timezone.utc) - timedelta(seconds=1)
    former = f"Keys.{key['Id']}.Secrets.1.EndsAt"
    db.users.update_one({"_id": person["_id"]}, {"$set": {former: passed}})
    service(app, Callers).forget()
    assert client.get("/api/v1/players", headers=bearer(key["Key"])).status_code == 401
    assert client.get("/api/v1/players", headers=bearer(rotated["Key"])).status_code == 200


def test_without_an_overlap_the_former_text_is_dead_at_once(client, headers):
    key = made(client, headers)
    body = {"OverlapHours": 0}
    rotated = client.post(f"{KEYS}/{key['Id']}/rotate", json=body, headers=headers).json
    assert client.get("/api/v1/players", headers=bearer(key["Key"])).status_code == 401
    assert client.get("/api/v1/players", headers=bearer(rotated["Key"])).status_code == 200
    assert client.post(f"{KEYS}/{guid()}/rotate", headers=headers).status_code == 404


def test_what_is_no_key_is_unauthorized(client):
    right = new_secret()
    for secret in ("qm_", "qm_short", right[:-1], right + "0", "qm_" + "é" * 46, right):
        authorization = f"Bearer {secret}".encode()
        answer = client.get("/api/v1/players", headers={"Authorization": authorization})
        assert answer.status_code == 401, secret


def test_a_typing_error_is_found_without_the_database():
    secret = new_secret()
    changed = secret[:10] + ("a" if secret[10] != "a" else "b") + secret[11:]
    assert not is_well_formed(changed)


def test_an_expired_key_is_unauthorized_even_while_it_is_cached(client, world, app, monkeypatch):
    headers = world.key_headers(ExpiresAt=datetime.now(timezone.utc) + timedelta(hours=1))
    assert client.get("/api/v1/players", headers=headers).status_code == 200
    later = datetime.now(timezone.utc) + timedelta(hours=2)
    clock = service(app, Callers)._database_clock
    monkeypatch.setattr(clock, "time", later.timestamp)
    assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_the_key_of_a_banned_account_does_not_work_while_it_is_banned(client, world, app, db):
    headers = world.key_headers()
    db.users.update_one({}, {"$set": {"IsBanned": True}})
    assert client.get("/api/v1/players", headers=headers).status_code == 401
    db.users.update_one({}, {"$set": {"IsBanned": False}})
    assert client.get("/api/v1/players", headers=headers).status_code == 200


def test_a_change_of_the_password_ends_tokens_and_no_keys(client, world, db):
    headers = world.key_headers()
    db.users.update_one({}, {"$inc": {"PasswordVersion": 1}})
    assert client.get("/api/v1/players", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("networks", "address", "status"),
    [
        (["203.0.113.0/24"], "203.0.113.9", 200),
        (["203.0.113.0/24"], "203.0.114.9", 403),
        (["203.0.113.7"], "::ffff:203.0.113.7", 200),
        (["::ffff:203.0.113.7"], "203.0.113.7", 200),
        (["::ffff:203.0.113.0/120"], "203.0.113.9", 200),
        (["::/0"], "2001:db8::1", 200),
        (["2001:db8::/32"], "2001:db8::1", 200),
        (["2001:db8::/32"], "203.0.113.9", 403),
        (["what"], "203.0.113.9", 403),
        ("what", "203.0.113.9", 403),
    ],
)
def test_a_key_may_be_bound_to_networks(client, world, networks, address, status):
    headers = world.key_headers(Addresses=networks)
    answer = client.get(
        "/api/v1/players", headers=headers, environ_overrides={"REMOTE_ADDR": address}
    )
    assert answer.status_code == status
    if status == 403:
        assert address in answer.json["Message"]


def test_a_key_does_not_change_the_account_it_belongs_to(client, headers, person):
    """Or it could set its owner's password, sign in, and make keys."""
    secret = made(client, headers, Scopes=[scope.value for scope in Scope])["Key"]
    digest = "a" * 64
    for path, body in (
        ("manage/password/change", {"new": digest}),
        ("manage/email/change", {"new": "other@example.com"}),
        ("password/change", {"new": digest, "authorization": digest}),
        ("password/reset", {"code": "ABCDEFGH", "new": digest}),
    ):
        for name in ("keeper", person["_id"]):
            path_of = f"/api/v1/users/{name}/{path}"
            answer = client.post(path_of, json=body, headers=bearer(secret))
            assert answer.status_code == 403, path
            assert "not for keys" in answer.json["Message"]


def test_few_former_texts_work_beside_a_key(client, headers, db, person):
    key = made(client, headers)
    for _ in range(8):
        client.post(f"{KEYS}/{key['Id']}/rotate", headers=headers)
    stored = db.users.find_one({"_id": person["_id"]})
    assert len(stored["Keys"][key["Id"]]["Secrets"]) == len(stored["KeyDigests"]) == 5


def test_a_rotated_key_works_for_as_long_as_it_was_made_for(client, headers):
    soon = (datetime.now(timezone.utc) + timedelta(days=7)).isoformat()
    key = made(client, headers, ExpiresAt=soon)
    rotated = client.post(f"{KEYS}/{key['Id']}/rotate", headers=headers).json
    ends = datetime.fromisoformat(rotated["ExpiresAt"].replace("Z", "+00:00"))
    assert timedelta(days=6.9) < ends - datetime.now(timezone.utc) < timedelta(days=7.1)


def test_history_names_the_key(client, headers, world, person):
    player = world.add_player()
    secret = made(client, headers)["Key"]
    assert give(client, player, secret).status_code == 200
    entry = client.get(f"/api/v1/players/{player['_id']}/history", headers=headers).json["Values"][
        0
    ]
    assert entry["By"] == {"UserId": person["_id"], "Name": "Keeper", "Key": "shop"}
    found = client.get(f"/api/v1/players/{player['_id']}/history?key=shop", headers=headers).json[
        "Values"
    ]
    assert [found_entry["Id"] for found_entry in found] == [entry["Id"]]
    own = client.get("/api/v1/users/Keeper/history", headers=headers).json["Values"]
    assert own[0]["Operation"] == "create-key"
    assert own[0]["Arguments"]["Name"] == "shop"
    assert secret not in repr(own)
    refused = client.post(f"/api/v1/history/{own[0]['Id']}/undo", headers=headers)
    assert refused.status_code == 409
    assert "revoke the key" in refused.json["Message"]


def test_when_it_was_used_is_stored_once_a_minute(client, world, app, db):
    headers = world.key_headers()
    client.get("/api/v1/players", headers=headers)
    first = db.users.find_one()
    (key,) = first["Keys"].values()
    assert key["LastUsedAt"].second == 0
    service(app, Callers).forget()
    client.get("/api/v1/players", headers=headers)
    assert db.users.find_one() == first


@pytest.mark.parametrize("damaged", [None, 5, "x", [], {"a": 5}, {"a": {"Name": "x"}}])
def test_what_a_game_stores_as_keys_opens_nothing_and_breaks_nothing(
    client, world, db, damaged, headers
):
    secret = new_secret()
    user = {**with_keys(make_user(), **{guid(): make_key(secret)}), "Keys": damaged}
    db.users.insert_one(user, bypass_document_validation=True)
    assert client.get("/api/v1/players", headers=bearer(secret)).status_code == 401
    assert client.get(f"{KEYS}?user={user['_id']}", headers=headers).json == {"Values": []}


def test_a_key_is_found_by_its_index(real_db, real_storage):
    real_db.users.insert_many(
        with_keys(make_user(), **{guid(): make_key(new_secret())}) for _ in range(20)
    )
    digest = real_db.users.find_one()["KeyDigests"][0]
    plan = real_storage.client[real_db.name].users.find({"KeyDigests": digest}).explain()
    assert "'indexName': 'key'" in str(plan["queryPlanner"]["winningPlan"])
    assert plan["executionStats"]["totalDocsExamined"] == 1


class TestBudget:
    def test_the_largest_quantity(self, client, headers, world):
        player = world.add_player()
        secret = made(client, headers, Budget={"LargestQuantity": 5})["Key"]
        assert give(client, player, secret, 5).status_code == 200
        refused = give(client, player, secret, 6)
        assert refused.status_code == 403
        assert "LargestQuantity" in refused.json["Message"]

    def test_the_items(self, client, headers, world):
        player = world.add_player()
        secret = made(client, headers, Budget={"Items": [ITEM]})["Key"]
        assert give(client, player, secret).status_code == 200
        refused = give(client, player, secret, item=OTHER)
        assert refused.status_code == 403
        assert "(Items)" in refused.json["Message"]

    def test_the_items_of_a_day_given_or_taken(self, client, headers, world):
        player = world.add_player()
        secret = made(client, headers, Budget={"ItemsPerDay": 10})["Key"]
        assert give(client, player, secret, 6).status_code == 200
        taken = client.post(
            f"/api/v1/players/{player['_id']}/items/take",
            json={"itemid": ITEM, "quantity": 3},
            headers=bearer(secret),
        )
        assert taken.status_code == 200
        refused = give(client, player, secret, 2)
        assert refused.status_code == 403
        assert "ItemsPerDay" in refused.json["Message"]
        assert give(client, player, secret, 1).status_code == 200
        assert client.get(KEYS, headers=headers).json["Values"][0]["UsedToday"] == 10

    def test_what_is_refused_or_repeated_costs_nothing(self, client, headers, world):
        player = world.add_player()
        secret = made(client, headers, Budget={"ItemsPerDay": 10})["Key"]
        once = {"Idempotency-Key": "order-1"}
        assert give(client, player, secret, 10, **once).status_code == 200
        again = give(client, player, secret, 10, **once)
        assert again.status_code == 200
        assert again.headers["Idempotency-Replayed"] == "true"
        assert give(client, player, secret, 1).status_code == 403
        other = made(client, headers, Name="other", Budget={"ItemsPerDay": 5})["Key"]
        for _ in range(3):
            refused = client.post(
                f"/api/v1/players/{player['_id']}/items/take",
                json={"itemid": OTHER, "quantity": 5},
                headers=bearer(other),
            )
            assert refused.status_code == 409
        assert give(client, player, other, 5).status_code == 200

    def test_an_undo_moves_items_too(self, client, headers, world):
        player = world.add_player()
        given = client.post(
            f"/api/v1/players/{player['_id']}/items/give",
            json={"itemid": ITEM, "quantity": 7},
            headers=headers,
        )
        assert given.status_code == 200
        entry = client.get(f"/api/v1/players/{player['_id']}/history", headers=headers).json[
            "Values"
        ][0]["Id"]
        small, large = (
            made(client, headers, Name=str(n), Scopes=["history.undo"], Budget={"ItemsPerDay": n})
            for n in (6, 7)
        )
        undo = f"/api/v1/history/{entry}/undo"
        assert client.post(undo, headers=bearer(small["Key"])).status_code == 403
        assert client.post(undo, headers=bearer(large["Key"])).status_code == 200

    @pytest.mark.parametrize("damaged", [5, {"ItemsPerDay": "x"}, {"Items": 5}])
    def test_one_that_cannot_be_read_allows_nothing(self, client, world, damaged):
        player = world.add_player()
        headers = world.key_headers(Budget=damaged)
        secret = headers["Authorization"].removeprefix("Bearer ")
        assert give(client, player, secret).status_code == 403
