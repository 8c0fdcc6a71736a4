"""The pages of staff and roles: the week of somebody who heads a support team."""

import re
from datetime import timedelta
from unittest.mock import Mock

import pytest

from app.console.staff.views import GROUPS
from app.core.errors import Invalid
from app.core.permissions import Permission, Role
from app.history.reports import store as reports
from app.storage.client import Storage
from tests.applications import service
from tests.changes import entries_of
from tests.console_visitor import PASSWORD, TOKEN, Visitor, page_of, visitor
from tests.factories import make_entry

HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def lead(app, world):
    return visitor(app, world, *Role)


@pytest.fixture
def somebody(app, world):
    """Return a way to sign in as somebody with these named roles."""

    def sign_in(*roles, **fields):
        browser = Visitor(app)
        browser.user = world.add_user(PASSWORD, Roles=list(roles), **fields)
        browser.begin_session()
        return browser

    return sign_in


def links_in(data_dir):
    mails = sorted((data_dir / "outbox").glob("*.eml"))
    # Lines of a mail are broken with "=" in quoted-printable.
    texts = [mail.read_text().replace("=\n", "").replace("=23", "#") for mail in mails]
    return [re.search(r"http://localhost/console/invitation#(\S+)", text)[1] for text in texts]


def test_an_invitation_sent_again_goes_to_the_address_that_counts_now(lead, db, data_dir):
    fields = {"Name": "Newbie", "Email": "old@example.com", "may-support": "true"}
    lead.submit("/staff", 303, **fields)
    path, wanted = f"/staff/{db.users.find_one({'Name': 'Newbie'})['_id']}", []
    for address in ("first@example.com", "second@example.com"):
        db.users.update_one({"Name": "Newbie"}, {"$set": {"Email": address, "EmailKey": address}})
        lead.submit(f"{path}/invite", 303)
        # Nobody but its receiver sees it: whoever does could accept it.
        code = db.users.find_one({"Name": "Newbie"})["Invitation"]["Code"]
        assert code not in lead.read(path.replace("staff", "users"))
        wanted.append(address)
        mails = sorted((data_dir / "outbox").glob("*.eml"))
        assert [re.search("To: (.*)", mail.read_text())[1] for mail in mails[1:]] == wanted


def test_somebody_who_signs_in_by_the_company_is_not_invited(lead, world):
    identity = {"Issuer": "https://login.example.com", "Subject": "7"}
    colleague = world.add_user(None, Name="Anna", Roles=["support"], OpenId=identity)
    page = lead.read(f"/staff/{colleague['_id']}")
    assert ("invitation again" in page, "no password" in page) == (False, False)
    invite = f"/staff/{colleague['_id']}/invite"
    lead.submit(invite, 400, ask="1", reason="Please.")
    refused = lead.submit(invite, 409)
    assert "signs in with a company account" in page_of(refused)


def test_every_permission_is_in_one_group():
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(permission.value for permission in Permission)


def test_a_colleague_is_invited_chooses_a_password_and_works(app, lead, db, data_dir):
    fields = {"Name": "Newbie", "Email": "newbie@example.com", "may-support": "true"}
    page = page_of(lead.led_to(lead.submit("/staff", 303, **fields)))
    where = f"No mail server is configured: the mail is a file in {data_dir / 'outbox'}."
    assert f"Mailed Newbie an invitation. {where}" in page
    assert "invited" in page
    user = db.users.find_one({"Name": "Newbie"})
    assert (user["PasswordHash"], user["Roles"]) == (None, ["support"])
    assert "newbie@" not in str(entries_of(db, user))
    (first,) = links_in(data_dir)
    lead.submit(f"/staff/{user['_id']}/invite", 303)
    _, second = links_in(data_dir)
    newbie = Visitor(app)
    for link, status in ((first, 403), (second, 303)):
        token = TOKEN.search(newbie.get("/invitation").text)[1]
        chosen = {"token": token, "invitation": link, "new": PASSWORD, "again": PASSWORD}
        assert newbie.send("/invitation", chosen).status_code == status
    assert newbie.sign_in("Newbie").status_code == 303
    assert "Give an item" not in newbie.read("/staff", 403)
    assert "Ask somebody who manages staff" in newbie.read("/staff", 403)
    assert f"Who manages staff: {lead.user['Name']}" in newbie.read("/staff", 403)
    assert "never" not in lead.read(f"/staff/{user['_id']}").partition("Last sign-in")[2][:30]
    refused = lead.post(f"/staff/{user['_id']}/invite")
    assert refused.status_code == 409
    assert "has a password already" in page_of(refused)


def test_an_invitation_that_cannot_be_sent_makes_no_account(app, lead, db, data_dir):
    (data_dir / "outbox").write_text("a file, where a folder should be")
    fields = {"Name": "Newbie", "Email": "newbie@example.com", "may-support": "true"}
    answer = lead.post("/staff", **fields)
    assert answer.status_code == 503
    assert "The invitation could not be sent" in page_of(answer)
    assert db.users.find_one({"Name": "Newbie"}) is None
    (data_dir / "outbox").unlink()
    lead.submit("/staff", 303, **fields)
    for wrong, status in (
        ({"Email": "other@example.com"}, 409),
        ({"Name": "Other"}, 409),
        ({"Name": "a b"}, 400),
        ({"Email": "nowhere"}, 400),
        ({"may-support": ""}, 400),
    ):
        third = {"Name": "Third", "Email": "3@example.com"} if status == 400 else {}
        answer = lead.post("/staff", **{**fields, **third, **wrong})
        assert answer.status_code == status, (wrong, page_of(answer))
    assert len(links_in(data_dir)) == 1


def test_the_page_of_staff_shows_who_has_what_and_what_they_did(
    app, lead, world, db, somebody, monkeypatch
):
    clerk = somebody("support", Name="Clerk", LastSignInAt=service(app, Storage).clock.now())
    player = world.add_player()
    now = service(app, Storage).clock.now()
    by = {"UserId": clerk.user["_id"], "Name": "Clerk"}
    ages = {1: timedelta(days=1), 2: timedelta(days=2), 3: timedelta(days=8)}
    for number, age in ages.items():
        given = {"Operation": "give" if number == 1 else "take", "Arguments": {"Quantity": 1500}}
        db.history.insert_one(make_entry(player, Version=number, At=now - age, By=by, **given))
    text = lead.read("/staff")
    assert "no second factor" in text
    assert "2 changes, items +1,500 −1,500" in text
    assert "support" in text.partition("Clerk")[2][:40]
    monkeypatch.setattr(reports, "by_author", Mock(side_effect=Invalid("Too long.")))
    assert "too much to count here" in lead.read("/staff")
    lead.submit(f"/staff/{clerk.user['_id']}/disable", 303, confirm="Clerk")
    assert "disabled" in lead.read("/staff")
    assert clerk.get("").status_code == 303
    lead.submit(f"/staff/{clerk.user['_id']}/enable", 303)
    lead.submit(f"/staff/{clerk.user['_id']}/roles", 303, **{"may-viewer": "true"})
    assert db.users.find_one({"Name": "Clerk"})["Roles"] == ["viewer"]


def test_a_role_is_made_changed_and_removed(app, lead, db, somebody):
    fields = {"Name": "events", "may-players.read": "true", "ItemsPerDay": "70"}
    page = page_of(lead.led_to(lead.submit("/roles", 303, **fields)))
    assert "events: Role made" in page
    assert "events" in lead.read("/roles")
    role = lead.get("/roles/events").text
    assert re.search(r'name="may-players.read" value="true" checked', role)
    assert re.search(r'name="ItemsPerDay"[^>]* value="70"', role)
    changed = {"may-history.read": "true", "NeedsSecondFactor": "true"}
    lead.submit("/roles/events/change", 303, **changed)
    stored = db.roles.find_one({"_id": "events"})
    assert (stored["Permissions"], stored["Limits"]) == (["history.read"], None)
    assert stored["NeedsSecondFactor"] is True
    assert "Second factor required" in lead.read("/roles/events")
    assert lead.post("/roles/events/remove", confirm="other").status_code == 400
    holder = somebody("events", Name="Holder").user["_id"]
    lead.submit("/roles/events/remove", 303, confirm="events")
    for path in ("/staff", f"/staff/{holder}"):
        assert "events (removed)" in lead.read(path), path
    # Roles alone let somebody in, without any power.
    assert "Its roles say what it may do here." in lead.read(f"/users/{holder}")
    lead.read("/roles/events", 404)
    assert "Role removed" in lead.read("/history")


def test_nobody_is_offered_to_give_what_they_do_not_have(lead, somebody, db):
    lead.submit("/roles", 303, **{"Name": "heads", "may-staff.manage": "true"})
    head, clerk = somebody("heads", Name="Head"), somebody("support", Name="Clerk")
    role = head.get("/roles/support")
    assert "You cannot change this role. You cannot give what you do not have" in page_of(role)
    assert "items.move" in page_of(role)
    assert "<form" not in role.text.partition("<main")[2]
    made = head.get("/roles").text
    assert re.search(r'name="may-items.move" value="true" disabled>', made)
    assert "You do not have it yourself." in made
    invite = head.get("/staff").text
    assert re.search(r'name="may-support" value="true" disabled', invite)
    assert "This account may do more than yours" in head.read(f"/staff/{clerk.user['_id']}")
    refused = head.post(
        "/roles/support/change", **{"may-items.move": "true", "may-users.manage": "true"}
    )
    assert refused.status_code == 403
    assert head.post(f"/staff/{clerk.user['_id']}/disable", confirm="Clerk").status_code == 403
    assert db.users.find_one({"Name": "Clerk"}).get("IsDisabled") is not True


def test_hostile_names_of_people_and_roles_are_text(lead, db, world):
    world.add_user(Name=HOSTILE, Roles=[HOSTILE, "viewer"])
    document = {"_id": HOSTILE, "Permissions": ["players.read"], "Version": 0}
    db.roles.insert_one(document, bypass_document_validation=True)
    user = db.users.find_one({"Name": HOSTILE})
    for path in ("/staff", f"/staff/{user['_id']}", "/roles", "/roles/viewer"):
        assert "<script>alert" not in lead.get(path).text, path
