"""Endpoints 26 and a: sending and redeeming reset codes (contract-reset)."""

import os
import re
from urllib.parse import quote

import pytest

from app.core.permissions import Role
from app.users.mail import Mailer
from tests.applications import service
from tests.factories import sha256

NEW = sha256("new password")
ASK = "GET users/Alice/password/reset"


@pytest.fixture
def alice(world):
    return world.add_user("old password", Name="Alice", Email="alice@example.com")


@pytest.fixture
def site(caller, alice):
    """A web site that asks for mails, and may see accounts."""
    return caller("/api/v1/", Role.API, Role.USERS_QUERY)


@pytest.fixture
def redeem(site):
    return lambda code, status=200: (
        site("POST users/Alice/password/reset", {"code": code, "new": NEW}, status).json
    )


def text_of(mail, form="plain"):
    return mail.get_body((form,)).get_content()


@pytest.fixture
def codes(mails):
    """Return the codes that were mailed, the oldest first."""
    return lambda: [re.search(r"^ +([A-Z2-9]{8})\s*$", text_of(m), re.M)[1] for m in mails()]


def test_a_code_comes_by_mail_and_the_last_one_is_good_once(site, redeem, mails, codes):
    assert site(ASK).json == {"Message": "Password reset email sent."}
    site("GET users/ALICE/password/reset")
    former, code = codes()
    mail = mails()[-1]
    assert (mail["To"], mail["Subject"]) == ("alice@example.com", "Your password reset code")
    assert code in text_of(mail, "html")
    assert "30 minutes" in text_of(mail, "html")
    redeem(former, 403)
    assert redeem(code.lower()) == {"Message": "Password Updated"}
    redeem(code, 403)
    site("POST users/Alice/password/validate", {"password": NEW})


def test_a_code_in_the_outbox_is_its_owners_alone(site, data_dir):
    former = os.umask(0o022)
    try:
        (data_dir / "outbox").mkdir()
        site(ASK)
    finally:
        os.umask(former)
    (mail,) = (data_dir / "outbox").iterdir()
    assert mail.stat().st_mode & 0o077 == 0


CHANGES = [
    ("POST users/Alice/manage/email/change", "other@example.com"),
    ("POST users/Alice/manage/password/change", sha256("x")),
]


@pytest.mark.parametrize(("change", "new"), CHANGES)
def test_a_change_by_other_means_voids_a_code_that_is_on_its_way(
    app, site, staff, redeem, codes, monkeypatch, change, new
):
    mailer = service(app, Mailer)
    send = mailer.send_code

    def slowly(*args):
        send(*args)
        staff(change, {"new": new})

    monkeypatch.setattr(mailer, "send_code", slowly)
    site(ASK, status=409)
    redeem(codes()[0], 403)


def test_only_managers_see_the_code(site, staff, codes, pass_time):
    site(ASK)
    (code,) = codes()
    for request, body in (
        ("GET users/Alice", None),
        ("GET users?search=alice", None),
        ("POST users", {"count": 100}),
    ):
        assert code in staff(request, body).text
        assert code not in site(request, body).text
    pass_time(minutes=31)
    assert staff("GET users/Alice").json["PasswordResetCode"] is None


def test_production_without_a_mail_server_is_a_503_and_stores_no_code(app, site, db, mails):
    app.config["ENV"] = "production"
    refused = site(ASK, status=503)
    assert refused.json["Message"] == (
        "Password reset email could not be sent: mail is not configured."
    )
    assert refused.headers["Retry-After"]
    assert db.users.find_one({"Name": "Alice"})["Reset"] is None
    assert mails() == []


BREAKS = "\r\nBcc: all@example.com\r\n\r\nYour code is:\r\n"


@pytest.mark.parametrize(
    ("name", "email", "greeting"),
    [
        ("<i>Eve", "eve@example.com", "Hello <i>Eve,"),
        (f"Eve{BREAKS}", "eve@example.com", "Hello EveBcc: all@example.comYour code is:,"),
        ("Eve", f"eve@example.com{BREAKS}", "Hello Eve,"),
    ],
)
def test_what_is_stored_of_an_account_cannot_add_to_a_mail(
    site, world, mails, name, email, greeting
):
    world.add_user(Name=name, Email=email)
    site(f"GET users/{quote(name)}/password/reset")
    (mail,) = mails()
    assert "Bcc" not in mail
    assert text_of(mail).splitlines()[0] == greeting
    assert "<i>" not in text_of(mail, "html")


def test_a_forged_host_has_no_part_in_a_mail(site, mails):
    for name in ("Host", "X_Forwarded_Host", "Origin", "Referer"):
        site(ASK, **{name: "evil.example"})
    site(ASK, Forwarded="host=evil.example")
    assert not any(b"evil.example" in mail.as_bytes() for mail in mails())


def test_an_account_gets_five_mails_an_hour_and_twenty_a_day(site, pass_time, codes, db):
    for hour in range(4):
        for _ in range(5):
            site(ASK)
            pass_time(minutes=1)
        refused = site("GET users/alice/password/reset", status=429)
        wait = int(refused.headers["Retry-After"])
        assert refused.json["Message"] == (
            f"Too many reset mails; please try again in {wait} seconds."
        )
        # An hour and a day begin with their first mail.
        expected = 55 * 60 if hour < 3 else 24 * 3600 - 3 * 3600 - 5 * 60
        assert expected - 60 <= wait <= expected
        pass_time(minutes=55)
    site(ASK, status=429)
    pass_time(hours=20)
    site(ASK)
    assert len(codes()) == 21
    # Who is refused has no other code than the one that was mailed.
    assert db.users.find_one({"Name": "Alice"})["Reset"]["Code"] == codes()[-1]


def test_a_mail_that_no_server_took_does_not_count(site, data_dir):
    (data_dir / "outbox").write_text("in the way")
    for _ in range(9):
        site(ASK, status=503)
    (data_dir / "outbox").unlink()
    for status in [200] * 5 + [429]:
        site(ASK, status=status)
