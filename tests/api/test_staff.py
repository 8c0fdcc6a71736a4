"""Roles, and who has them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from app.cli.accounts import user as user_command
from app.cli.staff import staff as staff_command
from app.core.permissions import SHIPPED, Permission, Role
from app.storage.client import Storage
from app.storage.events import Feed
from app.users.staff.domain import LastAdministrator
from tests.applications import service
from tests.callers import Caller
from tests.factories import guid, make_factor
from tests.mongod import on_mongodb

ROLE = {"Permissions": ["players.read", "staff.manage"], "Limits": None}


@pytest.fixture
def person(client, world):
    """Return somebody with these roles, and a second factor."""

    def person(*roles, **fields):
        fields = {"SecondFactor": make_factor(), "Roles": list(roles), **fields}
        user = world.add_user("secret", **fields)
        return Caller(client, world.headers(user=user), "/api/v1/", user)

    return person


def set_roles(caller, user, *names, status=200):
    return caller(f"PUT staff/{user['_id']}/roles", {"Roles": list(names)}, status=status)


def test_the_shipped_roles_are_there_and_can_be_changed(app, staff):
    assert [role["Name"] for role in staff("GET roles").json["Values"]] == list(SHIPPED)
    changed = {"Permissions": ["history.read"], "Limits": {"ItemsPerDay": 7}}
    assert staff("PUT roles/viewer", changed).json["Limits"]["ItemsPerDay"] == 7
    assert staff("GET roles/viewer").json["Permissions"] == ["history.read"]
    assert staff("DELETE roles/viewer").json == {"Name": "viewer"}
    staff("GET roles/viewer", status=404)
    staff("PUT roles/viewer", changed, status=404)
    staff("DELETE roles/viewer", status=404)
    assert staff("POST roles", {"Name": "viewer", **changed}).json["Name"] == "viewer"
    entries = staff("GET history").json["Values"]
    operations = [entry["Operation"] for entry in entries if entry["Subject"]["Kind"] == "role"]
    assert operations == ["create-role", "remove-role", "change-role"]


def test_a_role_is_made_once_and_bad_ones_are_refused(staff):
    staff("POST roles", {"Name": "events", **ROLE})
    again = staff("POST roles", {"Name": "events", **ROLE}, status=409)
    assert again.json["Message"] == "There is already a role with the name 'events'."
    staff("POST roles", {"Name": "support", **ROLE}, status=409)
    for name in ("", "Events", "a b", "-a", "x" * 41, "a:b"):
        staff("POST roles", {"Name": name, **ROLE}, status=400)
    unknown = staff("POST roles", {"Name": "a", "Permissions": ["players.fly"]}, status=400)
    assert "players.fly" in unknown.json["Message"]
    for limit in (0, -1, "many", 2**40):
        staff("PUT roles/events", {**ROLE, "Limits": {"ItemsPerDay": limit}}, status=400)


def test_who_mutes_by_a_role_kicks_and_notes_are_on_accounts_too(staff):
    wanted = {**ROLE, "Permissions": ["moderate.mute", "notes.write"]}
    for request, more in (("POST roles", {"Name": "helper"}), ("PUT roles/helper", {})):
        made = staff(request, {**wanted, **more}).json["Permissions"]
        assert {*made} == {"moderate.kick", "moderate.mute", "notes.users", "notes.write"}
    kicks = {**ROLE, "Permissions": ["moderate.kick"]}
    assert staff("PUT roles/helper", kicks).json["Permissions"] == ["moderate.kick"]


def test_undoing_own_changes_is_not_undoing_those_of_others(staff, person, world):
    player = world.add_player()
    item = world.add_object(Type="item")["_id"]
    body, path = {"itemid": item, "quantity": 1}, f"players/{player['_id']}/items/give"
    support = person("support")
    own, other = (
        caller(f"POST {path}", body).headers["X-History-Id"] for caller in (support, staff)
    )
    support(f"POST history/{own}/undo")
    refused = support(f"POST history/{other}/undo", status=403)
    assert "'undo.any'" in refused.json["Message"]
    person("senior-support")(f"POST history/{other}/undo")


def test_nobody_gives_what_they_do_not_have(staff, person, world):
    staff("POST roles", {"Name": "lead", **ROLE, "Limits": {"ItemsPerDay": 10}})
    lead, somebody = person("lead"), world.add_user()
    refused = set_roles(lead, somebody, "support", status=403)
    assert refused.json["Message"].startswith("You cannot give what you do not have yourself")
    lead("PUT roles/lead", {**ROLE, "Permissions": [*ROLE["Permissions"], "approve"]}, status=403)
    lead("POST roles", {"Name": "more", "Permissions": ["items.move"]}, status=403)
    set_roles(lead, lead.user, "lead", "administrator", status=403)
    more = {"Permissions": [*ROLE["Permissions"], "batches.run"], "Limits": {"ItemsPerDay": 10}}
    staff("PUT roles/lead", more)
    for limit, status in ((None, 403), (11, 403), (10, 200)):
        runner = {"Permissions": ["batches.run"], "Limits": {"ItemsPerDay": limit}}
        staff("PUT roles/economy", runner)
        assert set_roles(lead, somebody, "economy", status=status), limit


def test_nobody_changes_the_sign_in_of_somebody_who_may_do_more(staff, person, world):
    managing = ["users.read", "users.manage", "keys.manage", "staff.manage"]
    staff("POST roles", {"Name": "clerk", "Permissions": managing})
    clerk = person("clerk")
    world.add_user("secret", Roles=["administrator"], Name="Boss")
    asked = [
        ("POST keys?user=Boss", {"Name": "thief", "Scopes": ["players.read"]}),
        ("PUT staff/Boss/roles", {"Roles": []}),
        ("POST staff/Boss/disable", None),
    ]
    for request, body in asked:
        refused = clerk(request, body, status=403)
        assert refused.json["Code"] == "NOT_PEER", request
    manager = world.add_user("secret", tuple(Role), Name="Manager")
    for what, new in (("password", "a" * 64), ("email", "thief@example.com")):
        refused = clerk(f"POST users/Manager/manage/{what}/change", {"new": new}, status=403)
        assert refused.json["Code"] == "NOT_PEER"
    reset = {"Code": "ABCDEFGH", "ExpiresAt": datetime(2100, 1, 1), "Failures": 0}
    world.db.users.update_one({"_id": manager["_id"]}, {"$set": {"Reset": reset}})
    assert "ABCDEFGH" not in clerk("GET users/Manager").text


def test_a_key_manages_no_staff(client, world):
    key = Caller(client, world.key_headers(), "/api/v1/")
    for request in ("GET roles", "GET staff", "DELETE roles/viewer"):
        assert key(request, status=403).json["Code"] == "KEY_NOT_ALLOWED"


def test_the_last_administrator_stays(staff, person, world):
    other = person("administrator")
    clerk = staff.user["_id"]
    world.db.users.update_one({"_id": clerk}, {"$set": {"PasswordHash": "a hash"}})
    set_roles(staff, other.user)
    set_roles(staff, other.user, "administrator")
    world.db.users.update_one({"_id": clerk}, {"$set": {"Power.ApiUserManagement": False}})
    for refused in (
        set_roles(other, other.user, status=409),
        other(f"POST staff/{other.user['_id']}/disable", status=409),
        other("DELETE roles/administrator", status=409),
        other("PUT roles/administrator", {"Permissions": ["players.read"]}, status=409),
    ):
        assert refused.json["Code"] == "LAST_ADMINISTRATOR"
    set_roles(other, world.add_user(), "administrator")
    set_roles(other, other.user, status=409)  # an invited account cannot sign in yet
    set_roles(other, world.add_user("secret"), "administrator")
    set_roles(other, other.user)


def test_a_disabled_account_gets_in_nowhere(client, staff, person, world):
    viewer = person("viewer")
    viewer("GET players")
    disabled = staff(f"POST staff/{viewer.user['_id']}/disable").json
    assert (disabled["Roles"], disabled["IsDisabled"]) == (["viewer"], True)
    viewer("GET players", status=401)
    staff(f"POST staff/{viewer.user['_id']}/enable")
    # Its sign-ins have ended; keys work again.
    viewer("GET players", status=401)
    now = world.db.users.find_one({"_id": viewer.user["_id"]})
    Caller(client, world.headers(user=now), "/api/v1/")("GET players")


def test_staff_are_all_who_have_a_role(staff, person, world):
    world.add_user()
    viewer, boss = person("viewer", Name="Anna"), person("administrator", Name="Zoe")
    listed = {
        one["Name"]: one["Roles"] or one["Power"] for one in staff("GET staff").json["Values"]
    }
    roles = [role.value for role in Role]
    assert listed == {"Anna": ["viewer"], "Clerk": roles, "Zoe": ["administrator"]}
    assert boss("GET staff").json == staff("GET staff").json
    viewer("GET staff", status=403)


@on_mongodb
def test_administrators_who_remove_each_other_leave_one(app, world):
    """Each removes the other at the same time, again and again."""
    fields = {"Roles": ["administrator"], "SecondFactor": make_factor()}
    pairs = [world.add_user("secret", **fields) for _ in range(2)]
    callers = [
        Caller(app.test_client(), world.headers(user=user), "/api/v1/", user) for user in pairs
    ]

    def remove(turn):
        caller, other = callers[turn], pairs[1 - turn]
        return set_roles(caller, other, status=None).status_code

    for _ in range(10):
        with ThreadPoolExecutor(2) as pool:
            statuses = sorted(pool.map(remove, range(2)))
        assert statuses.count(200) <= 1, statuses
        left = world.db.users.count_documents({"Roles": "administrator"})
        assert left >= 1
        world.db.users.update_many({}, {"$set": {"Roles": ["administrator"]}})


def test_every_permission_is_in_a_shipped_role():
    assert {name for names, _ in SHIPPED.values() for name in names} == {
        permission.value for permission in Permission
    }


def test_the_last_administrator_is_not_banned(person, world):
    boss = person("administrator")
    path = f"POST users/{boss.user['_id']}/admin/ban"
    assert boss(path, {"duration": 1}, status=409).json["Code"] == "LAST_ADMINISTRATOR"
    other = world.add_user("secret", Roles=["administrator"])
    boss(f"POST users/{other['_id']}/admin/ban", {"duration": 1})


def test_an_invitation_is_for_its_receiver_alone(staff, db):
    staff("POST staff", {"Name": "Newbie", "Email": "n@example.com", "Roles": ["viewer"]})
    assert db.users.find_one({"Name": "Newbie"})["Invitation"]["Code"]
    assert staff("GET users/Newbie").json["PasswordResetCode"] is None


def test_somebody_is_rescued_whatever_the_roles_are_and_nobody_else_gains(app, staff, world, db):
    world.add_user("secret", roles=tuple(Role), Name="Keeper")
    world.add_user("secret", Name="Other", Roles=["administrator"])
    world.add_user("secret", Name="Ann", Roles=["administrator", "gone"])

    def rescue():
        done = app.test_cli_runner().invoke(staff_command, ["rescue", "Ann"])
        assert done.exit_code == 0, done.output
        return db.users.find_one({"Name": "Ann"})["Roles"]

    assert rescue() == ["administrator"]
    staff("PUT roles/administrator", {"Permissions": ["players.read"]})
    _, made = rescue()
    assert made.startswith("rescue-")
    staff("DELETE roles/administrator")
    assert rescue() == [made]
    staff(f"DELETE roles/{made}")
    assert rescue() not in ([made], [])
    assert db.roles.find_one({"_id": "administrator"})["Permissions"] == []


def test_the_last_administrator_is_not_erased(app, world):
    world.add_user("secret", Name="Boss", Roles=["administrator"])
    erase = ["erase", "Boss", "--confirm", "Boss"]
    refused = app.test_cli_runner().invoke(user_command, erase)
    assert isinstance(refused.exception, LastAdministrator)
    world.add_user("secret", Name="Other", Roles=["administrator"])
    assert app.test_cli_runner().invoke(user_command, erase).exit_code == 0


def test_a_key_is_no_peer_beyond_its_scopes(client, staff, world):
    """Somebody may have made it before its account got a role."""
    world.add_user("secret", Name="Boss", Roles=["administrator"])
    world.add_user("secret", Name="Player")
    password = {"new": "a" * 64}
    key = Caller(client, world.key_headers("users.manage", "users.change"), "/api/v1/")
    key("POST users/Player/manage/password/change", password)
    mute = {"duration": 1, "reason": "x"}
    refused = key("POST users/Boss/admin/mute", mute, status=403)
    assert refused.json["Code"] == "NOT_PEER"
    staff("POST users/Boss/admin/mute", mute)


def test_a_key_with_a_budget_is_no_peer_of_who_moves_items(client, world):
    world.add_user("secret", Name="Rich", roles=(Role.API,))
    world.add_user("secret", Name="Reader", Roles=["viewer"])
    password, budget = {"new": "a" * 64}, {"LargestQuantity": 5, "ItemsPerDay": 20}
    for more, status in (({}, 200), ({"Budget": budget}, 403)):
        key = Caller(client, world.key_headers(**more), "/api/v1/")
        key("POST users/Rich/manage/password/change", password, status)
        key("POST users/Reader/admin/mute", {"duration": 1, "reason": "x"})


def test_a_key_for_somebody_else_has_scopes_of_its_maker_alone(person, staff, world):
    """Otherwise its maker would know a secret that may do more, once the account has a role."""
    held = ["users.read", "users.manage", "keys.manage", "notes.write"]
    staff("POST roles", {"Name": "keeper", "Permissions": held})
    keeper, path = person("keeper"), f"keys?user={world.add_user('secret')['_id']}"
    keeper(f"POST {path}", {"Name": "fine", "Scopes": ["notes.write"]})
    refused = keeper(f"POST {path}", {"Name": "more", "Scopes": ["players.change"]}, status=403)
    assert refused.json["Code"] == "MAY_NOT_GIVE"
    key = staff(f"POST {path}", {"Name": "more", "Scopes": ["items.move"]}).json["Id"]
    rotate = f"POST {path}".replace("keys", f"keys/{key}/rotate")
    assert keeper(rotate, status=403).json["Code"] == "MAY_NOT_GIVE"
    keeper("POST keys", {"Name": "own", "Scopes": ["players.change"]})


def test_a_key_for_somebody_else_stays_within_the_limits_of_its_maker(person, staff, world):
    held = ["users.read", "users.manage", "keys.manage", "items.move", "batches.run", "notes.write"]
    limits = {"LargestQuantity": 10, "ItemsPerDay": 100, "RowsPerBatch": 5}
    staff("POST roles", {"Name": "keeper", "Permissions": held, "Limits": limits})
    keeper, path = person("keeper"), f"keys?user={world.add_user('secret')['_id']}"
    budget = {"LargestQuantity": 10, "ItemsPerDay": 100}
    for number, (scope, given, status) in enumerate(
        [
            ("items.move", None, 403),
            ("batches.run", None, 403),
            # Several of them would together move more.
            ("items.move", budget, 403),
            ("notes.write", None, 200),
        ]
    ):
        key = {"Name": f"k{number}", "Scopes": [scope], "Budget": given}
        made = keeper(f"POST {path}", key, status).json
        assert made.get("Code") == ("MAY_NOT_GIVE" if status == 403 else None), key


def test_nobody_erases_somebody_who_may_do_more(staff, person, world):
    staff("POST roles", {"Name": "privacy", "Permissions": ["users.read", "privacy.erase"]})
    world.add_user(Name="Boss", Roles=["administrator"])
    refused = person("privacy")("POST users/Boss/erase", {"Confirm": "Boss"}, status=403)
    assert refused.json["Code"] == "NOT_PEER"


def test_a_key_that_undoes_its_own_changes_runs_no_batch_that_undoes_others(client, staff, world):
    player = world.add_player(Name="Ann")
    body = {"itemid": guid(), "quantity": 1}
    other = Caller(client, world.headers(), "/api/v1/")
    entry = other(f"POST players/{player['_id']}/items/give", body).headers["X-History-Id"]
    planned = staff("POST batches", {"Rows": [{"Operation": "undo", "Id": entry}]}).json["Id"]
    for scope, status in (("undo.own", 403), ("undo.any", 200)):
        scopes = ["batches.run", "players.read", "undo.own", scope]
        made = staff("POST keys", {"Name": scope, "Scopes": scopes}).json
        key = Caller(client, {"Authorization": f"Bearer {made['Key']}"}, "/api/v1/")
        key(f"POST batches/{planned}/advance", status=status)


def test_a_row_that_undoes_the_change_of_a_role_reveals_nothing(staff, person):
    known = staff("PUT roles/viewer", {"Permissions": ["history.read"]}).headers["X-History-Id"]
    seen = []
    for caller in (person("senior-support"), person("support")):
        rows = {"Rows": [{"Operation": "undo", "Id": known}]}
        batch = caller("POST batches", rows).json["Id"]
        (row,) = caller(f"GET batches/{batch}/rows").json["Values"]
        seen.append((row["Verdict"], row["Subject"], row["Why"]))
    assert len(set(seen)) == 1
    assert seen[0][:2] == ("refused", None)
    assert "'staff.manage'" in seen[0][2]
    # Somebody who sees the change plans a batch that others do not see.
    planned = staff("POST batches", {"Rows": [{"Operation": "undo", "Id": known}]}).json["Id"]
    assert person("support")(f"GET batches/{planned}/rows", status=403)
    assert planned not in [one["Id"] for one in person("support")("GET batches").json["Values"]]
    assert planned in [one["Id"] for one in staff("GET batches").json["Values"]]


def test_nobody_changes_or_removes_a_role_that_may_do_more(staff, person):
    """Otherwise they could take it from its holders, give it to themselves, and wait."""
    staff("POST roles", {"Name": "lead", "Permissions": ["staff.manage"]})
    lead = person("lead")
    for request, body in (
        ("PUT roles/administrator", {"Permissions": ["staff.manage"]}),
        ("PUT roles/support", {"Permissions": SHIPPED["support"][0], "Limits": {}}),
        ("DELETE roles/economy", None),
    ):
        assert lead(request, body, status=403).json["Code"] == "MAY_NOT_GIVE", request


def test_nobody_lifts_the_limits_of_power_by_its_role(app, staff, person):
    """The role that limits Power need not move items itself."""
    app.config["POWER_ROLE"] = "viewer"
    limits = {"LargestQuantity": 10, "ItemsPerDay": 10, "RowsPerBatch": 10}
    everything = [one.value for one in Permission]
    staff("POST roles", {"Name": "lead", "Permissions": everything, "Limits": limits})
    lead, free = person("lead"), {"Permissions": ["players.read"], "Limits": None}
    assert lead("PUT roles/viewer", free, status=403).json["Code"] == "MAY_NOT_GIVE"
    lead("PUT roles/viewer", {**free, "Limits": limits})
    lead("DELETE roles/viewer")
    made = {**free, "Name": "viewer"}
    assert lead("POST roles", made, status=403).json["Code"] == "MAY_NOT_GIVE"
    lead("POST roles", {**made, "Name": "guests"})
    staff("POST roles", made)


def test_a_limit_is_a_part_of_what_somebody_may_do(staff, person, world):
    more = [*SHIPPED["economy"][0], "users.read", "users.manage", "keys.manage"]
    staff("POST roles", {"Name": "low", "Permissions": more, "Limits": {"LargestQuantity": 10}})
    world.add_user("secret", Name="Rich", Roles=["economy"])
    key = {"Name": "thief", "Scopes": ["items.move"]}
    refused = person("low")("POST keys?user=Rich", key, status=403)
    assert refused.json["Code"] == "NOT_PEER"


@pytest.mark.parametrize("moving", ["game.act", "players.delete", "privacy.erase", "undo.own"])
def test_nobody_gives_or_takes_over_what_moves_items_without_their_limits(
    staff, person, world, moving
):
    held = ["staff.manage", "users.manage", "users.read", "keys.manage", "items.move", moving]
    staff("POST roles", {"Name": "lead", "Permissions": held, "Limits": {"LargestQuantity": 100}})
    free = {"Name": "free", "Permissions": [moving]}
    staff("POST roles", free)
    world.add_user("secret", Name="Free", Roles=["free"])
    world.add_user("secret", Name="Other")
    lead = person("lead")
    for request, body, code in (
        ("POST roles", {**free, "Name": "more"}, "MAY_NOT_GIVE"),
        (
            "POST roles",
            {**free, "Name": "more", "Limits": {"LargestQuantity": 101}},
            "MAY_NOT_GIVE",
        ),
        ("PUT staff/Other/roles", {"Roles": ["free"]}, "MAY_NOT_GIVE"),
        ("POST keys?user=Free", {"Name": "thief", "Scopes": ["players.read"]}, "NOT_PEER"),
    ):
        assert lead(request, body, status=403).json["Code"] == code, request
    lead("POST roles", {**free, "Name": "more", "Limits": {"LargestQuantity": 100}})


def test_staff_are_banned_by_peers_alone(person, world, db):
    world.add_user("secret", Name="Senior", Roles=["senior-support"])
    world.add_user("secret", Name="Player")
    moderator = person("moderator")
    moderator("POST users/Player/admin/ban", {"duration": 1})
    for state in ({}, {"IsDisabled": True}):
        db.users.update_one({"Name": "Senior"}, {"$set": state or {"IsDisabled": False}})
        refused = moderator("POST users/Senior/admin/ban", {"duration": 1}, status=403)
        assert refused.json["Code"] == "NOT_PEER", state


def test_a_role_is_not_made_again_for_those_who_had_it(staff, person):
    staff("POST roles", {"Name": "events", "Permissions": ["players.read"]})
    holder = person("events")
    staff("DELETE roles/events")
    again = {"Name": "events", "Permissions": ["items.move"]}
    assert staff("POST roles", again, status=409).json["Code"] == "ROLE_HELD"
    set_roles(staff, holder.user)
    staff("POST roles", again)


def test_history_of_roles_is_for_those_who_manage_staff(app, staff, person):
    changed = staff("PUT roles/viewer", {"Permissions": ["history.read"]})
    entry = changed.headers["X-History-Id"]
    Feed(service(app, Storage)).catch_up()
    staff(f"GET history/{entry}")
    assert [event["Id"] for event in staff("GET events").json["Values"]] == [entry]
    viewer = person("viewer")
    viewer(f"GET history/{entry}", status=403)
    for path in ("history", "events"):
        assert viewer(f"GET {path}").json["Values"] == [], path
