"""The pages of staff and roles: the week of somebody who heads a support team."""

from datetime import timedelta
from unittest.mock import Mock

import pytest

from app.console.staff.views import GROUPS
from app.core.errors import Invalid
from app.core.permissions import Permission
from app.history.reports import store as reports
from app.storage.client import Storage
from tests.applications import service
from tests.console_visitor import PASSWORD, Visitor, fields_in, markup_of, page_of
from tests.factories import make_entry, make_role

HOSTILE = '"><script>alert(1)</script>'
NEWBIE = {"Name": "Newbie", "Email": "newbie@example.com", "may-support": "true"}


@pytest.fixture
def somebody(app, world):
    """Return a way to sign in as somebody with these named roles."""

    def sign_in(*roles, **fields):
        browser = Visitor(app)
        browser.user = world.add_user(PASSWORD, Roles=list(roles), **fields)
        browser.begin_session()
        return browser

    return sign_in


def test_every_permission_is_in_one_group():
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(permission.value for permission in Permission)


def test_an_invitation_goes_to_the_address_that_counts_now_and_nobody_else_sees_it(
    lead, db, data_dir, mails
):
    page = page_of(lead.led_to(lead.submit("/staff", 303, **NEWBIE)))
    where = f"No mail server is configured: the mail is a file in {data_dir / 'outbox'}."
    assert f"Mailed Newbie an invitation. {where}" in page
    user = db.users.find_one({"Name": "Newbie"})
    assert (user["PasswordHash"], user["Roles"]) == (None, ["support"])
    address = {"Email": "second@example.com", "EmailKey": "second@example.com"}
    db.users.update_one({"Name": "Newbie"}, {"$set": address})
    lead.submit(f"/staff/{user['_id']}/invite", 303)
    assert [mail["To"] for mail in mails()] == [NEWBIE["Email"], address["Email"]]
    # Whoever saw the code could accept the invitation.
    code = db.users.find_one({"Name": "Newbie"})["Invitation"]["Code"]
    assert code not in lead.read(f"/users/{user['_id']}") + lead.read(f"/staff/{user['_id']}")
    db.users.update_one({"Name": "Newbie"}, {"$set": {"PasswordHash": "set"}})
    refused = lead.submit(f"/staff/{user['_id']}/invite", 409)
    assert "has a password already" in page_of(refused)


def test_who_may_not_manage_staff_is_told_whom_to_ask(lead, somebody):
    refused = somebody("support").read("/staff", 403)
    assert f"Who manages staff: {lead.user['Name']}" in refused


def test_somebody_who_signs_in_by_the_company_is_not_invited(lead, world):
    identity = {"Issuer": "https://login.example.com", "Subject": "7"}
    colleague = world.add_user(None, Name="Anna", Roles=["support"], OpenId=identity)
    page = lead.read(f"/staff/{colleague['_id']}")
    assert ("invitation again" in page, "no password" in page) == (False, False)
    invite = f"/staff/{colleague['_id']}/invite"
    lead.submit(invite, 400, ask="1", reason="Please.")
    assert "signs in with a company account" in page_of(lead.submit(invite, 409))


def test_an_invitation_that_cannot_be_sent_makes_no_account(lead, db, data_dir):
    (data_dir / "outbox").write_text("a file, where a folder should be")
    refused = lead.submit("/staff", 503, **NEWBIE)
    assert "The invitation could not be sent" in page_of(refused)
    assert db.users.find_one({"Name": "Newbie"}) is None


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        *(({"Email": "other@example.com"}, 409), ({"Name": "Other"}, 409)),
        *(({"Name": "a b"}, 400), ({"Email": "nowhere"}, 400), ({"may-support": ""}, 400)),
    ],
)
def test_an_invitation_that_is_wrong_is_refused(lead, world, mails, wrong, status):
    if status == 409:
        world.add_user(Name=NEWBIE["Name"], Email=NEWBIE["Email"])
    lead.submit("/staff", status, **{**NEWBIE, **wrong})
    assert mails() == []


def test_the_page_of_staff_shows_who_has_what_and_what_they_did(
    app, lead, world, db, somebody, monkeypatch
):
    now = service(app, Storage).clock.now()
    clerk = somebody("support", Name="Clerk", LastSignInAt=now)
    player = world.add_player()
    by = {"UserId": clerk.user["_id"], "Name": "Clerk"}
    for number, (days, operation) in enumerate(((1, "give"), (2, "take"), (8, "take"))):
        made = {"At": now - timedelta(days=days), "By": by, "Operation": operation}
        entry = make_entry(player, Version=number, Arguments={"Quantity": 1500}, **made)
        db.history.insert_one(entry)
    text = lead.read("/staff")
    assert "no second factor" in text
    assert "2 changes, items +1,500 −1,500" in text
    assert "support" in text.partition("Clerk")[2][:40]
    monkeypatch.setattr(reports, "by_author", Mock(side_effect=Invalid("Too long.")))
    assert "too much to count here" in lead.read("/staff")


def test_a_role_is_made_changed_and_removed(lead, somebody):
    made = {"Name": "events", "may-players.read": "true", "ItemsPerDay": "70"}
    assert "events: Role made" in page_of(lead.led_to(lead.submit("/roles", 303, **made)))
    shown = fields_in(lead.get("/roles/events"), "form[action$='/change']")
    assert (shown["may-players.read"], shown["ItemsPerDay"]) == ("true", "70")
    changed = {"may-history.read": "true", "NeedsSecondFactor": "true"}
    lead.submit("/roles/events/change", 303, **changed)
    shown = fields_in(lead.get("/roles/events"), "form[action$='/change']")
    assert (changed.items() <= shown.items(), shown["ItemsPerDay"]) == (True, "")
    assert "may-players.read" not in shown
    assert "Second factor required" in lead.read("/roles/events")
    holder = somebody("events").user["_id"]
    lead.submit("/roles/events/remove", 303, confirm="events")
    for path in ("/staff", f"/staff/{holder}"):
        assert "events (removed)" in lead.read(path), path
    # Roles alone let somebody in, without any power.
    assert "Its roles say what it may do here." in lead.read(f"/users/{holder}")


def test_nobody_is_offered_to_give_what_they_do_not_have(somebody, db):
    def is_closed(path, box):
        return markup_of(head.get(path)).select_one(f"[name={box}]").has_attr("disabled")

    db.roles.insert_one(make_role("heads", "staff.manage"))
    head, clerk = somebody("heads", Name="Head"), somebody("support", Name="Clerk")
    role = head.get("/roles/support")
    assert "You cannot change this role. You cannot give what you do not have" in page_of(role)
    assert "items.move" in page_of(role)
    assert not markup_of(role).select("main form")
    assert is_closed("/roles", r"may-items\.move")
    assert "You do not have it yourself." in head.read("/roles")
    assert is_closed("/staff", "may-support")
    assert "This account may do more than yours" in head.read(f"/staff/{clerk.user['_id']}")
    head.submit("/roles/support/change", 403, **{"may-items.move": "true"})
    head.submit(f"/staff/{clerk.user['_id']}/disable", 403, confirm="Clerk")


def test_hostile_names_of_people_and_roles_are_text(lead, db, world):
    user = world.add_user(Name=HOSTILE, Roles=[HOSTILE, "viewer"])
    db.roles.insert_one(make_role(HOSTILE, "players.read"), bypass_document_validation=True)
    for path in ("/staff", f"/staff/{user['_id']}", "/roles", "/roles/viewer"):
        assert "<script>alert" not in lead.get(path).text, path
