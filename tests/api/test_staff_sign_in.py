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
from app.cli.intents import run as run_command
from app.core.permissions import Permission, Role
from app.users import accounts
from app.users.hashing import Hasher
from app.users.mail import Mailer
from app.users.second_factor import management
from tests.applications import service
from tests.callers import Caller
from tests.console_visitor import PASSWORD, TOKEN, Visitor, page_of
from tests.factories import guid, make_factor, sha256
from tests.mongod import on_mongodb

EVE = {"Name": "Eve", "Email": "eve@example.com", "Roles": ["senior-support"]}
LINK = re.compile(r"/console/(invitation#\S+)")
CODE = re.compile(r"^ +([A-Z2-9]{8})\s*$", re.M)
NEW = {"new": sha256("chosen by somebody else")}
ITEM = guid()


@pytest.fixture
def mails(data_dir):
    """Return the mails that were written, oldest first."""

    def read():
        found = sorted((data_dir / "outbox").glob("*.eml"))
        return [file.read_text().replace("=\n", "").replace("=3D", "=") for file in found]

    return read


@pytest.fixture
def mallory(person):
    """Somebody who may do all that a colleague does, and manage accounts, but not staff."""
    return person("Mallory", tuple(one for one in Permission if one is not Permission.STAFF_MANAGE))


@pytest.fixture
def eve(world):
    """A colleague, who has a password and a second factor."""
    known = {"Name": "Eve", "Email": EVE["Email"], "Roles": EVE["Roles"]}
    return world.add_user(PASSWORD, **known, SecondFactor=make_factor())


def accept(app, link, password=PASSWORD):
    """Choose a password on the page of an invitation; return the status."""
    browser = Visitor(app)
    token = TOKEN.search(browser.get("/invitation").text)[1]
    fields = {"token": token, "invitation": link, "new": password, "again": password}
    return browser.send("/invitation", fields).status_code


def console_of(app, caller):
    somebody = Visitor(app)
    somebody.user = caller.user
    somebody.begin_session()
    return somebody


def ask(caller, status=200, **args):
    body = {"Operation": "reset-sign-in", "Subject": "Eve", "Arguments": args, "Reason": "Lost."}
    return caller("POST approvals", body, status).json


def test_nobody_becomes_the_colleague_who_approves(app, staff, mallory, mails, world, db):
    staff("POST staff", EVE)
    mallory("GET users/Eve/password/reset")
    invitation, reset = mails()
    assert "eve@example.com" in reset
    code, link = CODE.search(reset)[1], LINK.search(invitation)[1]
    eve = db.users.find_one({"Name": "Eve"})
    console = console_of(app, mallory)
    seen = [
        mallory("GET users/Eve").text,
        mallory("GET users?search=Eve").text,
        mallory("POST users", {"count": 100}).text,
        mallory("GET users/Eve/history").text,
        mallory("GET users/Eve/personal-data").text,
        *(console.get(f"/{path}").text for path in ("users/Eve", "users", "users/Eve/history")),
        staff("GET users/Eve").text,
    ]
    assert mallory("GET users/Eve").json["PasswordResetCode"] is None
    for secret in (code, link.rpartition(".")[2]):
        assert [text for text in seen if secret in text] == []
    # A code of a reset accepts no invitation, and voids none.
    assert accept(app, f"{eve['_id']}.{code}") == 403
    for request in ("manage/password/change", "manage/email/change"):
        body = NEW if "password" in request else {"new": "mallory2@example.com"}
        refused = mallory(f"POST users/Eve/{request}", body, 403)
        assert refused.json["Code"] == "SIGN_IN_OF_STAFF"
    assert db.users.find_one({"_id": eve["_id"]})["Email"] == "eve@example.com"
    assert accept(app, link) == 303
    world.add_player(Name="Aladric")
    gift = {"Operation": "give", "Subject": "Aladric", "Reason": "x"}
    asked = mallory("POST approvals", {**gift, "Arguments": {"itemid": ITEM, "quantity": 5}}).json
    own = mallory(f"POST approvals/{asked['Id']}/approve", status=403)
    assert own.json["Code"] == "OWN_REQUEST"


@pytest.mark.parametrize(
    "roles", [{"Roles": ["viewer"]}, {"GroupRoles": ["viewer"]}, {"Roles": ["a removed one"]}]
)
def test_others_set_nothing_of_an_account_with_a_role(app, world, db, staff, mails, roles):
    user = world.add_user(PASSWORD, Name="Eve", SecondFactor=make_factor(), **roles)
    before = db.users.find_one({"_id": user["_id"]})
    for request in (
        *(f"POST users/Eve/manage/{what}/change" for what in ("password", "email")),
        "DELETE users/Eve/second-factor",
    ):
        body = {"new": "other@example.com"} if "email" in request else NEW
        refused = staff(request, None if request.startswith("D") else body, 403).json
        assert (refused["Code"], "only its holder" in refused["Message"]) == (
            *("SIGN_IN_OF_STAFF", True),
        )
    console = console_of(app, staff)
    page = console.get("/users/Eve").text
    for form, fields in (
        ("email", {"new": "other@example.com"}),
        ("password", {"new": "long enough", "again": "long enough"}),
        ("second-factor", {}),
    ):
        assert f'id="form-{form}"' not in page, form
        refused = console.submit(f"/users/{user['_id']}/{form}", 403, confirm="Eve", **fields)
        assert "only its holder" in page_of(refused), form
    for command, arguments in (
        (run_command, ["reset-second-factor", "Eve"]),
        (token_command, ["Eve"]),
    ):
        done = app.test_cli_runner().invoke(command, arguments)
        assert done.exit_code, arguments
        # A role that was removed allows nothing, but the account is still one of staff.
        wanted = "role of staff" if command is run_command else " role "
        assert wanted in f"{done.output} {done.exception}"
    assert db.users.find_one({"_id": user["_id"]}) == before
    assert mails() == []


def test_the_holder_sets_it_with_the_own_password(staff, client, world, eve, db):
    own = {"authorization": sha256(PASSWORD)}
    staff("POST users/Eve/email/change", {**own, "new": "eva@example.com"})
    staff("POST users/Eve/password/change", {**own, **NEW})
    stored = db.users.find_one({"_id": eve["_id"]})
    assert (stored["Email"], stored["PasswordVersion"]) == ("eva@example.com", 1)


def test_a_first_role_voids_the_code_that_others_have_seen(staff, world, db, mails):
    world.add_user(PASSWORD, Name="Eve", Email="eve@example.com")
    staff("GET users/Eve/password/reset")
    code = staff("GET users/Eve").json["PasswordResetCode"]
    assert code == CODE.search(mails()[0])[1]
    staff("PUT staff/Eve/roles", {"Roles": ["support"]})
    assert staff("POST users/Eve/password/reset", {"code": code, **NEW}, 403)
    # A code that was mailed since then is the holder's, whatever other roles come.
    staff("GET users/Eve/password/reset")
    staff("PUT staff/Eve/roles", {"Roles": ["support", "viewer"]})
    assert staff("GET users/Eve").json["PasswordResetCode"] is None
    staff("POST users/Eve/password/reset", {"code": CODE.search(mails()[1])[1], **NEW})


def test_an_approved_first_role_voids_the_code_as_well(app, staff, person, world, db):
    app.config["APPROVAL"] = ["roles"]
    junior, admin = person("Junior"), person("Admin")
    world.add_user(PASSWORD, Name="Eve", Email="eve@example.com")
    staff("GET users/Eve/password/reset")
    body = {"Operation": "set-roles", "Subject": "Eve", "Arguments": {"Roles": ["support"]}}
    asked = junior("POST approvals", {**body, "Reason": "Promoted"}).json
    assert admin(f"POST approvals/{asked['Id']}/approve").json["State"] == "done"
    assert db.users.find_one({"Name": "Eve"})["Reset"] is None


@on_mongodb
def test_an_import_does_not_set_it(app, db, eve, tmp_path):
    record = {"Id": eve["_id"], "Name": "Eve", "Email": EVE["Email"]}
    other = {"Id": guid(), "Name": "Other", "Email": "other@example.com", "Password": "a" * 64}
    own_hash = db.users.find_one({"_id": eve["_id"]})["PasswordHash"]
    path = tmp_path / "users.jsonl"

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
    assert imported(other, record).exit_code == 0
    assert imported({**record, "PasswordHash": own_hash}).exit_code == 0
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
    staff, person, world, db, monkeypatch, what
):
    ann = person("Ann")
    where, step, request, body = SLOW[what]
    user = world.add_user(PASSWORD, Name="Eve", SecondFactor=make_factor(), Reset=None)
    former = getattr(where, step)
    began, given = Barrier(2), Barrier(2)

    def slowly(*arguments):
        result = former(*arguments)
        began.wait(60)
        given.wait(60)
        return result

    monkeypatch.setattr(where, step, slowly)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ann, request, body, None)
        began.wait(60)
        staff("PUT staff/Eve/roles", {"Roles": ["support"]})
        given.wait(60)
    refused = (answer.result().status_code, answer.result().json["Code"])
    assert refused == ((409, "CONFLICT") if what == "code" else (403, "SIGN_IN_OF_STAFF"))
    stored = db.users.find_one({"_id": user["_id"]})
    for name in ("PasswordHash", "PasswordVersion", "Email", "SecondFactor", "Reset"):
        assert stored[name] == user[name], name


class TestAsking:
    @pytest.fixture
    def demo(self, world, client):
        """Somebody whom Power alone lets do everything but approve."""
        user = world.add_user("demo", tuple(Role), Name="Demo")
        return Caller(client, world.headers(user=user), "/api/v1/", user)

    @pytest.mark.parametrize("power_role", ["", "economy"])
    def test_nobody_asks_through_an_account_of_which_they_set_the_password(
        self, app, person, demo, eve, client, db, monkeypatch, power_role
    ):
        monkeypatch.setattr(service(app, Callers), "_power_role", power_role)
        ann = person("Ann")
        ann("POST users/Demo/manage/password/change", NEW)
        form = {"grant_type": "password", "username": "Demo", "password": NEW["new"]}
        token = client.post("/api/oauth/token", json=form).json["access_token"]
        second = Caller(client, {"Authorization": f"Bearer {token}"}, "/api/v1/")
        for name, arguments in (
            ("reset-sign-in", {"Email": "mallory@example.com"}),
            ("set-roles", {"Roles": ["administrator"]}),
        ):
            body = {"Operation": name, "Subject": "Eve", "Arguments": arguments, "Reason": "x"}
            refused = second("POST approvals", body, 403).json
            assert refused["Code"] == "ASKER_NEEDS_ROLE"
            assert "Power alone does not count" in refused["Message"]
        assert db.approvals.count_documents({}) == 0

    def test_whoever_loses_the_role_has_asked_in_vain(self, person, demo, eve, db):
        ann = person("Ann")
        user = {"_id": demo.user["_id"]}
        db.users.update_one(user, {"$set": {"GroupRoles": ["viewer"]}})
        asked = ask(demo, Email="mallory@example.com")
        db.users.update_one(user, {"$unset": {"GroupRoles": ""}})
        refused = ann(f"POST approvals/{asked['Id']}/approve", status=409).json
        assert (refused["Code"], "rights that they do not have" in refused["Message"]) == (
            *("ASKER_MAY_NOT", True),
        )
        assert db.users.find_one({"_id": eve["_id"]})["Email"] == EVE["Email"]

    def test_the_console_offers_it_to_those_who_may(self, app, demo, person, eve, world):
        app.config["APPROVAL"] = ["roles"]
        path = f"/users/{eve['_id']}"
        for caller, is_offered in ((demo, False), (person("Ann"), True)):
            console = console_of(app, caller)
            assert ("Reset the sign-in" in console.read(path)) == is_offered
            refused = console.submit(f"/staff/{eve['_id']}/roles", 403, Roles="viewer")
            assert ("Ask for approval" in refused.text) == is_offered, page_of(refused)

    def test_a_limit_of_power_names_no_colleague(self, app, demo, world, monkeypatch):
        monkeypatch.setattr(service(app, Callers), "_power_role", "support")
        world.add_player(Name="Aladric")
        gift = {"itemid": ITEM, "quantity": 101}
        refused = demo("POST players/Aladric/items/give", gift, 403).json
        assert (refused["Code"], "colleague" in refused["Message"]) == ("OVER_LIMIT", False)


def test_a_forged_host_gets_into_no_mail_of_production(app, person, mails, db):
    admin, forged = person("Admin"), {"Host": "evil.example"}
    admin("POST staff", EVE, **forged)
    assert "http://evil.example/console/invitation#" in mails()[0]
    db.users.delete_one({"Name": "Eve"})
    app.config.update(ENV="production", MAIL_SERVER="mail.example.com")
    refused = admin("POST staff", EVE, 503, **forged)
    assert (refused.json["Code"], refused.json["Message"]) == (
        "PUBLIC_URL_NOT_SET",
        "The invitation could not be sent: its link needs the setting QM_PUBLIC_URL.",
    )
    assert refused.headers["Retry-After"]
    assert db.users.find_one({"Name": "Eve"}) is None
    app.config.update(PUBLIC_URL="https://qm.example.com", MAIL_SERVER="", ENV="testing")
    admin("POST staff", EVE, **forged)
    assert "https://qm.example.com/console/invitation#" in mails()[1]


class TestApproving:
    def test_nobody_approves_by_power_alone(self, app, staff, person, world, client):
        world.add_player(Name="Aladric")
        gift = {"Operation": "give", "Subject": "Aladric", "Reason": "x"}
        body = {**gift, "Arguments": {"itemid": ITEM, "quantity": 5}}
        asked = person("Asker")("POST approvals", body).json
        refused = staff(f"POST approvals/{asked['Id']}/approve", status=403).json
        assert (refused["Code"], "'approve'" in refused["Message"]) == ("PERMISSION_MISSING", True)
        console_of(app, staff).submit(f"/approvals/{asked['Id']}/approve", 403)
        both = world.add_user(roles=tuple(Role), Name="Both", Roles=["economy"])
        Caller(client, world.headers(user=both), "/api/v1/")(
            f"POST approvals/{asked['Id']}/approve"
        )

    def test_power_gives_it_and_acts_on_those_who_have_it(self, app, staff, db):
        staff("POST staff", {**EVE, "Roles": ["administrator"]})
        staff("POST roles", {"Name": "deciders", "Permissions": ["approve"]})
        staff("POST users/Eve/admin/mute", {"duration": 1, "reason": "x"})
        page = console_of(app, staff).get("/roles").text
        assert "You do not have it yourself" not in page


class TestReset:
    def test_a_third_person_approves_and_the_holder_is_mailed(
        self, app, person, eve, mails, db, client, world
    ):
        asker, third = person("Asker"), person("Third")
        own = Caller(client, world.headers(user=eve), "/api/v1/", eve)
        assert ask(own, 403)["Code"] == "PERMISSION_MISSING"
        asked = ask(asker, Email="eva@example.com")
        assert asked["Plan"] == []
        path = f"POST approvals/{asked['Id']}/approve"
        assert asker(path, status=403).json["Code"] == "OWN_REQUEST"
        own(path, status=403)
        assert db.users.find_one({"_id": eve["_id"]})["SecondFactor"]
        sent = len(mails())
        done = third(path).json
        entry = third(f"GET history/{done['Entry']}").json
        assert [entry["By"]["Name"], entry["ApprovedBy"]["Name"]] == ["Asker", "Third"]
        assert "eva@" not in json.dumps([done, entry])
        stored = db.users.find_one({"_id": eve["_id"]})
        assert (stored["Email"], stored["SecondFactor"]) == ("eva@example.com", None)
        own("GET info", status=401)
        told = [mail for mail in mails()[sent:] if "sign-in for" in mail]
        assert [re.search(r"^To: (.*)$", mail, re.M)[1] for mail in told] == [
            *("eve@example.com", "eva@example.com"),
        ]
        assert all("Asker has reset" in mail and "Third has" in mail for mail in told)
        # Sent again, it is the same answer.
        assert third(path).json == done
        assert len(mails()) == sent + 3

    def test_the_holder_does_not_approve_whatever_roles_they_have(self, person, mails, db):
        asker, holder = person("Asker"), person("Eve")
        asked = ask(asker)
        assert ask(holder, 403)["Code"] == "OWN_SIGN_IN"
        for verb, body in (("approve", None), ("decline", {"Why": "No."})):
            refused = holder(f"POST approvals/{asked['Id']}/{verb}", body, 403).json
            assert refused["Code"] == "OWN_SIGN_IN"
        assert mails() == []

    def test_those_who_may_do_less_neither_ask_nor_approve(self, person, world):
        person("Eve")
        lead = person("Lead", (*Permission,)[:-1])
        assert ask(lead, 403)["Code"] == "NOT_PEER"
        asked = ask(person("Asker"))
        refused = lead(f"POST approvals/{asked['Id']}/approve", status=403).json
        assert refused["Code"] == "NOT_PEER"
        assert ask(person("Other"), 400, Email="nowhere")["Message"]

    def test_an_address_of_somebody_else_is_refused(self, person, eve, world, db):
        world.add_user(Name="Bob", Email="bob@example.com")
        asker, third = person("Asker"), person("Third")
        asked = ask(asker, Email="bob@example.com")
        refused = third(f"POST approvals/{asked['Id']}/approve", status=None)
        assert (refused.status_code, refused.json["Code"]) == (409, "EMAIL_TAKEN")
        assert third(f"GET approvals/{asked['Id']}").json["State"] == "waiting"

    def test_it_is_asked_for_and_approved_at_the_console(self, app, person, eve, db):
        asker, third = (console_of(app, person(name)) for name in ("Asker", "Third"))
        path = f"/users/{eve['_id']}"
        assert "Reset the sign-in" in asker.read(path)
        assert "Reset the sign-in" not in asker.read(f"/users/{asker.user['_id']}")
        assert "Say why you ask." in page_of(asker.submit(f"{path}/reset-sign-in", 400))
        fields = {"Email": "eva@example.com", "reason": "Lost phone"}
        asked = asker.submit(f"{path}/reset-sign-in", 303, **fields)
        page = asked.headers["Location"].removeprefix("/console").split("?")[0]
        assert "eva@example.com" in third.read(page)
        begun = {"BeganAt": datetime.now(timezone.utc) - timedelta(minutes=16)}
        db.refresh_tokens.update_many({"UserId": third.user["_id"]}, {"$set": begun})
        assert "Is it still you?" in page_of(third.submit(f"{page}/approve", 403, Plan="1"))
        db.refresh_tokens.update_many({}, {"$set": {"BeganAt": datetime.now(timezone.utc)}})
        third.submit(f"{page}/approve", 303, Plan="1")
        assert db.users.find_one({"_id": eve["_id"]})["Email"] == "eva@example.com"

    def test_without_a_third_person_it_is_done_at_the_machine(self, app, eve, db, mails):
        run = app.test_cli_runner().invoke
        arguments = ["reset-sign-in", "Eve", "Email=eva@example.com", "--reason", "Lost"]
        assert run(run_command, arguments).exit_code == 0
        stored = db.users.find_one({"_id": eve["_id"]})
        assert (stored["Email"], stored["SecondFactor"], stored["Roles"]) == (
            *("eva@example.com", None),
            EVE["Roles"],
        )
        entry = db.history.find_one({"Operation": "reset-sign-in"})
        assert (entry["Via"], entry["Reason"]) == ("cli", "Lost")
        assert len(mails()) == 2
