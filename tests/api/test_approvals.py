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
from app.batches.running import BatchWorker
from app.core.permissions import Permission, new_role
from app.players.store import Players
from app.privacy.store import Erasures
from tests.applications import service
from tests.callers import Caller
from tests.changes import cut_off, deaths, meant
from tests.console_visitor import Visitor, page_of
from tests.factories import make_role, numbered_guid
from tests.mongod import on_mongodb
from tests.people import settle

ITEM = numbered_guid(1)
GIFT = {"Operation": "give", "Subject": "Aladric", "Arguments": {"itemid": ITEM, "quantity": 50}}
ASK = {**GIFT, "Reason": "Ticket 4711"}


@pytest.fixture
def clerk(person):
    return person("Junior", LargestQuantity=5, ItemsPerDay=10, RowsPerBatch=2)


@pytest.fixture
def senior(person):
    return person("Senior")


@pytest.fixture
def asked(clerk, player):
    return clerk("POST approvals", ASK).json


def held(db):
    return sum(s["Quantity"] for p in db.players.find() for s in p["Inventory"].values())


def decide(caller, asked, verb="approve", body=None, status=200):
    return caller(f"POST approvals/{asked['Id']}/{verb}", body, status)


def test_what_is_over_a_limit_is_made_after_a_colleague_approved_it(
    clerk, senior, player, asked, db
):
    assert (asked["State"], asked["By"]["Name"], asked["Reason"]) == (
        *("waiting", "Junior"),
        "Ticket 4711",
    )
    assert asked["Plan"][0]["After"] == {"ItemId": ITEM, "Quantity": 50}
    assert held(db) == 0
    assert [one["Id"] for one in senior("GET approvals?state=waiting").json["Values"]] == [
        asked["Id"]
    ]
    answer = decide(senior, asked, body={"Plan": 1})
    assert (answer.json["State"], answer.json["DecidedBy"]["Name"]) == ("done", "Senior")
    assert answer.json["Entry"] == answer.headers["X-History-Id"]
    entry = senior(f"GET history/{answer.json['Entry']}").json
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Junior", "Senior")
    assert (entry["Reason"], entry["Arguments"]["Quantity"]) == ("Ticket 4711", 50)
    # It does not count to the day of the person who asked.
    assert clerk("GET info/limits").json["LeftToday"] == 10
    assert decide(senior, asked).json["State"] == "done"
    assert held(db) == 50
    assert clerk("GET approvals?state=decided").json["Values"][0]["State"] == "done"


def test_who_may_not_decide(client, person, clerk, senior, asked, db, world):
    for name, without in (("A", Permission.APPROVE), ("B", Permission.ITEMS_MOVE)):
        other = person(name, tuple(one for one in Permission if one is not without))
        for verb, body in (("approve", None), ("decline", {"Why": "No."})):
            refused = decide(other, asked, verb, body, 403).json
            assert refused["Code"] == "PERMISSION_MISSING", (name, verb)
    limited = person("C", LargestQuantity=49)
    refused = decide(limited, asked, status=403).json
    assert (refused["Code"], refused["Message"]) == (
        "OVER_LIMIT",
        "You cannot approve this: it is over your own limit: you may move 49 of an item at once, "
        "not 50 (LargestQuantity). A colleague with a higher limit can.",
    )
    small = person("D", ItemsPerDay=60)
    for verb, body in (("approve", None), ("decline", {"Why": "No."})):
        assert decide(clerk, asked, verb, body, 403).json["Code"] == "OWN_REQUEST"
    assert decide(senior, asked, "withdraw", status=403).json["Code"] == "NOT_YOURS"
    key = Caller(client, world.key_headers(), "/api/v1/")
    # Power alone does not approve, and a key never does.
    assert decide(key, asked, status=403).json["Code"] == "PERMISSION_MISSING"
    db.users.update_one({"Keys": {"$exists": True}}, {"$set": {"Roles": ["senior-support"]}})
    assert decide(key, asked, status=403).json["Code"] == "KEY_NOT_ALLOWED"
    key("POST approvals", ASK, 403)
    nobody = person("E", (Permission.PLAYERS_READ,))
    nobody(f"GET approvals/{asked['Id']}", status=404)
    assert nobody("GET approvals").json["Values"] == []
    assert nobody("POST approvals", ASK, 403).json["Code"] == "PERMISSION_MISSING"
    assert held(db) == 0
    decide(small, asked)
    assert small("GET info/limits").json["LeftToday"] == 10


def test_requests_and_rows_show_the_names_of_now(clerk, senior, staff, player, asked, db):
    """Both store ids: otherwise an accomplice could have the name of somebody else meanwhile."""
    gift = {"itemid": ITEM, "quantity": 1}
    entry = staff("POST players/Aladric/items/give", gift).headers["X-History-Id"]
    rows = [{"Player": "Aladric", "Operation": "give", "ItemId": ITEM, "Quantity": 1}]
    batch = clerk("POST batches", {"Rows": [*rows, {"Operation": "undo", "Id": entry}]}).json["Id"]
    body = {"Operation": "run-batch", "Subject": batch, "Reason": "x"}
    running = clerk("POST approvals", body).json
    staff("POST players/Aladric/name", {"Name": "Accomplice"})
    shown = senior(f"GET approvals/{asked['Id']}").json
    listed = senior("GET approvals").json["Values"][-1]
    assert {one["Subject"]["Name"] for one in (shown, listed)} == {"Accomplice"}
    found = clerk(f"GET batches/{batch}/rows").json["Values"]
    assert [row["Subject"]["Name"] for row in found] == ["Accomplice"] * 2
    decide(senior, running)


REFUSED_REQUESTS = [
    ({**GIFT}, 400, "Say why you ask."),
    (
        {**ASK, "Operation": "save"},
        400,
        "'Operation' must be one of change-role, create-role, delete-player",
    ),
    ({**ASK, "Subject": "nobody"}, 404, "No player"),
    ({**ASK, "Arguments": {"itemid": ITEM}}, 400, "'quantity'"),
    ({**ASK, "Arguments": 5}, 400, "The field 'Arguments' must be an object."),
    ({**ASK, "Operation": "take"}, 409, "0 of"),
    ({"Operation": "run-batch", "Subject": ITEM, "Reason": "x"}, 404, "No batch"),
    ({"Operation": "undo", "Arguments": {"id": "player:x:1"}, "Reason": "x"}, 404, "No entry"),
]


def test_requests_that_are_refused(clerk, player, db):
    for body, status, message in REFUSED_REQUESTS:
        answer = clerk("POST approvals", body, None)
        assert (answer.status_code, message in answer.text) == (status, True), answer.text
    assert db.approvals.count_documents({}) == 0


def test_a_request_is_repeated_also_after_its_change(staff, clerk, senior, player, db):
    staff("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 50})
    take = {**ASK, "Operation": "take"}
    asked = clerk("POST approvals", take, Idempotency_Key="a").json
    decide(senior, asked)
    again = clerk("POST approvals", take, Idempotency_Key="a")
    assert (again.json["Id"], again.json["State"]) == (asked["Id"], "done")
    assert again.headers["Idempotency-Replayed"] == "true"
    clerk("POST approvals", take, 409, Idempotency_Key="b")


def test_nobody_who_is_being_erased_asks_decides_or_is_named(clerk, senior, player, asked, db):
    now = datetime.now(timezone.utc)
    record = {"BegunAt": now, "Players": [player["_id"]], "Bags": []}
    for erased, request, code in (
        (clerk, partial(clerk, "POST approvals", ASK, 401), "UNAUTHORIZED"),
        (senior, partial(decide, senior, asked, "decline", {"Why": "No."}, 401), "UNAUTHORIZED"),
        (senior, partial(decide, senior, asked, status=401), "UNAUTHORIZED"),
        (None, partial(clerk, "POST approvals", ASK, 409), "BEING_ERASED"),
    ):
        person = erased.user["_id"] if erased else player["UserId"]
        db.erasures.insert_one({**record, "_id": person})
        assert request().json["Code"] == code
        db.erasures.delete_many({})
    assert (db.approvals.count_documents({"State": "waiting"}), held(db)) == (1, 0)


def test_a_repeated_request_is_one(clerk, player, db):
    one, same = (clerk("POST approvals", ASK, Idempotency_Key="a").json for _ in range(2))
    assert one == same
    other = {**ASK, "Arguments": {"itemid": ITEM, "quantity": 60}}
    assert clerk("POST approvals", other, 409, Idempotency_Key="a").json["Code"] == "KEY_REUSED"
    assert db.approvals.count_documents({}) == 1


def test_declined_withdrawn_and_ended_requests_stay_so(clerk, senior, player, db):
    requests = [clerk("POST approvals", ASK).json for _ in range(3)]
    decide(senior, requests[0], "decline", {}, 400)
    declined = decide(senior, requests[0], "decline", {"Why": "Too much."}).json
    assert (declined["State"], declined["Why"]) == ("declined", "Too much.")
    assert decide(clerk, requests[1], "withdraw").json["State"] == "withdrawn"
    past = {"$set": {"EndsAt": db.approvals.find_one()["At"]}}
    db.approvals.update_one({"_id": requests[2]["Id"]}, past)
    assert clerk(f"GET approvals/{requests[2]['Id']}").json["State"] == "ended"
    for request in requests:
        for caller, verb, body in (
            *((senior, "approve", None), (senior, "decline", {"Why": "No."})),
            (clerk, "withdraw", None),
        ):
            # Who decides the same again gets the same answer.
            if (request, verb) in ((requests[0], "decline"), (requests[1], "withdraw")):
                assert decide(caller, request, verb, body).json["Why"] != "No."
                continue
            assert decide(caller, request, verb, body, 409).json["Code"] == "ALREADY_DECIDED"
    assert senior("GET approvals?state=waiting").json["Values"] == []
    assert held(db) == 0


def test_a_plan_that_no_longer_holds_is_planned_again(staff, senior, asked, db):
    staff("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 3})
    refused = decide(senior, asked, status=409).json
    assert refused["Code"] == "PLAN_CHANGED"
    again = senior(f"GET approvals/{asked['Id']}").json
    assert (again["State"], again["PlanNumber"]) == ("waiting", 2)
    assert again["Plan"][0]["Before"]["Quantity"] == 3
    # Somebody who has not seen the new plan does not approve it.
    assert decide(senior, asked, body={"Plan": 1}, status=409).json["Code"] == "PLAN_CHANGED"
    decide(senior, asked, body={"Plan": 2})
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
    again = senior(f"GET approvals/{asked['Id']}").json
    assert (again["State"], again["PlanNumber"], held(db)) == ("waiting", 2, 9)
    decide(senior, asked)
    assert held(db) == 59


def test_what_has_become_impossible_waits(senior, asked, db):
    full = {str(n): {"ItemId": numbered_guid(2), "Quantity": 10**6} for n in range(35)}
    db.players.update_one({}, {"$set": {"Inventory": full}})
    assert decide(senior, asked, status=409).json["Code"] == "NO_ROOM"
    db.players.update_one({}, {"$set": {"Inventory": {}}})
    decide(senior, asked)


def test_both_must_still_have_their_rights(senior, asked, db, clerk):
    db.roles.update_one({"_id": "role of Junior"}, {"$pull": {"Permissions": "items.move"}})
    refused = decide(senior, asked, status=409).json
    assert (refused["Code"], refused["Message"]) == (
        "ASKER_MAY_NOT",
        "The person who asked may no longer do this: they lack the permission 'items.move'.",
    )
    db.users.delete_one({"_id": clerk.user["_id"]})
    assert "the account is gone" in decide(senior, asked, status=409).json["Message"]
    assert held(db) == 0


DECISIONS = {
    "approve": (None, "done"),
    "decline": ({"Why": "No."}, "declined"),
    "withdraw": (None, "withdrawn"),
}


@on_mongodb
@pytest.mark.parametrize("verb", DECISIONS)
def test_a_kill_at_any_command_leaves_a_request_waiting_or_decided(
    clerk, senior, asked, db, data_dir, verb
):
    body, state = DECISIONS[verb]
    caller = clerk if verb == "withdraw" else senior
    told = len(mails(data_dir))
    for number in deaths(lambda: decide(caller, asked, verb, body)):
        found = db.approvals.find_one()["State"], held(db), db.history.count_documents({})
        assert found == ("waiting", 0, 0), f"died at command {number}"
        assert len(mails(data_dir)) == told
    assert number > 1
    assert decide(caller, asked, verb, body).json["State"] == state
    assert held(db) == (50 if verb == "approve" else 0)
    assert len(mails(data_dir)) == told + (verb != "withdraw")


@on_mongodb
def test_whoever_repeats_a_decision_gets_an_answer_that_a_majority_holds(
    clerk, senior, player, db, monkeypatch
):
    requests = []
    for verb, (body, _) in DECISIONS.items():
        caller = clerk if verb == "withdraw" else senior
        asked = clerk("POST approvals", ASK, Idempotency_Key=verb).json
        decide(caller, asked, verb, body)
        requests.append(partial(decide, caller, asked, verb, body))
        requests.append(partial(clerk, "POST approvals", ASK, Idempotency_Key=verb))
    with monkeypatch.context() as patch:
        cut_off(patch)
        for request in requests:
            assert "may have been made" not in request(status=503).json["Message"]
    for request in requests:
        request()
    assert held(db) == 50


@on_mongodb
@pytest.mark.parametrize("verb", ["approve", "decline"])
def test_of_many_who_decide_at_once_the_first_does_and_the_others_are_told_so(
    app, person, asked, db, verb
):
    seniors = [person(f"S{n}", ItemsPerDay=60) for n in range(6)]
    body, state = DECISIONS[verb]

    def one(number):
        own = Caller(app.test_client(), seniors[number % 6].headers, "/api/v1/")
        wanted = ("approve", None) if number >= 18 else (verb, body)
        return number, decide(own, asked, *wanted, status=None)

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, range(24)))
    made = db.approvals.find_one()
    codes = {answer.json.get("Code") for _, answer in answers if answer.status_code != 200}
    # Who sends it twice may meet their own limit, as long as the first has not come to its end.
    assert codes - {"OVER_LIMIT"} == {"ALREADY_DECIDED"}
    assert {
        seniors[number % 6].user["_id"] for number, answer in answers if answer.status_code == 200
    } == {made["DecidedBy"]["UserId"]}
    moved = 50 if made["State"] == "done" else 0
    assert (held(db), made["State"] in {state, "done"}, made["PlanNumber"]) == (moved, True, 1)
    left = sorted(one("GET info/limits").json["LeftToday"] for one in seniors)
    assert left == [60 - moved, *[60] * 5]


def test_deletions_and_undos_can_be_asked_for(staff, clerk, senior, player, db):
    gift = {"itemid": ITEM, "quantity": 50}
    entry = staff("POST players/Aladric/items/give", gift).headers["X-History-Id"]
    undo = {"Operation": "undo", "Arguments": {"id": entry}, "Reason": "A mistake."}
    asked = clerk("POST approvals", undo).json
    assert (asked["Subject"]["Name"], asked["Plan"][0]["After"]) == ("Aladric", None)
    done = decide(senior, asked).json
    assert senior(f"GET history/{done['Entry']}").json["Undoes"] == entry
    assert held(db) == 0
    # Of a change of which something is left, that can be asked for.
    entry = staff("POST players/Aladric/items/give", gift).headers["X-History-Id"]
    staff("POST players/Aladric/items/take", {"itemid": ITEM, "quantity": 20})
    undo["Arguments"] = {"id": entry}
    clerk("POST approvals", undo, 409)
    undo["Arguments"]["partial"] = True
    decide(senior, clerk("POST approvals", undo).json)
    assert held(db) == 0
    delete = {"Operation": "delete-player", "Subject": "Aladric", "Reason": "Asked for it."}
    asked = clerk("POST approvals", delete).json
    done = decide(senior, asked).json
    assert db.players.count_documents({}) == 0
    assert senior(f"GET history/{done['Entry']}").json["ApprovedBy"]["Name"] == "Senior"


def test_an_approved_batch_is_run_by_who_asked_beyond_the_limits(
    app, clerk, senior, person, world, db
):
    give = {"Operation": "give", "ItemId": ITEM, "Quantity": 50}
    rows = [{"Player": world.add_player()["Name"], **give} for _ in range(3)]
    batch = clerk("POST batches", {"Name": "Gifts", "Reason": "Event", "Rows": rows}).json["Id"]
    clerk(f"POST batches/{batch}/run", status=403)
    asked = clerk(
        "POST approvals", {"Operation": "run-batch", "Subject": batch, "Reason": "Event"}
    ).json
    assert decide(person("Small", RowsPerBatch=2), asked, status=403).json["Code"] == "OVER_LIMIT"
    decide(senior, asked)
    other = person("Other", RowsPerBatch=2)
    other(f"POST batches/{batch}/run", status=403)
    # It counts for as long as who approved it may approve.
    db.users.update_one({"Name": "Senior"}, {"$set": {"IsDisabled": True}})
    clerk(f"POST batches/{batch}/run", status=403)
    db.users.update_one({"Name": "Senior"}, {"$set": {"IsDisabled": False}})
    assert clerk(f"POST batches/{batch}/run").json["State"] == "running"
    while service(app, BatchWorker).work():
        pass
    found = clerk(f"GET batches/{batch}").json
    assert (found["State"], found["Done"], found["ApprovedBy"]["Name"]) == ("done", 3, "Senior")
    assert (held(db), clerk("GET info/limits").json["LeftToday"]) == (150, 10)
    entry = db.history.find_one({"Operation": "give"})
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Junior", "Senior")


def test_an_approved_batch_counts_to_the_day_of_who_approved_it(app, clerk, person, world, db):
    """Otherwise two people with limits would together have none."""
    give = {"Operation": "give", "ItemId": ITEM, "Quantity": 5}
    rows = [{"Player": world.add_player()["Name"], **give} for _ in range(3)]
    approver = person("Lead", LargestQuantity=50, ItemsPerDay=20, RowsPerBatch=3)
    for state, moved in (("done", 15), ("paused", 15)):
        batch = clerk("POST batches", {"Rows": rows}).json["Id"]
        body = {"Operation": "run-batch", "Subject": batch, "Reason": "Event"}
        decide(approver, clerk("POST approvals", body).json)
        clerk(f"POST batches/{batch}/run")
        while service(app, BatchWorker).work():
            pass
        assert (clerk(f"GET batches/{batch}").json["State"], held(db)) == (state, moved)
    assert approver("GET info/limits").json["LeftToday"] == 5
    assert clerk("GET info/limits").json["LeftToday"] == 10


def test_what_the_settings_name_needs_two_people(app, staff, senior, world, db):
    app.config["APPROVAL"] = ["batches > 1", "erasures"]
    world.add_user(Name="Bob")
    db.roles.insert_one(make_role("dpo", "privacy.erase", "users.read", "players.read"))
    db.users.update_one({"_id": staff.user["_id"]}, {"$set": {"Roles": ["dpo"]}})
    refused = staff("POST users/Bob/erase", {"Confirm": "Bob"}, 403).json
    assert refused["Code"] == "NEEDS_APPROVAL"
    assert refused["Message"].startswith("Here, erasures need two people (QM_APPROVAL).")
    erase = {"Operation": "erase", "Subject": "Bob", "Reason": "Letter of 3 May"}
    staff("POST approvals", {**erase, "Arguments": {"Confirm": "Bo"}}, 400)
    asked = staff("POST approvals", {**erase, "Arguments": {"Confirm": "Bob"}}).json
    decide(senior, asked)
    settle(db)
    service(app, Erasures).request_seconds = 0.0
    service(app, Erasures).continue_all()
    assert db.users.find_one({"Name": "Bob"}) is None
    # The request named the person.
    assert db.approvals.count_documents({}) == 0
    entry = db.history.find_one({"Operation": "erase"})
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Clerk", "Senior")
    rows = [
        {"Player": world.add_player()["Name"], "Operation": "give", "ItemId": ITEM, "Quantity": 1}
        for _ in range(2)
    ]
    small = staff("POST batches", {"Rows": rows[:1]}).json["Id"]
    assert staff(f"POST batches/{small}/advance").json["State"] == "done"
    large = staff("POST batches", {"Rows": rows}).json["Id"]
    for verb in ("run", "advance"):
        refused = staff(f"POST batches/{large}/{verb}", status=403).json
        assert refused["Code"] == "NEEDS_APPROVAL"


def test_changes_of_roles_need_two_people(app, staff, person, world, db):
    app.config["APPROVAL"] = ["roles"]
    junior = person("Junior", (Permission.STAFF_MANAGE, Permission.PLAYERS_READ))
    admin = person("Admin")
    world.add_user(Name="Bob")
    wanted = {"Permissions": ["players.read"], "Limits": None}
    for request, body in (
        ("PUT staff/Bob/roles", {"Roles": ["viewer"]}),
        ("POST roles", {"Name": "guest", **wanted}),
        ("PUT roles/viewer", wanted),
        ("DELETE roles/viewer", None),
        ("POST staff", {"Name": "Eve", "Email": "eve@example.com", "Roles": ["viewer"]}),
    ):
        assert admin(request, body, 403).json["Code"] == "NEEDS_APPROVAL", request
    more = {**wanted, "Permissions": ["players.read", "staff.manage"]}
    eve = {"Name": "Eve", "Email": "eve@example.com", "Roles": ["guest"]}
    requests = [
        ({"Operation": "create-role", "Arguments": {"Name": "guest", **wanted}}, "players.read"),
        (
            {"Operation": "set-roles", "Subject": "Bob", "Arguments": {"Roles": ["guest"]}},
            "players.read",
        ),
        ({"Operation": "invite", "Arguments": eve}, "players.read"),
        ({"Operation": "change-role", "Subject": "guest", "Arguments": more}, "staff.manage"),
        ({"Operation": "remove-role", "Subject": "guest"}, "staff.manage"),
    ]
    rights = {"role": Permission.STAFF_MANAGE, "user": Permission.USERS_READ}
    without = {
        kind: person(f"No{kind}", tuple(one for one in Permission if one is not lacking))
        for kind, lacking in rights.items()
    }
    for body, changed in requests:
        asked = junior("POST approvals", {**body, "Reason": "A new colleague"}).json
        # As in history, roles and users are for those who may see them.
        blind = without[asked["Subject"]["Kind"]]
        blind(f"GET approvals/{asked['Id']}", status=404)
        listed = [
            caller("GET approvals?state=waiting").json["Values"] for caller in (blind, junior)
        ]
        assert [len(values) for values in listed] == [0, 1]
        (rights,) = (one for one in asked["Plan"] if one["Path"] == "Permissions")
        assert {changed} <= {*rights["Before"]} ^ {*rights["After"]}, body
        entry = decide(admin, asked).json["Entry"]
        stored = admin(f"GET history/{entry}").json
        assert (stored["By"]["Name"], stored["ApprovedBy"]["Name"]) == ("Junior", "Admin")
    assert db.users.find_one({"Name": "Bob"})["Roles"] == ["guest"]
    invited = db.users.find_one({"Name": "Eve"})
    assert (invited["Roles"], invited["PasswordHash"]) == (["guest"], None)
    assert db.approvals.find_one({"Operation": "invite"})["Subject"]["Id"] == invited["_id"]
    # The address of somebody else is kept until a request is decided, and exported to nobody.
    finn = {"Name": "Finn", "Email": "finn@example.com", "Roles": ["viewer"]}
    body = {"Operation": "invite", "Arguments": finn, "Reason": "A new colleague"}
    asked = admin("POST approvals", body, Idempotency_Key="f").json
    assert asked["Arguments"]["Email"] == "finn@example.com"
    assert "finn@" not in staff("GET users/Admin/personal-data").text
    decide(admin, asked, "withdraw")
    assert admin("POST approvals", body, Idempotency_Key="f").json["State"] == "withdrawn"
    other = {**body, "Arguments": {**finn, "Roles": ["support"]}}
    assert admin("POST approvals", other, 409, Idempotency_Key="f").json["Code"] == "KEY_REUSED"
    assert list(db.approvals.find({"Arguments.Email": {"$exists": True}})) == []
    # Nobody gives what they do not have, not even with an approval.
    more = {"Name": "more", "Permissions": ["privacy.erase"], "Limits": None}
    body = {"Operation": "create-role", "Arguments": more, "Reason": "x"}
    assert junior("POST approvals", body, 403).json["Code"] == "MAY_NOT_GIVE"


def test_an_invitation_that_is_approved_again_is_the_same_answer(app, person, db, data_dir):
    app.config["APPROVAL"] = ["roles"]
    eve = {"Name": "Eve", "Email": "eve@example.com", "Roles": ["viewer"]}
    body = {"Operation": "invite", "Arguments": eve, "Reason": "A new colleague"}
    admin = person("Admin")
    asked = person("Junior")("POST approvals", body).json
    first, again = (decide(admin, asked) for _ in range(2))
    assert (again.json, again.headers["X-History-Id"]) == (first.json, first.json["Entry"])
    assert "Idempotency-Replayed" in again.headers
    assert db.users.count_documents({"Name": "Eve"}) == 1


def test_who_may_not_ask_is_not_told_what_exists(person, world, player):
    world.add_user(Name="Bob")
    reader = person("Reader", (Permission.HISTORY_READ,))
    known = {"player": "Aladric", "user": "Bob", "role": "viewer"}
    give, roles = ASK["Arguments"], {"Roles": ["viewer"]}
    for operation, kind, args in (
        *(("give", "player", give), ("delete-player", "player", {}), ("set-roles", "user", roles)),
        *(("erase", "user", {"Confirm": "Bob"}), ("reset-sign-in", "user", {})),
        *(("remove-role", "role", {}), ("change-role", "role", {"Permissions": []})),
        ("transfer", "player", {**give, "to": "Aladric"}),
    ):
        answers = [
            reader(
                "POST approvals",
                {"Operation": operation, "Subject": subject, "Arguments": args, "Reason": "x"},
                403,
            ).json
            for subject in (known[kind], "nobody")
        ]
        assert answers[0] == answers[1], operation


def test_a_colleague_who_may_approve_can_be_erased_by_request(person):
    """The mail to those who may approve leaves out the person."""
    asker, other = person("Asker"), person("Other")
    body = {"Operation": "erase", "Subject": "Other", "Arguments": {"Confirm": "Other"}}
    asked = asker("POST approvals", {**body, "Reason": "Has left"}).json
    assert asked["Subject"]["Id"] == other.user["_id"]


def test_an_approver_approves_the_permissions_that_they_saw(app, person, world, db):
    app.config["APPROVAL"] = ["roles"]
    junior, admin = person("Junior"), person("Admin")
    world.add_user(Name="Bob", Roles=["viewer"])
    body = {"Operation": "set-roles", "Subject": "Bob", "Arguments": {"Roles": ["support"]}}
    asked = junior("POST approvals", {**body, "Reason": "Promoted"}).json
    paths = [change["Path"] for change in asked["Plan"]]
    assert paths == ["Roles", "Permissions", "Limits.LargestQuantity", *paths[3:]]
    db.roles.insert_one(new_role("support", ["privacy.erase"], None))
    assert decide(admin, asked, status=409).json["Code"] == "PLAN_CHANGED"
    decide(admin, asked, body={"Plan": 2})
    assert db.users.find_one({"Name": "Bob"})["Roles"] == ["support"]
    # The person who asked must still have what they give.
    asked = junior("POST approvals", {**body, "Arguments": {"Roles": []}, "Reason": "x"}).json
    db.roles.update_one({"_id": "role of Junior"}, {"$pull": {"Permissions": "privacy.erase"}})
    assert decide(admin, asked, status=409).json["Code"] == "ASKER_MAY_NOT"


def test_a_transfer_over_a_limit_can_be_asked_for(clerk, senior, staff, player, world, db):
    world.add_player(Name="Bea")
    staff("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 50})
    args = {"itemid": ITEM, "quantity": 50, "to": "Bea"}
    refused = clerk("POST players/Aladric/items/transfer", args, 403).json
    assert "You can ask a colleague to approve it." in refused["Message"]
    body = {"Operation": "transfer", "Subject": "Aladric", "Arguments": args, "Reason": "x"}
    clerk("POST approvals", {**body, "Arguments": {**args, "to": "Aladric"}}, 400)
    asked = clerk("POST approvals", body).json
    assert asked["Plan"][0]["After"] is None
    # A name may become somebody else's before a colleague approves.
    db.players.update_one({"Name": "Bea"}, {"$set": {"Name": "Bee", "NameKey": "bee"}})
    world.add_player(Name="Bea")
    entry = senior(f"GET history/{decide(senior, asked).json['Entry']}").json
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Junior", "Senior")
    assert db.players.find_one({"Name": "Bee"})["Inventory"]["0"]["Quantity"] == 50
    assert held(db) == 50


def test_few_requests_of_a_person_wait_at_a_time(clerk, senior, player, data_dir, monkeypatch):
    monkeypatch.setattr(sys.modules[Approvals.__module__], "MOST_WAITING", 3)
    asked = [clerk("POST approvals", ASK, Idempotency_Key=str(n)).json for n in range(3)]
    refused = clerk("POST approvals", ASK, 409, Idempotency_Key="3").json
    assert refused["Code"] == "TOO_MANY_WAITING"
    assert clerk("POST approvals", ASK, Idempotency_Key="2").json == asked[2]
    assert len(mails(data_dir)) == 3
    decide(clerk, asked[0], "withdraw")
    clerk("POST approvals", ASK)
    # The link would have the host that the person who asks has sent.
    assert "http" not in mails(data_dir)[0].partition("Hello")[2]


def test_those_who_may_approve_get_a_mail(app, person, clerk, senior, player, data_dir, db):
    app.config["PUBLIC_URL"] = "https://qm.example.com"
    person("Other", (Permission.APPROVE, Permission.PLAYERS_READ))
    for name, state in (
        ("Invited", {"PasswordHash": None}),
        ("Banned", {"IsBanned": True}),
        ("Disabled", {"IsDisabled": True}),
    ):
        db.users.update_one({"_id": person(name).user["_id"]}, {"$set": state})
    for _ in range(2):
        asked = clerk("POST approvals", ASK, Idempotency_Key="a").json
    (mail,) = mails(data_dir)
    assert senior.user["Email"] in mail
    assert f"Junior asks for an approval: give 50 {ITEM}: Aladric." in mail
    assert "https://qm.example.com/console/approvals/" in mail
    for _ in range(2):
        decide(senior, asked, "decline", {"Why": "Not today."})
    _, told = mails(data_dir)
    assert clerk.user["Email"] in told
    assert f"Senior has declined your request: give 50 {ITEM}: Aladric." in told
    assert "Reason: Not today." in told
    decide(senior, clerk("POST approvals", ASK).json)
    assert "Senior has approved your request" in mails(data_dir)[-1]


def mails(data_dir):
    found = sorted((data_dir / "outbox").glob("*.eml"), key=lambda one: one.stat().st_mtime_ns)
    return [one.read_text().replace("=\n", "") for one in found]


def test_a_mail_that_cannot_be_sent_does_not_matter(clerk, senior, player, data_dir):
    (data_dir / "outbox").write_text("a file, where a folder should be")
    assert clerk("POST approvals", ASK).json["State"] == "waiting"


def test_a_wrong_rule_is_refused_at_the_start():
    for rules in ("batches>", "batches>many", "everything", "erasures>3", "batches<5"):
        with pytest.raises(config.SettingsError, match="QM_APPROVAL contains"):
            config.load({"QM_ENV": "testing", "QM_APPROVAL": rules})
    loaded = config.load({"QM_ENV": "testing", "QM_APPROVAL": "batches>500, erasures,roles"})
    assert loaded.APPROVAL == ["batches>500", "erasures", "roles"]


def test_erasing_people_leaves_their_ids_alone(app, clerk, senior, staff, player, db):
    asked = clerk("POST approvals", {**ASK, "Reason": "Junior said so"}).json
    decide(senior, asked)
    exported = staff("GET users/Senior/personal-data").json
    assert [one["Id"] for one in exported["Approvals"]] == [asked["Id"]]
    erasures = service(app, Erasures)
    erasures._settling = timedelta(0)
    for person in (clerk, senior):
        erasures.begin(person.user["_id"], meant("erase"))
        erasures.finish(person.user["_id"])
    stored = db.approvals.find_one()
    for name, person in (("By", clerk), ("DecidedBy", senior)):
        assert stored[name] == {"UserId": person.user["_id"], "Name": None}
    assert stored["Reason"] == "(erased) said so"
    entry = db.history.find_one({"Operation": "give"})
    assert entry["ApprovedBy"] == {"UserId": senior.user["_id"], "Name": None}
    assert list(erasures.find_returned()) == []


class TestConsole:
    @pytest.fixture
    def at_console(self, app):
        def sign_in(caller):
            somebody = Visitor(app)
            somebody.user = caller.user
            somebody.begin_session()
            return somebody

        return sign_in

    def test_a_refused_form_asks_and_a_colleague_approves(
        self, at_console, clerk, senior, player, db
    ):
        junior, approver = at_console(clerk), at_console(senior)
        fields = {"itemid": ITEM, "quantity": "50", "bankoverflow": "true"}
        assert "Ask for approval" not in junior.get("/players/Aladric").text
        refused = junior.submit("/players/Aladric/give", 403, **fields)
        assert 'name="ask" value="1">Ask for approval</button>' in refused.text
        assert "(LargestQuantity)" not in refused.text
        again = junior.submit("/players/Aladric/give", 400, ask="1", **fields)
        assert "Say why you ask." in page_of(again)
        assert "Ask for approval" in again.text
        asked = junior.submit("/players/Aladric/give", 303, ask="1", reason="Lost it", **fields)
        page = junior.led_to(asked)
        assert "Colleagues who may approve it see your request." in page_of(page)
        assert "Withdraw" in page.text
        assert ">Approve<" not in page.text
        stored = db.approvals.find_one()
        assert stored["Arguments"] == {"itemid": ITEM, "quantity": 50, "bankoverflow": True}
        path = f"/approvals/{stored['_id']}"
        assert re.search(r'Approvals</span><span class="n due">1</span>', approver.get("").text)
        assert "“Lost it”" in approver.read("/approvals")
        assert "Lost it" in approver.read(path)
        junior.submit(f"{path}/approve", 403, Plan="1")
        done = approver.submit(f"{path}/approve", 303, Plan="1")
        assert "done" in page_of(approver.led_to(done))
        assert held(db) == 50
        assert "approved by Senior" in approver.read("/players/Aladric/history")
        entry = db.approvals.find_one()["Entry"]
        assert re.search(r"Approved by\s*Senior", approver.read(f"/history/{entry}"))

    def test_undo_deletion_and_batch_can_be_asked_for(
        self, at_console, clerk, senior, staff, player, world, db
    ):
        junior, approver = at_console(clerk), at_console(senior)
        gift = {"itemid": ITEM, "quantity": 50}
        entry = staff("POST players/Aladric/items/give", gift).headers["X-History-Id"]
        rows = [
            {"Player": "Aladric", "Operation": "give", "ItemId": ITEM, "Quantity": 1}
            for _ in range(3)
        ]
        batch = clerk("POST batches", {"Name": "Small gifts", "Rows": rows}).json["Id"]
        assert "This is over your limit" in junior.read(f"/batches/{batch}")
        for path, fields in (
            (f"/history/{entry}/undo", {}),
            ("/players/Aladric/delete", {"confirm": "Aladric"}),
            (f"/batches/{batch}/run", {}),
        ):
            refused = junior.submit(path, 403, **fields)
            assert "Ask for approval" in refused.text, path
            asked = junior.submit(path, 303, ask="1", reason="Because", **fields)
            page = f"/approvals/{asked.headers['Location'].split('/')[-1].split('?')[0]}"
            approver.read(page)
            if "undo" in path:
                approver.submit(f"{page}/approve", 303)
                assert held(db) == 0
            elif "run" in path:
                # The name is the choice of the person who asks.
                assert re.search(r"What it does\s*Give", approver.read(page))
                # Older releases stored no summary.
                summary = db.batches.find_one_and_update({}, {"$unset": {"Summary": 1}})["Summary"]
                assert "Batch of 3 rows" in approver.read(page)
                db.batches.update_one({}, {"$set": {"Summary": summary}})
                lead = approver.submit(f"{page}/approve", 303)
                assert "can be run by the person who asked" in page_of(approver.led_to(lead))
            else:
                refused = approver.submit(f"{page}/decline", 400, Why="")
                assert "Reason" in page_of(refused)
                approver.submit(f"{page}/decline", 303, Why="Not today.")
                assert "Not today." in junior.read(page)
        assert len(re.findall("Because", approver.read("/approvals?state=decided"))) == 3
        junior.submit(f"/batches/{batch}/run", 303)
        entry = staff("POST players/Aladric/items/give", gift).headers["X-History-Id"]
        staff("POST players/Aladric/items/take", {"itemid": ITEM, "quantity": 20})
        junior.submit(f"/history/{entry}/undo-partial", 403, partial="true")
        junior.submit(
            f"/history/{entry}/undo-partial", 303, partial="true", ask="1", reason="Because"
        )
        assert db.approvals.count_documents({"Arguments": {"id": entry, "is_partial": True}}) == 1

    def test_changes_of_roles_are_asked_for_on_their_pages(
        self, app, at_console, person, world, db
    ):
        app.config["APPROVAL"] = ["roles"]
        junior, admin = at_console(person("Junior")), at_console(person("Admin"))
        bob = world.add_user(Name="Bob", Roles=["viewer"])["_id"]
        path = f"/staff/{bob}/roles"
        page = junior.get(f"/staff/{bob}").text
        box = re.search(r'name="([^"]*support)" value="true"', page)[1]
        fields = {box: "true", "seen": "0001-01-01T00:00:00.000Z"}
        assert "Ask for approval" in junior.submit(path, 403, **fields).text
        asked = junior.submit(path, 303, ask="1", reason="Promoted", **fields)
        page = asked.headers["Location"].removeprefix("/console").split("?")[0]
        text = admin.read(page)
        assert "Roles: +support, −viewer" in text
        assert "Permissions: +users.read, +users.find, +items.move" in text
        # As the form of the change itself, it asks again in a session that is not fresh.
        begun = {"BeganAt": datetime.now(timezone.utc) - timedelta(minutes=16)}
        db.refresh_tokens.update_many({"UserId": admin.user["_id"]}, {"$set": begun})
        assert "Is it still you?" in page_of(admin.submit(f"{page}/approve", 403, Plan="1"))
        db.refresh_tokens.update_many({}, {"$set": {"BeganAt": datetime.now(timezone.utc)}})
        lead = admin.submit(f"{page}/approve", 303, Plan="1")
        assert "Approved: the change is made." in page_of(admin.led_to(lead))
        assert db.users.find_one({"_id": bob})["Roles"] == ["support"]

    def test_a_request_names_items_and_the_receiver(
        self, at_console, clerk, senior, staff, world, db
    ):
        for name in ("Aladric", "Bea"):
            world.add_player(Name=name)
        staff("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 50})
        args = {"itemid": ITEM, "quantity": 50, "to": "Bea"}
        body = {"Operation": "transfer", "Subject": "Aladric", "Arguments": args, "Reason": "x"}
        asked = clerk("POST approvals", body).json
        text = at_console(senior).read(f"/approvals/{asked['Id']}")
        for part in ("Bea", "Bank overflow", "Inventory, slot 0"):
            assert part in text, part

    def test_a_new_plan_is_approved_on_the_page_that_shows_it(
        self, at_console, staff, senior, asked, db
    ):
        staff("POST players/Aladric/items/give", {"itemid": ITEM, "quantity": 3})
        approver, path = at_console(senior), f"/approvals/{asked['Id']}"
        refused = approver.submit(f"{path}/approve", 409, Plan="1")
        assert "approve that" in page_of(refused)
        plan = re.search(r'name="Plan" value="(\d)"', refused.text)[1]
        approver.submit(f"{path}/approve", 303, Plan=plan)
        assert held(db) == 53

    def test_a_request_is_withdrawn_on_its_page(self, at_console, clerk, asked):
        junior = at_console(clerk)
        junior.submit(f"/approvals/{asked['Id']}/withdraw", 303)
        assert "withdrawn" in junior.read(f"/approvals/{asked['Id']}")
