"""Endpoints 26 and a: sending and redeeming reset codes (contract-reset)."""

import email
import email.policy
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

import pytest

from app.core.permissions import Role
from app.storage.client import Storage
from app.storage.limits import DAY, HOUR, Limit, Limits
from app.users.mail import Mailer
from tests.applications import replace_service, service
from tests.factories import sha256

USERS = "/api/v1/users"
QUERY = (Role.API, Role.USERS_QUERY)
NEW = sha256("new password")


@pytest.fixture
def outbox(data_dir):
    """Return the mails that were written, oldest first."""

    def read():
        files = sorted((data_dir / "outbox").glob("*.eml"))
        policy = email.policy.default
        return [email.message_from_bytes(file.read_bytes(), policy=policy) for file in files]

    return read


@pytest.fixture
def alice(world):
    return world.add_user("old password", Name="Alice", Email="alice@example.com")


@pytest.fixture
def ask(caller):
    get = caller(USERS, *QUERY).get
    return lambda key="Alice": get(f"/{key}/password/reset")


@pytest.fixture
def redeem(client, as_role):
    headers = as_role(*QUERY)

    def redeem(code, new=NEW):
        body = {"code": code, "new": new}
        return client.post(f"{USERS}/Alice/password/reset", json=body, headers=headers)

    return redeem


class Clock:
    """The time of the database, which goes on when it is told to."""

    def __init__(self):
        self.at = datetime(2099, 1, 1, tzinfo=timezone.utc)

    def now(self):
        return self.at

    def passes(self, **time):
        self.at += timedelta(**time)


@pytest.fixture
def clock(app):
    """Count mails by a clock of our own."""
    clock = Clock()
    limits = {
        "mails_an_hour": Limit(5, HOUR, what="reset mails"),
        "mails_a_day": Limit(20, DAY, what="reset mails"),
    }
    replace_service(app, Limits(service(app, Storage), limits, clock))
    return clock


def code_in(message):
    return re.search(r"^ +([A-Z2-9]{8})\s*$", message.get_body(("plain",)).get_content(), re.M)[1]


def test_a_code_comes_by_mail_and_is_good_once(ask, redeem, outbox, alice, client, as_role):
    response = ask()
    assert (response.status_code, response.json) == (200, {"Message": "Password reset email sent."})
    (message,) = outbox()
    assert message["To"] == "alice@example.com"
    assert message["Subject"] == "Your password reset code"
    code = code_in(message)
    html = message.get_body(("html",)).get_content()
    assert code in html
    assert "30 minutes" in html
    right = redeem(code.lower())
    assert (right.status_code, right.json) == (200, {"Message": "Password Updated"})
    assert redeem(code).status_code == 403
    check = client.post(
        f"{USERS}/Alice/password/validate", json={"password": NEW}, headers=as_role(*QUERY)
    )
    assert check.status_code == 200


def test_a_code_in_the_outbox_is_its_owners_alone(ask, alice, data_dir):
    former = os.umask(0o022)
    try:
        (data_dir / "outbox").mkdir()
        assert ask().status_code == 200
    finally:
        os.umask(former)
    (mail,) = (data_dir / "outbox").iterdir()
    assert mail.stat().st_mode & 0o077 == 0


def test_a_second_mail_replaces_the_first_code(ask, redeem, outbox, alice):
    ask()
    ask("ALICE")
    first, second = map(code_in, outbox())
    assert redeem(first).status_code == 403
    assert redeem(second).status_code == 200


@pytest.mark.parametrize("change", ["email", "password"])
def test_a_change_by_other_means_voids_the_code(
    ask, redeem, outbox, alice, client, as_role, change
):
    ask()
    body = {"new": "other@example.com" if change == "email" else sha256("x")}
    client.post(f"{USERS}/Alice/manage/{change}/change", json=body, headers=as_role(*Role))
    assert redeem(code_in(outbox()[0])).status_code == 403


def test_only_managers_see_the_code(ask, outbox, alice, client, as_role, db):
    ask()
    code = code_in(outbox()[0])
    reader, manager = as_role(*QUERY), as_role(*Role)
    for headers, is_shown in ((manager, True), (reader, False)):
        everybody = client.post(USERS, json={"count": 100}, headers=headers)
        assert (code in everybody.text) == is_shown
    paths = (f"{USERS}/Alice", f"{USERS}?search=alice")
    for path in paths:
        assert code in client.get(path, headers=manager).text
        assert code not in client.get(path, headers=reader).text
    past = datetime.now(timezone.utc) - timedelta(seconds=1)
    db.users.update_one({"_id": alice["_id"]}, {"$set": {"Reset.ExpiresAt": past}})
    assert client.get(paths[0], headers=manager).json["PasswordResetCode"] is None


def test_production_without_a_mail_server_is_a_503_and_stores_no_code(ask, app, alice, db, outbox):
    app.config["ENV"] = "production"
    response = ask()
    assert response.status_code == 503
    assert response.json["Message"] == (
        "Password reset email could not be sent: mail is not configured."
    )
    assert response.headers["Retry-After"]
    assert db.users.find_one({"_id": alice["_id"]})["Reset"] is None
    assert outbox() == []


@pytest.mark.parametrize("change", ["email", "password"])
def test_a_code_that_was_on_its_way_during_a_change_is_void(
    ask, redeem, outbox, alice, client, as_role, app, monkeypatch, change
):
    mailer, headers = service(app, Mailer), as_role(*Role)
    send = mailer.send_code
    body = {"new": "other@example.com" if change == "email" else sha256("x")}

    def slowly(*args):
        send(*args)
        client.post(f"{USERS}/Alice/manage/{change}/change", json=body, headers=headers)

    monkeypatch.setattr(mailer, "send_code", slowly)
    assert ask().status_code == 409
    assert redeem(code_in(outbox()[0])).status_code == 403


def test_a_name_cannot_add_to_a_mail(ask, world, outbox):
    world.add_user(Name="<i>Eve", Email="eve@example.com")
    assert ask("%3Ci%3EEve").status_code == 200
    message = outbox()[0]
    assert "Hello <i>Eve," in message.get_body(("plain",)).get_content()
    assert "&lt;i&gt;Eve" in message.get_body(("html",)).get_content()


def test_line_breaks_in_what_the_game_stored_add_nothing_to_a_mail(ask, world, outbox):
    breaks = "\r\nBcc: all@example.com\r\n\r\nYour code is:\r\n"
    world.add_user(Name=f"Eve{breaks}", Email="eve@example.com")
    assert ask(quote(f"Eve{breaks}")).status_code == 200
    text = outbox()[0].get_body(("plain",)).get_content()
    assert text.splitlines()[0] == "Hello EveBcc: all@example.comYour code is:,"
    world.add_user(Name="Mallory", Email=f"mallory@example.com{breaks}")
    assert ask("Mallory").status_code == 200
    assert not any("Bcc" in message for message in outbox())


@pytest.mark.parametrize("name", ["Host", "X-Forwarded-Host", "Forwarded", "Origin", "Referer"])
def test_a_forged_host_has_no_part_in_a_mail(client, as_role, alice, outbox, name):
    forged = {name: "host=evil.example" if name == "Forwarded" else "evil.example"}
    client.get(f"{USERS}/Alice/password/reset", headers={**as_role(*QUERY), **forged})
    (message,) = outbox()
    assert b"evil.example" not in message.as_bytes()


def test_an_account_gets_five_mails_an_hour_and_twenty_a_day(ask, alice, clock, outbox, db):
    for hour in range(4):
        for _ in range(5):
            assert ask().status_code == 200
            clock.passes(minutes=1)
        refused = ask("alice")
        assert refused.status_code == 429
        wait = int(refused.headers["Retry-After"])
        # An hour and a day begin with their first mail.
        assert wait == (55 * 60 if hour < 3 else 24 * 3600 - 3 * 3600 - 5 * 60)
        assert (
            refused.json["Message"] == f"Too many reset mails; please try again in {wait} seconds."
        )
        clock.passes(minutes=55)
    assert ask().status_code == 429
    clock.passes(hours=20)
    assert ask().status_code == 200
    assert len(outbox()) == 21
    # Who is refused has no other code than the one that was mailed.
    assert db.users.find_one({"_id": alice["_id"]})["Reset"]["Code"] == code_in(outbox()[-1])


def test_a_mail_that_no_server_took_does_not_count(ask, alice, data_dir):
    (data_dir / "outbox").write_text("in the way")
    assert [ask().status_code for _ in range(9)] == [503] * 9
    (data_dir / "outbox").unlink()
    assert [ask().status_code for _ in range(6)] == [200] * 5 + [429]


def test_mails_at_once_are_counted_exactly(ask, alice, outbox):
    with ThreadPoolExecutor(6) as pool:
        statuses = Counter(pool.map(lambda _: ask().status_code, range(12)))
    assert len(outbox()) == 5
    assert statuses.keys() <= {200, 429, 503}
    assert statuses[429] == 7
