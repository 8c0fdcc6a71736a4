"""The log of a user or a player, from history and sign-ins."""

import json
from datetime import timedelta

from app.users.oauth.store import RefreshTokens
from tests.applications import service
from tests.factories import NOW, make_entry, numbered_guid


def test_the_log_of_a_player_has_all_of_its_changes(staff, world):
    hero = world.add_player(Name="Hero", Version=4)
    old = [make_entry(hero, Version=n, At=NOW + timedelta(seconds=n)) for n in range(1, 5)]
    world.db.history.insert_many(old)
    body = {"itemid": numbered_guid(1), "quantity": 2}
    staff("POST players/Hero/items/give", body, X_Reason="A%20gift")
    seen = []
    for page in range(3):
        answer = staff(f"GET logs/player/hero/activity?page={page}&pageSize=2").json
        assert (answer["Total"], answer["Page"], answer["PageSize"]) == (5, page, 2)
        assert answer["Count"] == len(answer["Values"])
        seen += answer["Values"]
    assert [line["Id"] for line in seen[1:]] == [entry["_id"] for entry in reversed(old)]
    newest = seen[0]
    assert (newest["UserId"], newest["PlayerId"]) == (hero["UserId"], hero["_id"])
    assert (newest["Action"], newest["Peer"], newest["Ip"]) == ("give", "api", None)
    meta = json.loads(newest["Meta"])
    assert (meta["Reason"], meta["Arguments"]["Quantity"]) == ("A gift", 2)


def test_the_log_of_a_user_has_its_sign_ins_once_each(staff, world, app):
    user, tokens = world.add_user(Name="Alice"), service(app, RefreshTokens)
    issued = [tokens.issue(user["_id"], user["PasswordVersion"]) for _ in range(3)]
    tokens.rotate(issued[0].token, lambda _: None)
    world.db.history.insert_one(make_entry(user, "user", Operation="register"))
    answer = staff("GET logs/user/Alice/activity?pageSize=100").json
    lines = answer["Values"]
    assert answer["Total"] == 4
    assert [line["Action"] for line in lines] == ["sign-in", "sign-in", "sign-in", "register"]
    assert len({line["Id"] for line in lines}) == 4
    assert {line["PlayerId"] for line in lines} == {None}
    assert not any(sign_in.chain in str(answer) for sign_in in issued)
