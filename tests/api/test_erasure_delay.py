"""An erasure that waits is shown, withdrawn or carried out, and never both."""

import threading
from datetime import timedelta

import pytest

from app.auth.roles import Role
from app.errors import Conflict, QuartermasterError
from app.privacy.domain import DUE, schedule, withdraw
from app.privacy.store import Erasures
from app.storage.unfinished import UnfinishedWork
from tests import people
from tests.applications import service
from tests.callers import Caller
from tests.console_visitor import page_of, visitor
from tests.factories import NOW, make_factor, moment
from tests.mongod import on_mongodb

PATH = f"users/{people.NAME}/erase"
CONFIRM = {"Confirm": people.NAME}


@pytest.fixture
def settings(settings):
    settings.ERASURE_DELAY_DAYS = 7
    return settings


@pytest.fixture
def person(world, client):
    return people.build(world, client)[0]


@pytest.fixture
def erasures(app, monkeypatch):
    found = service(app, Erasures)
    monkeypatch.setattr(found, "_seconds_to_settle", lambda *_: 0.0)
    return found


@pytest.fixture
def work(app):
    """Let the housekeeping of a worker run once."""
    return service(app, UnfinishedWork).finish_all


def let_it_be_due(db, person):
    db.users.update_one({"_id": person}, {"$set": {f"{DUE}.At": NOW}})


def test_an_erasure_waits_and_is_carried_out_when_it_is_due(staff, person, db, erasures, work):
    planned = staff(f"POST {PATH}", CONFIRM).json
    assert (planned["BegunAt"], planned["FinishedAt"]) == (None, None)
    assert moment(planned["DueAt"]) - erasures._clock.now() > timedelta(days=6)
    assert staff(f"POST {PATH}", CONFIRM).json == planned  # asked for twice, it waits no longer
    work()
    assert db.users.find_one({"_id": person})["PasswordHash"] is not None
    # Another name does not save anybody: the erasure knows the account by its id.
    staff(f"POST users/{person}/name", {"Name": "renamed"})
    let_it_be_due(db, person)
    work()
    work()
    assert db.users.find_one({"_id": person}) is None
    assert erasures.find(person, None)["FinishedAt"] is not None
    assert people.found_in(db) == []
    (entry,) = db.history.find({"Operation": "erase"})
    assert (entry["By"]["UserId"], entry["By"]["Name"]) == (staff.user["_id"], "Clerk")


def test_an_approved_erasure_that_waits_names_both_people(
    app, client, world, staff, person, db, erasures, work
):
    app.config["APPROVAL"] = ["erasures"]
    second = world.add_user(roles=tuple(Role), Name="Second", Roles=["economy"])
    ask = {"Operation": "erase", "Subject": people.NAME, "Arguments": CONFIRM, "Reason": "Asked"}
    asked = staff("POST approvals", ask).json
    approver = Caller(client, world.headers(user=second), "/api/v1/")
    approver(f"POST approvals/{asked['Id']}/approve")
    let_it_be_due(db, person)
    work()
    work()
    (entry,) = db.history.find({"Operation": "erase"})
    assert (entry["By"]["Name"], entry["ApprovedBy"]["Name"]) == ("Clerk", "Second")


def test_two_administrators_do_not_plan_to_erase_each_other(client, world):
    fields = {"Roles": ["administrator"], "SecondFactor": make_factor()}
    users = [world.add_user("secret", Name=name, **fields) for name in ("One", "Two")]
    callers = [Caller(client, world.headers(user=user), "/api/v1/") for user in users]
    callers[0]("POST users/Two/erase", {"Confirm": "Two"})
    refused = callers[1]("POST users/One/erase", {"Confirm": "One"}, 409)
    assert refused.json["Code"] == "LAST_ADMINISTRATOR"
    # Nor may the only one left lose the role while the other waits to be erased.
    refused = callers[0]("PUT staff/One/roles", {"Roles": []}, 409)
    assert refused.json["Code"] == "LAST_ADMINISTRATOR"


def test_a_planned_erasure_is_withdrawn_by_undo_and_not_restored_by_another(
    staff, person, db, erasures, work
):
    staff(f"POST {PATH}", CONFIRM)
    (entry,) = staff(f"GET users/{person}/history?operation=schedule-erasure").json["Values"]
    undone = staff(f"POST history/{entry['Id']}/undo", {}).json
    assert db.users.find_one({"_id": person})[DUE] is None
    answer = staff(f"POST history/{undone['Id']}/undo", {}, status=409).json
    assert answer["Message"] == "The erasure was withdrawn: ask for it again instead."
    let_it_be_due(db, "nobody")
    work()
    assert db.users.find_one({"_id": person})["PasswordHash"] is not None
    staff(f"POST {PATH}", CONFIRM)
    assert db.users.find_one({"_id": person})[DUE] is not None


def test_what_has_begun_is_not_withdrawn(staff, person, db, erasures, work, monkeypatch):
    """Not even if the process that began it has died, after which another one finishes it."""
    staff(f"POST {PATH}", CONFIRM)
    (entry,) = staff(f"GET users/{person}/history?operation=schedule-erasure").json["Values"]
    let_it_be_due(db, person)

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Erasures, "begin", die)
        with pytest.raises(Killed):
            work()
    answer = staff(f"POST history/{entry['Id']}/undo", {}, status=409).json
    assert answer["Message"] == "The erasure has begun, and cannot be withdrawn any more."
    work()
    work()
    assert db.users.find_one({"_id": person}) is None


def test_who_has_other_rights_or_is_online_by_then_is_not_erased(staff, person, db, erasures, work):
    staff(f"POST {PATH}", CONFIRM)
    let_it_be_due(db, person)
    db.users.update_one({"_id": person}, {"$set": {"Roles": ["administrator"]}})
    work()
    assert db.users.find_one({"_id": person})["PasswordHash"] is not None
    db.users.update_one({"_id": person}, {"$unset": {"Roles": ""}})
    now = erasures._clock.now()
    db.players.update_many({"UserId": person}, {"$set": {"Online": True, "LastSeen": now}})
    work()
    assert db.users.find_one({"_id": person})["PasswordHash"] is not None
    db.players.update_many({"UserId": person}, {"$set": {"Online": False}})
    work()
    assert erasures.find(person, None) is not None


@on_mongodb
def test_a_withdrawal_at_the_same_moment_wins_or_loses_wholly(
    app, staff, world, client, db, erasures, work
):
    for number in range(12):
        user = world.add_user(Name=f"raced{number}")
        staff(f"POST users/{user['_id']}/erase", {"Confirm": user["Name"]})
        path = f"GET users/{user['_id']}/history?operation=schedule-erasure"
        (entry,) = staff(path).json["Values"]
        let_it_be_due(db, user["_id"])
        begin = threading.Barrier(2)

        def erase(begin=begin):
            begin.wait()
            work()

        thread = threading.Thread(target=erase)
        thread.start()
        begin.wait()
        answer = staff(f"POST history/{entry['Id']}/undo", {}, status=None)
        is_withdrawn = answer.status_code == 200
        thread.join()
        work()
        kept = db.users.find_one({"_id": user["_id"]})
        assert (kept is not None) == is_withdrawn
        assert (erasures.find(user["_id"], None) is None) == is_withdrawn


def test_the_page_shows_when_by_whom_and_why_and_withdraws_it(app, world, client, person, db):
    manager = visitor(app, world, *Role)
    path = f"/users/{person}"
    assert "It waits for 7 days." in manager.read(path)
    answer = manager.submit(f"{path}/erase", 303, Confirm=people.NAME, reason="Asked by mail")
    page = manager.led_to(answer)
    text = page_of(page)
    assert "This person will be erased" in text
    assert "The erasure is planned." in text
    assert all(part in text for part in ("Asked by mail", manager.user["Name"], "to be erased"))
    assert "form-erase" not in page.text
    entry = db.users.find_one({"_id": person})["Journal"][-1]
    assert entry["Operation"] == "schedule-erasure"
    undone = manager.submit(f"/history/{entry['_id']}/undo", 303, back=f"/console{path}")
    assert "Erasure withdrawn" in page_of(manager.led_to(undone))
    assert "will be erased" not in manager.read(path)


def test_the_rules_are_pure():
    planned = schedule({"Power": {}}, at=NOW, by="me")
    assert planned.fields == {
        DUE: {"At": NOW, "By": "me", "ApprovedBy": None, "Rights": {"Power": {}}}
    }
    assert schedule(planned.fields, at=NOW + timedelta(1), by="you").fields == {}
    change = [{"Path": DUE, "Before": None, "After": planned.fields[DUE]}]
    assert withdraw(planned.fields, changes=change).fields == {DUE: None}
    for user, changes in (
        ({DUE: None}, change),
        ({DUE: {"At": NOW, "IsBegun": True}}, change),
        (planned.fields, [{"Path": DUE, "Before": {}, "After": None}]),
    ):
        with pytest.raises(Conflict):
            withdraw(user, changes=changes)
    assert issubclass(Conflict, QuartermasterError)
