"""Roles, and who has them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest

from app.cli.accounts import user as user_command
from app.cli.staff import staff as staff_command
from app.core.permissions import SHIPPED, Permission, Role
from app.storage.client import Storage
from app.storage.events import Feed
from app.users.staff.domain import LastAdministrator
from app.users.staff.store import Roles
from tests.applications import service
from tests.callers import Caller, bearer
from tests.factories import guid, make_factor
from tests.mongod import on_mongodb

READS = {"Permissions": ["history.read"]}


@pytest.fixture
def colleague(caller_of, world):
    """Return somebody with these roles, and a second factor."""

    def colleague(*roles, **fields):
        user = world.add_user("secret", SecondFactor=make_factor(), Roles=list(roles), **fields)
        return caller_of(user)

    return colleague


@pytest.fixture
def lead(person):
    """Somebody who may do everything but see the health of the service."""
    return person("Lead", [one for one in Permission if one is not Permission.HEALTH_READ])


def test_the_shipped_roles_are_there_and_can_be_changed(staff):
    assert [role["Name"] for role in staff("GET roles").json["Values"]] == list(SHIPPED)
    changed = {**READS, "Limits": {"ItemsPerDay": 7}}
    assert staff("PUT roles/viewer", changed).json["Limits"]["ItemsPerDay"] == 7
    assert staff("GET roles/viewer").json["Permissions"] == ["history.read"]
    assert staff("DELETE roles/viewer").json == {"Name": "viewer"}
    for gone in ("GET", "PUT", "DELETE"):
        staff(f"{gone} roles/viewer", changed if gone == "PUT" else None, 404)
    assert staff("POST roles", {"Name": "viewer", **changed}).json["Name"] == "viewer"


def test_a_role_is_made_once_and_bad_ones_are_refused(staff):
    staff("POST roles", {"Name": "events", **READS})
    again = staff("POST roles", {"Name": "events", **READS}, 409)
    assert again.json["Message"] == "There is already a role with the name 'events'."
    staff("POST roles", {"Name": "support", **READS}, 409)
    for name in ("", "Events", "a b", "-a", "x" * 41, "a:b"):
        staff("POST roles", {"Name": name, **READS}, 400)
    unknown = staff("POST roles", {"Name": "a", "Permissions": ["players.fly"]}, 400)
    assert "players.fly" in unknown.json["Message"]
    for limit in (0, -1, "many", 2**40):
        staff("PUT roles/events", {**READS, "Limits": {"ItemsPerDay": limit}}, 400)


def test_who_mutes_by_a_role_kicks_and_notes_are_on_accounts_too(staff):
    wanted = {"Permissions": ["moderate.mute", "notes.write"]}
    for request in ("POST roles", "PUT roles/helper"):
        name = {"Name": "helper"} if "POST" in request else {}
        made = staff(request, {**wanted, **name}).json["Permissions"]
        assert {*made} == {"moderate.kick", "moderate.mute", "notes.users", "notes.write"}
    kicks = {"Permissions": ["moderate.kick"]}
    assert staff("PUT roles/helper", kicks).json == staff("GET roles/helper").json
    assert staff("GET roles/helper").json["Permissions"] == ["moderate.kick"]


def test_undoing_own_changes_is_not_undoing_those_of_others(staff, colleague, player):
    give, body = "POST players/Aladric/items/give", {"itemid": guid(), "quantity": 1}
    support = colleague("support")
    own, other = (caller(give, body).headers["X-History-Id"] for caller in (support, staff))
    support(f"POST history/{own}/undo")
    refused = support(f"POST history/{other}/undo", status=403)
    assert "'undo.any'" in refused.json["Message"]
    colleague("senior-support")(f"POST history/{other}/undo")


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        ("PUT staff/Other/roles", {"Roles": ["support"]}),
        ("PUT staff/Lead/roles", {"Roles": ["role of Lead", "administrator"]}),
        ("POST roles", {"Name": "more", "Permissions": ["items.move"]}),
        # Otherwise they could take it from its holders, give it to themselves, and wait.
        ("PUT roles/administrator", {"Permissions": ["staff.manage"]}),
        ("PUT roles/support", {"Permissions": SHIPPED["support"][0], "Limits": {}}),
        ("DELETE roles/economy", None),
    ],
)
def test_nobody_gives_what_they_do_not_have(person, world, request_, body):
    lead = person("Lead", ["players.read", "staff.manage"])
    world.add_user(Name="Other")
    refused = lead(request_, body, 403).json
    assert refused["Code"] == "MAY_NOT_GIVE"
    assert refused["Message"].startswith("You cannot give what you do not have yourself")


MOVING = ["batches.run", "game.act", "players.delete", "privacy.erase", "undo.own"]


@pytest.mark.parametrize("moving", MOVING)
def test_nobody_gives_or_takes_over_what_moves_items_without_their_limits(
    staff, person, world, moving
):
    managing = ["staff.manage", "users.manage", "users.read", "keys.manage", "items.move"]
    lead = person("Lead", [*managing, moving], LargestQuantity=100)
    staff("POST roles", {"Name": "free", "Permissions": [moving]})
    world.add_user("secret", Name="Free", Roles=["free"])
    world.add_user("secret", Name="Other")
    key = {"Name": "thief", "Scopes": ["players.read"]}
    assert lead("POST keys?user=Free", key, 403).json["Code"] == "NOT_PEER"
    for limit, status in ((None, 403), (101, 403), (100, 200)):
        role = {"Permissions": [moving], "Limits": {"LargestQuantity": limit}}
        lead("POST roles", {"Name": f"up-to-{limit}".lower(), **role}, status)
        staff("PUT roles/free", role)
        lead("PUT staff/Other/roles", {"Roles": ["free"]}, status)
        staff("PUT staff/Other/roles", {"Roles": []})


def test_nobody_lifts_the_limits_of_power_by_its_role(app, staff, person):
    """The role that limits Power need not move items itself."""
    app.config["POWER_ROLE"] = "viewer"
    limits = {"LargestQuantity": 10, "ItemsPerDay": 10, "RowsPerBatch": 10}
    lead = person("Lead", **limits)
    assert lead("PUT roles/viewer", READS, 403).json["Code"] == "MAY_NOT_GIVE"
    lead("PUT roles/viewer", {**READS, "Limits": limits})
    lead("DELETE roles/viewer")
    made = {**READS, "Name": "viewer"}
    assert lead("POST roles", made, 403).json["Code"] == "MAY_NOT_GIVE"
    lead("POST roles", {**made, "Name": "guests"})
    staff("POST roles", made)


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        ("POST keys?user=Boss", {"Name": "thief", "Scopes": ["players.read"]}),
        ("PUT staff/Boss/roles", {"Roles": []}),
        ("POST staff/Boss/disable", None),
        ("POST users/Boss/erase", {"Confirm": "Boss"}),
        ("POST users/Boss/admin/ban", {"duration": 1}),
        ("POST users/Off/admin/ban", {"duration": 1}),
        ("POST users/Manager/manage/password/change", {"new": "a" * 64}),
        ("POST users/Manager/manage/email/change", {"new": "thief@example.com"}),
    ],
)
def test_nobody_changes_the_sign_in_of_somebody_who_may_do_more(lead, world, request_, body):
    world.add_user("secret", Roles=["administrator"], Name="Boss")
    world.add_user("secret", Roles=["administrator"], Name="Off", IsDisabled=True)
    world.add_user("secret", tuple(Role), Name="Manager")
    assert lead(request_, body, 403).json["Code"] == "NOT_PEER"


def test_the_last_administrator_stays(app, staff, colleague, world):
    boss = colleague("administrator", Name="Boss")
    erase = ["erase", "Boss", "--confirm", "Boss"]
    for request, body in (
        ("PUT staff/Boss/roles", {"Roles": []}),
        ("POST staff/Boss/disable", None),
        ("POST users/Boss/admin/ban", {"duration": 1}),
        ("DELETE roles/administrator", None),
        ("PUT roles/administrator", {"Permissions": ["players.read"]}),
    ):
        assert boss(request, body, 409).json["Code"] == "LAST_ADMINISTRATOR"
        # One who is invited cannot sign in yet, as Clerk, who has no password.
        world.add_user(Roles=["administrator"])
    refused = app.test_cli_runner().invoke(user_command, erase)
    assert isinstance(refused.exception, LastAdministrator)
    world.add_user("secret", Roles=["administrator"])
    assert app.test_cli_runner().invoke(user_command, erase).exit_code == 0


def test_a_disabled_account_gets_in_nowhere(staff, caller_of, colleague, world):
    viewer = colleague("viewer", Name="Anna")
    viewer("GET players")
    disabled = staff("POST staff/Anna/disable").json
    assert (disabled["Roles"], disabled["IsDisabled"]) == (["viewer"], True)
    viewer("GET players", status=401)
    staff("POST staff/Anna/enable")
    # Its sign-ins have ended; it may sign in again.
    viewer("GET players", status=401)
    caller_of(world.db.users.find_one({"Name": "Anna"}))("GET players")


def test_staff_are_all_who_have_a_role(staff, colleague, world):
    world.add_user()
    viewer, boss = colleague("viewer", Name="Anna"), colleague("administrator", Name="Zoe")
    listed = staff("GET staff").json
    assert [(one["Name"], one["Roles"] or one["Power"]) for one in listed["Values"]] == [
        ("Anna", ["viewer"]),
        ("Clerk", [role.value for role in Role]),
        ("Zoe", ["administrator"]),
    ]
    assert boss("GET staff").json == listed
    viewer("GET staff", status=403)


@on_mongodb
def test_administrators_who_remove_each_other_leave_one(
    app, make_app, settings, world, monkeypatch
):
    """In two workers, each sees the other before either is removed, unless they take turns."""
    both, plain = Barrier(2), Roles.administrators

    def together(self):
        with suppress(BrokenBarrierError):
            both.wait(1)
        return plain(self)

    monkeypatch.setattr(Roles, "administrators", together)
    fields = {"Roles": ["administrator"], "SecondFactor": make_factor()}
    pair = [world.add_user("secret", **fields) for _ in range(2)]
    workers = zip((app, make_app(settings)), pair, strict=True)
    callers = [
        Caller(worker.test_client(), world.headers(user=user), "/api/v1/")
        for worker, user in workers
    ]

    def remove(turn):
        request = f"PUT staff/{pair[1 - turn]['_id']}/roles"
        return callers[turn](request, {"Roles": []}, None).status_code

    with ThreadPoolExecutor(2) as pool:
        statuses = [*pool.map(remove, range(2))]
    assert statuses.count(200) == world.db.users.count_documents({"Roles": "administrator"}) == 1


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


def test_a_key_with_a_budget_is_no_peer_of_who_moves_items(with_key, world):
    world.add_user("secret", Name="Rich", roles=(Role.API,))
    world.add_user("secret", Name="Reader", Roles=["viewer"])
    budget = {"LargestQuantity": 5, "ItemsPerDay": 20}
    for more, status in (({}, 200), ({"Budget": budget}, 403)):
        key = with_key(**more)
        key("POST users/Rich/manage/password/change", {"new": "a" * 64}, status)
        key("POST users/Reader/admin/mute", {"duration": 1})


LIMITS = {"LargestQuantity": 10, "ItemsPerDay": 100, "RowsPerBatch": 5}


def test_a_key_for_somebody_else_does_no_more_than_its_maker(person, staff, world):
    """Otherwise its maker would know a secret that may do more, once the account has a role."""
    managing = ["users.read", "users.manage", "keys.manage", "notes.write"]
    keeper = person("Keeper", [*managing, "items.move", "batches.run"], **LIMITS)
    world.add_user("secret", Name="Other")
    for number, (scope, budget, status) in enumerate(
        [
            ("players.change", None, 403),
            ("items.move", None, 403),
            ("batches.run", None, 403),
            # Several of them would together move more.
            ("items.move", {"LargestQuantity": 10, "ItemsPerDay": 100}, 403),
            ("notes.write", None, 200),
        ]
    ):
        key = {"Name": f"k{number}", "Scopes": [scope], "Budget": budget}
        made = keeper("POST keys?user=Other", key, status).json
        assert made.get("Code") == ("MAY_NOT_GIVE" if status == 403 else None), key
    more = staff("POST keys?user=Other", {"Name": "more", "Scopes": ["items.move"]}).json
    refused = keeper(f"POST keys/{more['Id']}/rotate?user=Other", status=403).json
    assert refused["Code"] == "MAY_NOT_GIVE"
    keeper("POST keys", {"Name": "own", "Scopes": ["players.change"]})


def test_a_key_that_undoes_its_own_changes_runs_no_batch_that_undoes_others(
    client, staff, person, player
):
    body = {"itemid": guid(), "quantity": 1}
    entry = person()("POST players/Aladric/items/give", body).headers["X-History-Id"]
    planned = staff("POST batches", {"Rows": [{"Operation": "undo", "Id": entry}]}).json["Id"]
    for scope, status in (("undo.own", 403), ("undo.any", 200)):
        scopes = ["batches.run", "players.read", "undo.own", scope]
        made = staff("POST keys", {"Name": scope, "Scopes": scopes}).json
        key = Caller(client, bearer(made["Key"]), "/api/v1/")
        key(f"POST batches/{planned}/advance", status=status)


def test_a_row_that_undoes_the_change_of_a_role_reveals_nothing(staff, colleague):
    known = staff("PUT roles/viewer", READS).headers["X-History-Id"]
    rows = {"Rows": [{"Operation": "undo", "Id": known}]}
    support = colleague("support")
    for caller in (colleague("senior-support"), support):
        batch = caller("POST batches", rows).json["Id"]
        (row,) = caller(f"GET batches/{batch}/rows").json["Values"]
        assert (row["Verdict"], row["Subject"]) == ("refused", None)
        assert "'staff.manage'" in row["Why"]
    # Somebody who sees the change plans a batch that others do not see.
    planned = staff("POST batches", rows).json["Id"]
    support(f"GET batches/{planned}/rows", status=403)
    for caller, is_listed in ((support, False), (staff, True)):
        listed = [one["Id"] for one in caller("GET batches").json["Values"]]
        assert (planned in listed) is is_listed


def test_a_role_is_not_made_again_for_those_who_had_it(staff, colleague):
    staff("POST roles", {"Name": "events", **READS})
    colleague("events", Name="Anna")
    staff("DELETE roles/events")
    again = {"Name": "events", "Permissions": ["items.move"]}
    assert staff("POST roles", again, 409).json["Code"] == "ROLE_HELD"
    staff("PUT staff/Anna/roles", {"Roles": []})
    staff("POST roles", again)


def test_history_of_roles_is_for_those_who_manage_staff(app, staff, colleague):
    entry = staff("PUT roles/viewer", READS).headers["X-History-Id"]
    Feed(service(app, Storage)).catch_up()
    staff(f"GET history/{entry}")
    assert [event["Id"] for event in staff("GET events").json["Values"]] == [entry]
    viewer = colleague("viewer")
    viewer(f"GET history/{entry}", status=403)
    for path in ("history", "events"):
        assert viewer(f"GET {path}").json["Values"] == [], path
