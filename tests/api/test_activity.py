"""The log of a user or a player, from history and sign-ins."""

import json
from datetime import timedelta

import pytest

from app.core.permissions import Role
from app.users.oauth.store import RefreshTokens
from tests.applications import service
from tests.factories import NOW, make_entry, numbered_guid

LOGS = "/api/v1/logs"


@pytest.fixture
def get(client, as_role):
    headers = as_role(Role.API, Role.USERS_QUERY)
    return lambda path, **query: client.get(LOGS + path, headers=headers, query_string=query)


@pytest.fixture
def alice(world):
    return world.add_user(Name="Alice")


def test_the_log_of_a_player_has_all_of_its_changes(get, client, world, alice):
    hero = world.add_player(Name="Hero", UserId=alice["_id"])
    old = [make_entry(hero, Version=n, At=NOW + timedelta(seconds=n)) for n in range(1, 5)]
    world.db.history.insert_many(old)
    world.db.players.update_one({"_id": hero["_id"]}, {"$set": {"Version": 4}})
    headers = {**world.headers(), "X-Reason": "A%20gift"}
    body = {"itemid": numbered_guid(1), "quantity": 2}
    client.post("/api/v1/players/Hero/items/give", json=body, headers=headers)
    seen = []
    for page in range(3):
        answer = get("/player/hero/activity", page=page, pageSize=2).json
        assert (answer["Total"], answer["Page"], answer["PageSize"]) == (5, page, 2)
        assert answer["Count"] == len(answer["Values"])
        seen += answer["Values"]
    assert [line["Id"] for line in seen[1:]] == [entry["_id"] for entry in reversed(old)]
    newest = seen[0]
    assert (newest["UserId"], newest["PlayerId"]) == (alice["_id"], hero["_id"])
    assert (newest["Action"], newest["Peer"], newest["Ip"]) == ("give", "api", None)
    meta = json.loads(newest["Meta"])
    assert meta["Reason"] == "A gift"
    assert meta["Arguments"]["Quantity"] == 2


def test_the_log_of_a_user_has_its_sign_ins_once_each(get, world, alice, app):
    tokens = service(app, RefreshTokens)
    issued = [tokens.issue(alice["_id"], alice["PasswordVersion"]) for _ in range(3)]
    tokens.rotate(issued[0].token, lambda _: None)
    world.db.history.insert_one(make_entry(alice, "user", Operation="register"))
    answer = get("/user/Alice/activity", pageSize=100).json
    assert answer["Total"] == 4
    actions = [line["Action"] for line in answer["Values"]]
    assert actions == ["sign-in", "sign-in", "sign-in", "register"]
    assert len({line["Id"] for line in answer["Values"]}) == 4
    assert not any(sign_in.chain in str(answer) for sign_in in issued)
    assert {line["PlayerId"] for line in answer["Values"]} == {None}
