"""Approvals: asked for, decided by somebody else, made once, and named in history."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

import config
from app.approvals.store import Approvals
from app.core.permissions import Permission, new_role
from app.players.store import Players
from app.privacy.store import Erasures
from tests.applications import service
from tests.callers import Caller
from tests.changes import cut_off, deaths, meant
from tests.console_visitor import console_of, page_of
from tests.factories import ITEM, NOW, gift, held, make_role
from tests.mongod import on_mongodb

GIFT = {"itemid": ITEM, "quantity": 50}
VIEWER = {"Permissions": ["players.read"], "Limits": None}
EVE = {"Name": "Eve", "Email": "eve@example.com", "Roles": ["viewer"]}
DECISIONS = {
    "approve": ({}, "done"),
    "decline": ({"Why": "No."}, "declined"),
    "withdraw": ({}, "withdrawn"),
}


@pytest.fixture
def clerk(person):
    return person("Junior", LargestQuantity=5, ItemsPerDay=10, RowsPerBatch=2)


@pytest.fixture
def senior(person):
    return person("Senior")


@pytest.fixture
def asked(clerk, player):
    return ask(clerk)


@pytest.fixture
def mails(data_dir):
    """Return the mails that were sent, the oldest first."""

    def read():
        found = (data_dir / "outbox").glob("*.eml")
        in_order = sorted(found, key=lambda one: one.stat().st_mtime_ns)
        return [one.read_text().replace("=\n", "") for one in in_order]

    return read


def ask(caller, operation="give", subject="Aladric", arguments=GIFT, status=200, **headers):
    about = {"Operation": operation, "Subject": subject, "Arguments": arguments}
    return caller("POST approvals", {**about, "Reason": "Ticket 4711"}, status, **headers).json


def decide(caller, asked, verb="approve", status=200, **body):
    return caller(f"POST approvals/{asked['Id']}/{verb}", body or None, status)


def plan(caller, world, count, quantity=5):
    """Plan a batch with a gift for each of some new players; return its id."""
    rows = [gift(world.add_player()["Name"], quantity) for _ in range(count)]
    return caller("POST batches", {"Rows": rows}).json["Id"]


def test_what_is_over_a_limit_is_made_after_a_colleague_approved_it(clerk, senior, asked, db):
    assert (asked["By"]["Name"], asked["Reason"]) == ("Junior", "Ticket 4711")
    assert asked["Plan"][0]["After"] == {"ItemId": ITEM, "Quantity": 50}
    assert held(db) == 0
    (waiting,) = senior("GET approvals?state=waiting").json["Values"]
    answer = decide(senior, waiting, Plan=1)
    assert (answer.json["State"], answer.json["DecidedBy"]["Name"]) == ("done", "Senior")
    assert answer.json["Entry"] == answer.headers["X-History-Id"]
    entry = senior(f"GET history/{answer.json['Entry']}").json
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Junior", "Senior")
    assert (entry["Reason"], entry["Arguments"]["Quantity"]) == ("Ticket 4711", 50)
    # It does not count to the day of the person who asked.
    assert clerk("GET info/limits").json["LeftToday"] == 10
    assert decide(senior, asked).json == answer.json
    assert clerk("GET approvals?state=decided").json["Values"] == [answer.json]
    assert held(db) == 50


def test_who_may_not_decide(person, clerk, senior, asked, db):
    every = set(Permission)
    unable = person("Unable", every - {Permission.ITEMS_MOVE})
    for caller, code in ((unable, "PERMISSION_MISSING"), (clerk, "OWN_REQUEST")):
        for verb, body in (("approve", {}), ("decline", {"Why": "No."})):
            assert decide(caller, asked, verb, 403, **body).json["Code"] == code
    assert decide(senior, asked, "withdraw", 403).json["Code"] == "NOT_YOURS"
    stranger = person("Stranger", every - {Permission.APPROVE})
    stranger(f"GET approvals/{asked['Id']}", status=404)
    assert stranger("GET approvals").json["Values"] == []
    assert held(db) == 0


def test_the_limits_of_the_approver_hold_and_the_items_count_to_the_approver(person, asked):
    refused = decide(person("Limited", LargestQuantity=49), asked, status=403).json
    assert refused["Code"] == "OVER_LIMIT"
    assert refused["Message"] == (
        "You cannot approve this: it is over your own limit: you may move 49 of an item at once, "
        "not 50 (LargestQuantity). A colleague with a higher limit can."
    )
    small = person("Small", ItemsPerDay=60)
    decide(small, asked)
    assert small("GET info/limits").json["LeftToday"] == 10


def test_requests_and_rows_show_the_names_of_now(clerk, senior, staff, asked):
    """Both store ids: otherwise an accomplice could have the name of somebody else meanwhile."""
    entry = staff("POST players/Aladric/items/give", GIFT).headers["X-History-Id"]
    rows = [gift("Aladric", 1), {"Operation": "undo", "Id": entry}]
    batch = clerk("POST batches", {"Rows": rows}).json["Id"]
    staff("POST players/Aladric/name", {"Name": "Accomplice"})
    shown = senior(f"GET approvals/{asked['Id']}").json
    (listed,) = senior("GET approvals").json["Values"]
    rows = clerk(f"GET batches/{batch}/rows").json["Values"]
    assert {one["Subject"]["Name"] for one in (shown, listed, *rows)} == {"Accomplice"}


REFUSED_REQUESTS = [
    ({"Reason": ""}, 400, "Say why you ask."),
    ({"Operation": "save"}, 400, "'Operation' must be one of change-role, create-role, delete-"),
    ({"Subject": "nobody"}, 404, "No player"),
    ({"Arguments": {"itemid": ITEM}}, 400, "'quantity'"),
    ({"Arguments": 5}, 400, "The field 'Arguments' must be an object."),
    ({"Operation": "take"}, 409, "0 of"),
    ({"Operation": "run-batch", "Subject": ITEM}, 404, "No batch"),
    ({"Operation": "undo", "Arguments": {"id": "player:x:1"}}, 404, "No entry"),
    ({"Operation": "erase", "Subject": "Senior", "Arguments": {"Confirm": "Se"}}, 400, "Confirm"),
    ({"Operation": "transfer", "Arguments": {**GIFT, "to": "Aladric"}}, 400, "'to'"),
]


def test_requests_that_are_refused(clerk, senior, player, db):
    known = {"Operation": "give", "Subject": "Aladric", "Arguments": GIFT, "Reason": "x"}
    for wrong, status, message in REFUSED_REQUESTS:
        assert message in clerk("POST approvals", {**known, **wrong}, status).json["Message"]
    assert db.approvals.count_documents({}) == 0


def test_a_request_is_repeated_also_after_its_change(staff, clerk, senior, player):
    staff("POST players/Aladric/items/give", GIFT)
    asked = ask(clerk, "take", Idempotency_Key="a")
    decide(senior, asked)
    again = ask(clerk, "take", Idempotency_Key="a")
    assert (again["Id"], again["State"]) == (asked["Id"], "done")
    more = {**GIFT, "quantity": 60}
    assert ask(clerk, "take", "Aladric", more, 409, Idempotency_Key="a")["Code"] == "KEY_REUSED"
    ask(clerk, "take", status=409, Idempotency_Key="b")


def test_nobody_who_is_being_erased_asks_decides_or_is_named(clerk, senior, player, asked, db):
    for person, request, code in (
        (clerk.user["_id"], partial(ask, clerk, status=401), "UNAUTHORIZED"),
        (senior.user["_id"], partial(refused, senior, asked, "decline"), "UNAUTHORIZED"),
        (senior.user["_id"], partial(refused, senior, asked, "approve"), "UNAUTHORIZED"),
        (player["UserId"], partial(ask, clerk, status=409), "BEING_ERASED"),
    ):
        fence = {"_id": person, "BegunAt": NOW, "Players": [player["_id"]], "Bags": []}
        db.erasures.insert_one(fence)
        assert request()["Code"] == code
        db.erasures.delete_many({})
    assert (db.approvals.count_documents({"State": "waiting"}), held(db)) == (1, 0)


def refused(caller, asked, verb):
    return decide(caller, asked, verb, 401, **DECISIONS[verb][0]).json


def test_declined_withdrawn_and_ended_requests_stay_so(clerk, senior, player, db):
    requests = {state: ask(clerk) for state in ("declined", "withdrawn", "ended")}
    decide(senior, requests["declined"], "decline", 400)
    declined = decide(senior, requests["declined"], "decline", Why="Too much.").json
    assert (declined["State"], declined["Why"]) == ("declined", "Too much.")
    decide(clerk, requests["withdrawn"], "withdraw")
    db.approvals.update_one({"_id": requests["ended"]["Id"]}, {"$set": {"EndsAt": NOW}})
    for state, request in requests.items():
        assert clerk(f"GET approvals/{request['Id']}").json["State"] == state
        for verb, (body, decided) in DECISIONS.items():
            caller = clerk if verb == "withdraw" else senior
            # Who decides the same again gets the same answer.
            expected = (200, None) if state == decided else (409, "ALREADY_DECIDED")
            answer = decide(caller, request, verb, None, **body)
            assert (answer.status_code, answer.json.get("Code")) == expected
            assert answer.json.get("Why") != "No."
    assert senior("GET approvals?state=waiting").json["Values"] == []
    assert held(db) == 0


def test_a_plan_that_no_longer_holds_is_planned_again(app, staff, senior, asked, db):
    staff("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 3})
    assert decide(senior, asked, status=409).json["Code"] == "PLAN_CHANGED"
    again = senior(f"GET approvals/{asked['Id']}").json
    assert (again["State"], again["PlanNumber"]) == ("waiting", 2)
    assert again["Plan"][0]["Before"]["Quantity"] == 3
    # Somebody who has not seen the new plan does not approve it.
    assert decide(senior, asked, status=409, Plan=1).json["Code"] == "PLAN_CHANGED"
    # A page that shows the former one brings the new one.
    approver, path = console_of(app, senior), f"/approvals/{asked['Id']}/approve"
    page = approver.submit(path, 409, Plan="1")
    seen = re.search(r'name="Plan" value="(\d)"', page.text)[1]
    approver.submit(path, 303, Plan=seen)
    assert held(db) == 53


@on_mongodb
def test_a_change_between_plan_and_write_is_noticed(senior, asked, db, monkeypatch):
    change, others = Players.change, {"0": {"ItemId": ITEM, "Quantity": 9}}

    def after_others(*args):
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as game:
            game.submit(db.players.update_one, {}, {"$set": {"Inventory": others}}).result()
        return change(*args)

    monkeypatch.setattr(Players, "change", after_others)
    assert decide(senior, asked, status=409).json["Code"] == "PLAN_CHANGED"
    assert held(db) == 9


def test_both_must_still_have_their_rights(senior, asked, db, clerk):
    db.roles.update_one({"_id": "role of Junior"}, {"$pull": {"Permissions": "items.move"}})
    lacking = decide(senior, asked, status=409).json
    assert (lacking["Code"], lacking["Message"]) == (
        "ASKER_MAY_NOT",
        "The person who asked may no longer do this: they lack the permission 'items.move'.",
    )
    db.users.delete_one({"_id": clerk.user["_id"]})
    assert "the account is gone" in decide(senior, asked, status=409).json["Message"]
    assert held(db) == 0


@on_mongodb
@pytest.mark.parametrize("verb", DECISIONS)
def test_a_kill_at_any_command_leaves_a_request_waiting_or_decided(
    clerk, senior, asked, db, mails, verb
):
    body, state = DECISIONS[verb]
    act = partial(decide, clerk if verb == "withdraw" else senior, asked, verb, **body)
    told = len(mails())
    for number in deaths(act):
        found = db.approvals.find_one()["State"], held(db), db.history.count_documents({})
        assert (*found, len(mails())) == ("waiting", 0, 0, told), f"died at command {number}"
    assert number > 1
    assert act().json["State"] == state
    assert held(db) == (50 if verb == "approve" else 0)
    assert len(mails()) == told + (verb != "withdraw")


@on_mongodb
def test_whoever_repeats_a_decision_gets_an_answer_that_a_majority_holds(
    clerk, senior, player, db, monkeypatch
):
    requests = []
    for verb, (body, _) in DECISIONS.items():
        asked = ask(clerk, Idempotency_Key=verb)
        act = partial(decide, clerk if verb == "withdraw" else senior, asked, verb, **body)
        act()
        requests += [act, partial(ask, clerk, Idempotency_Key=verb)]
    with monkeypatch.context() as patch:
        cut_off(patch)
        for request in requests:
            request(status=503)
    for request in requests:
        request()
    assert held(db) == 50


@on_mongodb
def test_of_many_who_decide_at_once_only_the_first_does(app, person, asked, db):
    seniors = [person(f"S{n}", ItemsPerDay=60) for n in range(6)]

    def one(number):
        senior, verb = seniors[number % 6], ("approve", "decline")[number % 2]
        own = Caller(app.test_client(), senior.headers, "/api/v1/")
        body, _ = DECISIONS[verb]
        return senior.user["_id"], decide(own, asked, verb, None, **body).json.get("Code")

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, range(24)))
    made = db.approvals.find_one()
    # Who sends it twice may meet their own limit, as long as the first has not come to its end.
    assert {code for _, code in answers} - {"OVER_LIMIT"} == {None, "ALREADY_DECIDED"}
    assert {user for user, code in answers if not code} == {made["DecidedBy"]["UserId"]}
    moved = 50 if made["State"] == "done" else 0
    left = sorted(one("GET info/limits").json["LeftToday"] for one in seniors)
    assert (held(db), left) == (moved, [60 - moved, *[60] * 5])


def test_an_undo_of_what_is_left_can_be_asked_for(staff, clerk, senior, player, db):
    entry = staff("POST players/Aladric/items/give", GIFT).headers["X-History-Id"]
    staff("POST players/Aladric/items/take", {"itemid": ITEM, "quantity": 20})
    ask(clerk, "undo", "", {"id": entry}, 409)
    decide(senior, ask(clerk, "undo", "", {"id": entry, "partial": True}))
    assert held(db) == 0


def test_an_approved_batch_is_run_by_who_asked_beyond_the_limits(
    clerk, senior, person, world, db, run_batches
):
    batch = plan(clerk, world, 3, 50)
    clerk(f"POST batches/{batch}/run", status=403)
    asked = ask(clerk, "run-batch", batch)
    limited = person("Small", RowsPerBatch=2)
    assert decide(limited, asked, status=403).json["Code"] == "OVER_LIMIT"
    decide(senior, asked)
    limited(f"POST batches/{batch}/run", status=403)
    # It counts for as long as who approved it may approve.
    for is_disabled in (True, False):
        db.users.update_one({"Name": "Senior"}, {"$set": {"IsDisabled": is_disabled}})
        clerk(f"POST batches/{batch}/run", status=403 if is_disabled else 200)
    run_batches()
    found = clerk(f"GET batches/{batch}").json
    assert (found["State"], found["Done"], found["ApprovedBy"]["Name"]) == ("done", 3, "Senior")
    assert (held(db), clerk("GET info/limits").json["LeftToday"]) == (150, 10)
    entry = db.history.find_one({"Operation": "give"})
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Junior", "Senior")


def test_an_approved_batch_counts_to_the_day_of_who_approved_it(
    clerk, person, world, db, run_batches
):
    """Otherwise two people with limits would together have none."""
    approver = person("Lead", LargestQuantity=50, ItemsPerDay=20, RowsPerBatch=3)
    for state in ("done", "paused"):
        batch = plan(clerk, world, 3)
        decide(approver, ask(clerk, "run-batch", batch))
        clerk(f"POST batches/{batch}/run")
        run_batches()
        assert (clerk(f"GET batches/{batch}").json["State"], held(db)) == (state, 15)
    left = [one("GET info/limits").json["LeftToday"] for one in (approver, clerk)]
    assert left == [5, 10]


TWO_PEOPLE = [
    ("erasures", "POST users/Bob/erase", {"Confirm": "Bob"}),
    ("roles", "PUT staff/Bob/roles", {"Roles": ["viewer"]}),
    ("roles", "POST roles", {"Name": "guest", **VIEWER}),
    ("roles", "PUT roles/viewer", VIEWER),
    ("roles", "DELETE roles/viewer", None),
    ("roles", "POST staff", EVE),
]


def test_what_the_settings_name_needs_two_people(app, staff, senior, world):
    world.add_user(Name="Bob")
    for named, request, body in TWO_PEOPLE:
        app.config["APPROVAL"] = [named]
        refused = senior(request, body, 403).json
        assert refused["Code"] == "NEEDS_APPROVAL", request
        assert " need two people (QM_APPROVAL)." in refused["Message"]
    app.config["APPROVAL"] = ["batches > 1"]
    staff(f"POST batches/{plan(staff, world, 1)}/run")
    refused = staff(f"POST batches/{plan(staff, world, 2)}/run", status=403).json
    assert refused["Code"] == "NEEDS_APPROVAL"


CHANGES_OF_RIGHTS = [
    ("create-role", "", {"Name": "guest", **VIEWER}, "players.read"),
    ("change-role", "guest", {"Permissions": ["staff.manage"]}, "staff.manage"),
    ("remove-role", "guest", {}, "players.read"),
    ("set-roles", "Bob", {"Roles": ["guest"]}, "players.read"),
    ("invite", "", {**EVE, "Roles": ["guest"]}, "players.read"),
]


def test_a_request_about_rights_shows_them_to_those_who_may_see_such_changes(person, world, db):
    junior = person("Junior", (Permission.STAFF_MANAGE, Permission.PLAYERS_READ))
    world.add_user(Name="Bob")
    for operation, subject, arguments, changed in CHANGES_OF_RIGHTS:
        if subject == "guest":
            db.roles.replace_one({"_id": "guest"}, make_role("guest", "players.read"), upsert=True)
        asked = ask(junior, operation, subject, arguments)
        (rights,) = (one for one in asked["Plan"] if one["Path"] == "Permissions")
        assert changed in {*rights["Before"]} ^ {*rights["After"]}, operation
    for lacking, kind in ((Permission.STAFF_MANAGE, "role"), (Permission.USERS_READ, "user")):
        blind = person(f"Blind to {kind}s", set(Permission) - {lacking})
        listed = blind("GET approvals").json["Values"]
        assert {one["Subject"]["Kind"] for one in listed} == {"role", "user"} - {kind}
        for hidden in db.approvals.find({"Subject.Kind": kind}):
            blind(f"GET approvals/{hidden['_id']}", status=404)
    # Nobody gives what they do not have, not even with an approval.
    more = {"Name": "more", "Permissions": ["privacy.erase"], "Limits": None}
    assert ask(junior, "create-role", "", more, 403)["Code"] == "MAY_NOT_GIVE"


def test_the_address_of_who_is_invited_is_kept_until_the_decision(person, staff, db):
    """And it is exported to nobody else."""
    junior, admin = person("Junior"), person("Admin")
    for verb, decider in (("withdraw", junior), ("approve", admin)):
        asked = ask(junior, "invite", "", EVE, Idempotency_Key=verb)
        assert asked["Arguments"]["Email"] == EVE["Email"]
        assert EVE["Email"] not in staff("GET users/Junior/personal-data").text
        first, again = (decide(decider, asked, verb) for _ in range(2))
        assert first.json == again.json
        assert "Email" not in db.approvals.find_one({"_id": asked["Id"]})["Arguments"]
        repeated = ask(junior, "invite", "", EVE, Idempotency_Key=verb)
        assert repeated["State"] == first.json["State"]
        other = {**EVE, "Roles": ["support"]}
        refused = ask(junior, "invite", "", other, 409, Idempotency_Key=verb)
        assert refused["Code"] == "KEY_REUSED"
    (invited,) = db.users.find({"Name": "Eve"})
    assert first.json["Subject"]["Id"] == invited["_id"]


def test_who_may_not_ask_is_not_told_what_exists(person, world, player):
    world.add_user(Name="Bob")
    reader = person("Reader", (Permission.HISTORY_READ,))
    for operation, known, arguments in (
        *(("give", "Aladric", GIFT), ("transfer", "Aladric", {**GIFT, "to": "Aladric"})),
        *(("set-roles", "Bob", {"Roles": ["viewer"]}), ("reset-sign-in", "Bob", {})),
        ("remove-role", "viewer", {}),
    ):
        answers = [ask(reader, operation, one, arguments, 403) for one in (known, "nobody")]
        assert answers[0] == answers[1], operation


def test_an_approver_approves_the_permissions_that_they_saw(person, world, db):
    junior, admin = person("Junior"), person("Admin")
    world.add_user(Name="Bob", Roles=["viewer"])
    asked = ask(junior, "set-roles", "Bob", {"Roles": ["support"]})
    paths = [change["Path"] for change in asked["Plan"]]
    assert paths[:3] == ["Roles", "Permissions", "Limits.LargestQuantity"]
    db.roles.insert_one(new_role("support", ["privacy.erase"], None))
    assert decide(admin, asked, status=409).json["Code"] == "PLAN_CHANGED"
    decide(admin, asked, Plan=2)
    assert db.users.find_one({"Name": "Bob"})["Roles"] == ["support"]
    # The person who asked must still have what they give.
    asked = ask(junior, "set-roles", "Bob", {"Roles": []})
    db.roles.update_one({"_id": "role of Junior"}, {"$pull": {"Permissions": "privacy.erase"}})
    assert decide(admin, asked, status=409).json["Code"] == "ASKER_MAY_NOT"


def test_a_transfer_goes_to_whom_it_was_asked_for(app, clerk, senior, staff, player, world, db):
    """A name may become somebody else's before a colleague approves."""
    bea = world.add_player(Name="Bea")["_id"]
    staff("POST players/Aladric/items/give", GIFT)
    asked = ask(clerk, "transfer", "Aladric", {**GIFT, "to": "Bea"})
    page = console_of(app, senior).read(f"/approvals/{asked['Id']}")
    assert "Bea" in page
    assert "Inventory, slot 0" in page
    staff("POST players/Bea/name", {"Name": "Bee"})
    world.add_player(Name="Bea")
    decide(senior, asked)
    assert held(db) == held(db, _id=bea) == 50


def test_few_requests_of_a_person_wait_at_a_time(clerk, player, mails, monkeypatch):
    monkeypatch.setattr(sys.modules[Approvals.__module__], "MOST_WAITING", 3)
    asked = [ask(clerk, Idempotency_Key=str(n)) for n in range(3)]
    assert ask(clerk, status=409)["Code"] == "TOO_MANY_WAITING"
    assert ask(clerk, Idempotency_Key="2") == asked[2]
    decide(clerk, asked[0], "withdraw")
    ask(clerk)


def test_those_who_may_approve_get_a_mail(app, person, clerk, senior, player, mails, db):
    person("Unable", (Permission.APPROVE, Permission.PLAYERS_READ))
    for name, state in (
        ("Invited", {"PasswordHash": None}),
        ("Banned", {"IsBanned": True}),
        ("Disabled", {"IsDisabled": True}),
    ):
        db.users.update_one({"_id": person(name).user["_id"]}, {"$set": state})
    link = "https://qm.example.com/console/approvals/"
    for url in ("", "https://qm.example.com"):
        app.config["PUBLIC_URL"] = url
        asked = [ask(clerk, Idempotency_Key=f"key {url}") for _ in range(2)]
        mail = mails()[-1]
        assert f"Junior asks for an approval: give 50 {ITEM}: Aladric." in mail
        # Without the setting, it would have the host that the person who asks has sent.
        assert (link in mail, "http" in mail.partition("Hello")[2]) == (bool(url), bool(url))
    assert [senior.user["Email"] in mail for mail in mails()] == [True, True]
    for _ in range(2):
        decide(senior, asked[0], "decline", Why="Not today.")
    _, _, told = mails()
    assert clerk.user["Email"] in told
    assert f"Senior has declined your request: give 50 {ITEM}: Aladric." in told
    assert "Reason: Not today." in told
    decide(senior, ask(clerk))
    assert "Senior has approved your request" in mails()[-1]


def test_a_mail_that_cannot_be_sent_does_not_matter(clerk, senior, player, data_dir):
    (data_dir / "outbox").write_text("a file, where a folder should be")
    assert ask(clerk)["State"] == "waiting"


def test_a_wrong_rule_is_refused_at_the_start():
    for rules in ("batches>", "batches>many", "everything", "erasures>3", "batches<5"):
        with pytest.raises(config.SettingsError, match="QM_APPROVAL contains"):
            config.load({"QM_ENV": "testing", "QM_APPROVAL": rules})
    loaded = config.load({"QM_ENV": "testing", "QM_APPROVAL": "batches>500, erasures,roles"})
    assert loaded.APPROVAL == ["batches>500", "erasures", "roles"]


def test_erasing_people_leaves_their_ids_alone(app, clerk, senior, staff, asked, person, db):
    db.approvals.update_one({}, {"$set": {"Reason": "Junior said so"}})
    decide(senior, asked)
    exported = staff("GET users/Senior/personal-data").json
    assert [one["Id"] for one in exported["Approvals"]] == [asked["Id"]]
    # A colleague who may approve can be erased by request, and is not mailed about it.
    colleague = person("Colleague")
    about = ask(senior, "erase", "Colleague", {"Confirm": "Colleague"})
    erasures = service(app, Erasures)
    for who in (clerk, senior, colleague):
        erasures.begin(who.user["_id"], meant("erase"))
        erasures.finish(who.user["_id"])
    (stored,) = db.approvals.find()
    assert stored["_id"] != about["Id"]
    for name, who in (("By", clerk), ("DecidedBy", senior)):
        assert stored[name] == {"UserId": who.user["_id"], "Name": None}
    assert stored["Reason"] == "(erased) said so"
    entry = db.history.find_one({"Operation": "give"})
    assert entry["ApprovedBy"] == {"UserId": senior.user["_id"], "Name": None}


class TestConsole:
    def test_a_refused_form_asks_and_a_colleague_approves(self, app, clerk, senior, player, db):
        junior, approver = console_of(app, clerk), console_of(app, senior)
        path, fields = "/players/Aladric/give", {"itemid": ITEM, "quantity": "50"}
        assert "Ask for approval" not in junior.get("/players/Aladric").text
        assert ">Ask for approval</button>" in junior.submit(path, 403, **fields).text
        unsaid = junior.submit(path, 400, ask="1", **fields)
        assert "Say why you ask." in page_of(unsaid)
        asked = junior.led_to(junior.submit(path, 303, ask="1", reason="Lost it", **fields))
        assert "Colleagues who may approve it see your request." in page_of(asked)
        assert ("Withdraw" in asked.text, ">Approve<" in asked.text) == (True, False)
        assert re.search(r'Approvals</span><span class="n due">1</span>', approver.get("").text)
        assert "“Lost it”" in approver.read("/approvals")
        page = f"/approvals/{db.approvals.find_one()['_id']}"
        assert "done" in page_of(approver.led_to(approver.submit(f"{page}/approve", 303, Plan="1")))
        assert held(db) == 50
        assert "approved by Senior" in approver.read("/players/Aladric/history")
        entry = db.approvals.find_one()["Entry"]
        assert re.search(r"Approved by\s*Senior", approver.read(f"/history/{entry}"))

    def test_undo_deletion_and_batch_can_be_asked_for(
        self, app, clerk, senior, staff, player, world, db
    ):
        junior, approver = console_of(app, clerk), console_of(app, senior)
        entry = staff("POST players/Aladric/items/give", GIFT).headers["X-History-Id"]
        batch = plan(clerk, world, 3)
        db.batches.update_one({}, {"$set": {"Name": "Small gifts"}})

        def ask_by_form(path, **fields):
            assert "Ask for approval" in junior.submit(path, 403, **fields).text
            asked = junior.submit(path, 303, ask="1", reason="Because", **fields)
            return asked.headers["Location"].removeprefix("/console").partition("?")[0]

        approver.read(ask_by_form(f"/history/{entry}/undo"))
        staff("POST players/Aladric/items/take", {"itemid": ITEM, "quantity": 20})
        ask_by_form(f"/history/{entry}/undo-partial", partial="true")
        partial_undo = db.approvals.find_one({"Arguments.is_partial": True})
        assert partial_undo["Arguments"]["id"] == entry
        declined = ask_by_form("/players/Aladric/delete", confirm="Aladric")
        approver.submit(f"{declined}/decline", 303, Why="Not today.")
        assert "Not today." in junior.read(declined)
        page = ask_by_form(f"/batches/{batch}/run")
        # The name is the choice of the person who asks.
        assert re.search(r"What it does\s*Give", approver.read(page))
        approved = approver.led_to(approver.submit(f"{page}/approve", 303))
        assert "can be run by the person who asked" in page_of(approved)
        junior.submit(f"/batches/{batch}/run", 303)

    def test_the_page_of_a_change_of_roles_tells_the_rights_and_asks_who_it_is(
        self, app, person, world, db
    ):
        asker, admin = person("Asker"), person("Admin")
        world.add_user(Name="Bob", Roles=["viewer"])
        asked = ask(asker, "set-roles", "Bob", {"Roles": ["support"]})
        console, page = console_of(app, admin), f"/approvals/{asked['Id']}"
        text = console.read(page)
        assert "Roles: +support, −viewer" in text
        assert "Permissions: +users.read, +users.find, +items.move" in text
        # As the form of the change itself, it asks again in a session that is not fresh.
        begun = {"BeganAt": datetime.now(timezone.utc) - timedelta(minutes=16)}
        db.refresh_tokens.update_many({"UserId": admin.user["_id"]}, {"$set": begun})
        assert "Is it still you?" in page_of(console.submit(f"{page}/approve", 403, Plan="1"))
