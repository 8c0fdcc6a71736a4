"""The sign-in of an account with a role of staff is set by its holder alone."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Barrier

import pytest

from app.auth.callers import Callers
from app.cli.accounts import token as token_command
from app.cli.data import import_records
from app.core.permissions import Permission, Role
from app.users import accounts
from app.users.hashing import Hasher
from app.users.mail import Mailer
from app.users.second_factor import management
from tests.applications import service
from tests.callers import Caller, bearer
from tests.console_visitor import PASSWORD, TOKEN, Visitor, page_of
from tests.factories import guid, make_factor, sha256
from tests.mongod import on_mongodb

EVE = {"Name": "Eve", "Email": "eve@example.com", "Roles": ["senior-support"]}
NEW = {"new": sha256("chosen by somebody else")}
GIFT = {"itemid": guid(), "quantity": 101}


@pytest.fixture
def eve(world):
    """A colleague, who has a password and a second factor."""
    return world.add_user(PASSWORD, **EVE, SecondFactor=make_factor())


@pytest.fixture
def player_eve(world):
    """An account without a role, which may get one."""
    return world.add_user(PASSWORD, Name="Eve", Email=EVE["Email"], SecondFactor=make_factor())


@pytest.fixture
def demo(world, caller_of):
    """Somebody whom Power alone lets do everything but approve."""
    return caller_of(world.add_user("demo", tuple(Role), Name="Demo"))


@pytest.fixture
def third(person):
    return person("Third")


@pytest.fixture
def console_of(app):
    """Return the console of a caller."""

    def console_of(caller):
        somebody = Visitor(app)
        somebody.user = caller.user
        somebody.begin_session()
        return somebody

    return console_of


def code_in(mail):
    return re.search(r"^ +([A-Z2-9]{8})\s*$", text_of(mail), re.M)[1]


def text_of(mail):
    return mail.get_body(("plain",)).get_content()


def ask(caller, status=200, **args):
    body = {"Operation": "reset-sign-in", "Subject": "Eve", "Arguments": args, "Reason": "Lost."}
    return caller("POST approvals", body, status).json


def test_nobody_sees_a_code_of_a_colleague(browser, staff, person, console_of, mails, db):
    not_staff = [one for one in Permission if one is not Permission.STAFF_MANAGE]
    mallory = person("Mallory", not_staff)
    staff("POST staff", EVE)
    mallory("GET users/Eve/password/reset")
    invitation, reset = mails()
    assert "eve@example.com" in reset["To"]
    link = re.search(r"/console/invitation#(\S+)", text_of(invitation))[1]
    user_id, _, secret = link.partition(".")
    console = console_of(mallory)
    seen = [
        mallory("GET users/Eve").text,
        mallory("GET users?search=Eve").text,
        mallory("POST users", {"count": 100}).text,
        mallory("GET users/Eve/history").text,
        mallory("GET users/Eve/personal-data").text,
        *(console.get(f"/{path}").text for path in ("users/Eve", "users", "users/Eve/history")),
        staff("GET users/Eve").text,
    ]
    for code in (code_in(reset), secret):
        assert [text for text in seen if code in text] == []
    # A code of a reset accepts no invitation, and voids none.
    token = TOKEN.search(browser.get("/invitation").text)[1]
    chosen = {"token": token, "new": PASSWORD, "again": PASSWORD}
    for code, status in ((code_in(reset), 403), (secret, 303)):
        answer = browser.send("/invitation", {**chosen, "invitation": f"{user_id}.{code}"})
        assert answer.status_code == status


@pytest.mark.parametrize(
    "roles", [{"Roles": ["viewer"]}, {"GroupRoles": ["viewer"]}, {"Roles": ["a removed one"]}]
)
def test_others_set_nothing_of_an_account_with_a_role(
    app, world, db, staff, mails, console_of, roles
):
    user = world.add_user(PASSWORD, Name="Eve", SecondFactor=make_factor(), **roles)
    page = console_of(staff).get("/users/Eve").text
    for form, request, body in (
        ("password", "POST users/Eve/manage/password/change", NEW),
        ("email", "POST users/Eve/manage/email/change", {"new": "other@example.com"}),
        ("second-factor", "DELETE users/Eve/second-factor", None),
    ):
        refused = staff(request, body, 403).json
        assert refused["Code"] == "SIGN_IN_OF_STAFF"
        assert "only its holder" in refused["Message"]
        assert f'id="form-{form}"' not in page
    done = app.test_cli_runner().invoke(token_command, ["Eve"])
    assert " role " in f"{done.output} {done.exception}"
    assert db.users.find_one({"_id": user["_id"]}) == user
    assert mails() == []


def test_the_holder_sets_it_with_the_own_password(staff, eve, db):
    own = {"authorization": sha256(PASSWORD)}
    staff("POST users/Eve/email/change", {**own, "new": "eva@example.com"})
    staff("POST users/Eve/password/change", {**own, **NEW})
    stored = db.users.find_one({"_id": eve["_id"]})
    assert (stored["Email"], stored["PasswordVersion"]) == ("eva@example.com", 1)


def test_a_first_role_voids_the_code_that_others_have_seen(staff, player_eve, mails):
    staff("GET users/Eve/password/reset")
    code = staff("GET users/Eve").json["PasswordResetCode"]
    assert code == code_in(mails()[0])
    staff("PUT staff/Eve/roles", {"Roles": ["support"]})
    staff("POST users/Eve/password/reset", {"code": code, **NEW}, 403)
    # A code that was mailed since then is the holder's, whatever other roles come.
    staff("GET users/Eve/password/reset")
    staff("PUT staff/Eve/roles", {"Roles": ["support", "viewer"]})
    assert staff("GET users/Eve").json["PasswordResetCode"] is None
    staff("POST users/Eve/password/reset", {"code": code_in(mails()[1]), **NEW})


@on_mongodb
def test_an_import_does_not_set_it(app, db, eve, tmp_path):
    record = {"Id": eve["_id"], "Name": "Eve", "Email": EVE["Email"]}
    other = {"Id": guid(), "Name": "Other", "Email": "other@example.com", "Password": "a" * 64}
    own_hash, path = eve["PasswordHash"], tmp_path / "users.jsonl"

    def imported(*records):
        path.write_text("\n".join(map(json.dumps, records)))
        return app.test_cli_runner().invoke(import_records, ["users", str(path)])

    for wrong in (
        {"Password": "a" * 64},
        {"PasswordHash": own_hash[:-1] + ("a" if own_hash[-1] != "a" else "b")},
        {"Email": "mallory@example.com"},
    ):
        done = imported(other, {**record, **wrong})
        assert "Line 2: This account has a role of staff" in done.output, done.output
    assert db.users.count_documents({}) == 1
    for same in ({}, {"PasswordHash": own_hash}):
        assert imported(other, {**record, **same}).exit_code == 0
    stored = db.users.find_one({"_id": eve["_id"]})
    assert (stored["PasswordHash"], stored["Roles"]) == (own_hash, EVE["Roles"])


# What passes after the first check for a role, so that one can be given meanwhile.
SLOW = {
    "password": (Hasher, "hash", "POST users/Eve/manage/password/change", NEW),
    "address": (
        *(accounts, "checked_password"),
        *("POST users/Eve/manage/email/change", {"new": "mallory@example.com"}),
    ),
    "factor": (management, "require_not_staff", "DELETE users/Eve/second-factor", None),
    "code": (Mailer, "send_code", "GET users/Eve/password/reset", None),
}


@pytest.mark.parametrize("what", SLOW)
def test_a_first_role_that_is_given_meanwhile_protects_as_well(
    staff, third, player_eve, db, monkeypatch, what
):
    where, step, request, body = SLOW[what]
    former, began, given = getattr(where, step), Barrier(2), Barrier(2)

    def slowly(*arguments):
        result = former(*arguments)
        began.wait(60)
        given.wait(60)
        return result

    monkeypatch.setattr(where, step, slowly)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(third, request, body, None)
        began.wait(60)
        staff("PUT staff/Eve/roles", {"Roles": ["support"]})
        given.wait(60)
    refused = (answer.result().status_code, answer.result().json["Code"])
    assert refused == ((409, "CONFLICT") if what == "code" else (403, "SIGN_IN_OF_STAFF"))
    stored = db.users.find_one({"_id": player_eve["_id"]})
    for name in ("PasswordHash", "PasswordVersion", "Email", "SecondFactor", "Reset"):
        assert stored[name] == player_eve[name], name


@pytest.mark.parametrize("power_role", ["", "economy"])
def test_nobody_asks_through_an_account_of_which_they_set_the_password(
    app, third, demo, eve, client, sign_in, db, monkeypatch, power_role
):
    monkeypatch.setattr(service(app, Callers), "_power_role", power_role)
    third("POST users/Demo/manage/password/change", NEW)
    token = sign_in("Demo", "chosen by somebody else").json["access_token"]
    second = Caller(client, bearer(token), "/api/v1/")
    for name, arguments in (
        ("reset-sign-in", {"Email": "mallory@example.com"}),
        ("set-roles", {"Roles": ["administrator"]}),
    ):
        body = {"Operation": name, "Subject": "Eve", "Arguments": arguments, "Reason": "x"}
        refused = second("POST approvals", body, 403).json
        assert refused["Code"] == "ASKER_NEEDS_ROLE"
        assert "Power alone does not count" in refused["Message"]
    assert db.approvals.count_documents({}) == 0


def test_whoever_loses_the_role_has_asked_in_vain(third, demo, eve, db):
    user = {"_id": demo.user["_id"]}
    db.users.update_one(user, {"$set": {"GroupRoles": ["viewer"]}})
    asked = ask(demo, Email="mallory@example.com")
    db.users.update_one(user, {"$unset": {"GroupRoles": ""}})
    refused = third(f"POST approvals/{asked['Id']}/approve", status=409).json
    assert refused["Code"] == "ASKER_MAY_NOT"
    assert "rights that they do not have" in refused["Message"]
    assert db.users.find_one({"_id": eve["_id"]})["Email"] == EVE["Email"]


def test_the_console_offers_to_ask_to_those_who_may(app, demo, third, eve, console_of):
    app.config["APPROVAL"] = ["roles"]
    for caller, is_offered in ((demo, False), (third, True)):
        console = console_of(caller)
        assert ("Reset the sign-in" in console.read(f"/users/{eve['_id']}")) == is_offered
        refused = console.submit(f"/staff/{eve['_id']}/roles", 403, Roles="viewer")
        assert ("Ask for approval" in refused.text) == is_offered, page_of(refused)


def test_a_limit_of_power_names_no_colleague(app, demo, player, monkeypatch):
    monkeypatch.setattr(service(app, Callers), "_power_role", "support")
    refused = demo("POST players/Aladric/items/give", GIFT, 403).json
    assert (refused["Code"], "colleague" in refused["Message"]) == ("OVER_LIMIT", False)


def test_a_forged_host_gets_into_no_mail_of_production(app, third, mails, db):
    forged = {"Host": "evil.example"}
    third("POST staff", EVE, **forged)
    assert "http://evil.example/console/invitation#" in text_of(mails()[0])
    db.users.delete_one({"Name": "Eve"})
    app.config.update(ENV="production", MAIL_SERVER="mail.example.com")
    refused = third("POST staff", EVE, 503, **forged)
    assert (refused.json["Code"], refused.json["Message"]) == (
        "PUBLIC_URL_NOT_SET",
        "The invitation could not be sent: its link needs the setting QM_PUBLIC_URL.",
    )
    assert refused.headers["Retry-After"]
    assert db.users.find_one({"Name": "Eve"}) is None
    app.config.update(PUBLIC_URL="https://qm.example.com", MAIL_SERVER="", ENV="testing")
    third("POST staff", EVE, **forged)
    assert "https://qm.example.com/console/invitation#" in text_of(mails()[1])


def test_a_third_person_approves_a_reset_and_the_holder_is_mailed(
    person, third, eve, mails, db, caller_of
):
    asker, own = person("Asker"), caller_of(eve)
    asked = ask(asker, Email="eva@example.com")
    assert asked["Plan"] == []
    approve = f"POST approvals/{asked['Id']}/approve"
    assert asker(approve, status=403).json["Code"] == "OWN_REQUEST"
    assert db.users.find_one({"_id": eve["_id"]})["SecondFactor"]
    sent = len(mails())
    done = third(approve).json
    entry = third(f"GET history/{done['Entry']}").json
    assert [entry["By"]["Name"], entry["ApprovedBy"]["Name"]] == ["Asker", "Third"]
    assert "eva@" not in json.dumps([done, entry])
    stored = db.users.find_one({"_id": eve["_id"]})
    assert (stored["Email"], stored["SecondFactor"]) == ("eva@example.com", None)
    own("GET info", status=401)
    told = [mail for mail in mails()[sent:] if "sign-in for" in mail["Subject"]]
    assert [mail["To"] for mail in told] == ["eve@example.com", "eva@example.com"]
    for mail in told:
        assert "Asker has reset" in text_of(mail)
        assert "Third has" in text_of(mail)
    # Sent again, it is the same answer.
    assert third(approve).json == done
    assert len(mails()) == sent + 3


def test_the_holder_does_not_approve_whatever_roles_they_have(person, mails):
    holder = person("Eve")
    asked = ask(person("Asker"))
    assert ask(holder, 403)["Code"] == "OWN_SIGN_IN"
    for verb, body in (("approve", None), ("decline", {"Why": "No."})):
        refused = holder(f"POST approvals/{asked['Id']}/{verb}", body, 403).json
        assert refused["Code"] == "OWN_SIGN_IN"
    assert mails() == []


def test_those_who_may_do_less_neither_ask_for_a_reset_nor_approve(person, third):
    person("Eve")
    lead = person("Lead", (*Permission,)[:-1])
    assert ask(lead, 403)["Code"] == "NOT_PEER"
    asked = ask(third)
    assert lead(f"POST approvals/{asked['Id']}/approve", status=403).json["Code"] == "NOT_PEER"


def test_an_address_of_somebody_else_is_refused(person, third, eve, world):
    world.add_user(Name="Bob", Email="bob@example.com")
    ask(third, 400, Email="nowhere")
    asked = ask(person("Asker"), Email="bob@example.com")
    refused = third(f"POST approvals/{asked['Id']}/approve", status=409)
    assert refused.json["Code"] == "EMAIL_TAKEN"
    assert third(f"GET approvals/{asked['Id']}").json["State"] == "waiting"


def test_a_reset_is_approved_at_the_console_by_who_proves_it(person, third, eve, db, console_of):
    asked, third = ask(person("Asker"), Email="eva@example.com"), console_of(third)
    why = page_of(third.submit(f"/users/{eve['_id']}/reset-sign-in", 400))
    assert "Say why you ask." in why
    page = f"/approvals/{asked['Id']}"
    assert "eva@example.com" in third.read(page)
    now = datetime.now(timezone.utc)
    for minutes, status in ((16, 403), (0, 303)):
        begun = {"$set": {"BeganAt": now - timedelta(minutes=minutes)}}
        db.refresh_tokens.update_many({"UserId": third.user["_id"]}, begun)
        answer = third.submit(f"{page}/approve", status, Plan="1")
        assert ("Is it still you?" in page_of(answer)) == (status == 403)
    assert db.users.find_one({"_id": eve["_id"]})["Email"] == "eva@example.com"
