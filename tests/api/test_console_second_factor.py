"""The second factor at the console: set-up, sign-in, required by a role, asked for again."""

import re
from datetime import datetime, timedelta, timezone

import pyotp
import pytest

from app.core.permissions import Role
from app.users.mail import Mailer, MailNotSent
from app.users.second_factor.domain import RECOVERY_CODES, new_recovery_codes
from app.users.second_factor.vault import Vault
from app.users.store import Users
from tests.applications import service
from tests.callers import bearer
from tests.console_visitor import PASSWORD, TOKEN, Visitor, fields_in, page_of, texts_in, visitor
from tests.factories import make_factor, make_role

SECRET = pyotp.random_base32()
CODES = new_recovery_codes()
SET_UP = "form[action$='/set-up']"


@pytest.fixture
def alice(app, world):
    factor = make_factor(SECRET, service(app, Vault), CODES)
    return world.add_user(PASSWORD, roles=(Role.API,), Name="alice", SecondFactor=factor)


@pytest.fixture
def clerk(app, world):
    return visitor(app, world)


@pytest.fixture
def code(app):
    now = service(app, Users).now
    return lambda steps=0, secret=SECRET: pyotp.TOTP(secret).at(now(), counter_offset=steps)


def is_signed_in(browser):
    return browser.get("/sign-ins").status_code == 200


def type_code(browser, step, code, status=303, **fields):
    """Send the code that the page of the second step asks for."""
    sent = {**fields_in(step, "form[action$='/sign-in/code']"), "code": code, **fields}
    answer = browser.send("/sign-in/code", sent)
    assert answer.status_code == status, page_of(answer)
    return answer


def test_the_password_alone_begins_no_session_and_the_code_does(browser, alice, code):
    step = browser.sign_in("alice", back="/console/players")
    assert (step.status_code, "Second factor" in page_of(step)) == (200, True)
    assert not is_signed_in(browser)
    answer = type_code(browser, step, code())
    assert answer.headers["Location"] == "/console/players"
    assert is_signed_in(browser)


def test_a_wrong_code_is_asked_for_again_and_a_used_one_refused(app, browser, alice, code):
    step, now = browser.sign_in("alice"), code()
    for typed in ("", "000000", code(-10)):
        step = type_code(browser, step, typed, 400)
        assert "check the clock" in page_of(step)
    type_code(browser, step, now)
    other = Visitor(app)
    assert "already used" in page_of(type_code(other, other.sign_in("alice"), now, 400))


def test_a_recovery_code_signs_in_once_and_its_user_is_told_how_many_are_left(browser, alice):
    for left, code in reversed([*enumerate(CODES)]):
        step = browser.sign_in("alice", back="/console/players")
        page = page_of(browser.led_to(type_code(browser, step, code.lower())))
        assert "You signed in with a recovery code. It does not work again." in page
        assert f"You have {left or 'no'} recovery code{'s' * (left != 1)} left" in page
        assert ("Make new ones now" in page) is (left <= 3)
    type_code(browser, browser.sign_in("alice"), CODES[2], 400)


def test_the_state_between_the_steps_is_of_one_browser_one_password_and_minutes(
    app, browser, db, alice, code, monkeypatch
):
    step, other = browser.sign_in("alice"), Visitor(app)
    state = fields_in(step, "form[action$='/sign-in/code']")["state"]
    token = TOKEN.search(other.get("/sign-in").text)[1]
    for fields in ({"state": state}, {"state": "forged"}, {}):
        answer = other.send("/sign-in/code", {"token": token, "code": code(), **fields})
        assert (answer.status_code, "Sign in again" in page_of(answer)) == (400, True)
    assert browser.send("/sign-in/code", {"code": code()}).status_code == 403
    vault = service(app, Vault)
    clock = vault._clock
    with monkeypatch.context() as patch:
        patch.setattr(vault, "_clock", lambda: clock() + 301)
        assert "Sign in again" in page_of(type_code(browser, step, code(), 400))
    db.users.update_one({"_id": alice["_id"]}, {"$inc": {"PasswordVersion": 1}})
    assert "Sign in again" in page_of(type_code(browser, step, code(), 400))
    assert not is_signed_in(browser)


def secret_on(page):
    return texts_in(page, "[aria-label$='for the app']")[0].replace(" ", "")


def recovery_codes_on(page):
    return re.findall(r"\b[A-Z2-9]{4}(?:-[A-Z2-9]{4}){3}\b", page.text)


def set_up(browser, page, code, status=200, by=None):
    """Send the form of a page that sets the second factor up, with a code of its secret."""
    fields = {**fields_in(page, SET_UP), "code": code(0, secret_on(page))}
    answer = (by or browser).send("/second-factor/set-up", fields)
    assert answer.status_code == status, page_of(answer)
    return answer


def test_it_is_set_up_with_a_code_renewed_and_switched_off(clerk, db, code):
    page = clerk.get("/second-factor")
    assert ("<svg" in page.text, "style=" in page.text) == (True, False)
    secret = secret_on(page)
    fields = {**fields_in(page, SET_UP), "code": code(-10, secret)}
    wrong = clerk.send("/second-factor/set-up", fields)
    assert (wrong.status_code, "check the clock" in page_of(wrong)) == (400, True)
    fields = {**fields_in(wrong, SET_UP), "code": code(-1, secret_on(wrong))}
    made, again = (clerk.send("/second-factor/set-up", fields) for _ in range(2))
    codes = recovery_codes_on(made)
    assert (secret_on(wrong), len(set(codes))) == (secret, RECOVERY_CODES)
    # The same form again makes nothing twice, and shows no codes.
    assert ("already sent" in page_of(again), recovery_codes_on(again)) == (True, [])
    renewed = clerk.submit("/second-factor/recovery-codes", 200, code=codes[0])
    assert not set(recovery_codes_on(renewed)) & set(codes)
    clerk.submit("/second-factor/switch-off", 400, code=codes[1])
    off = clerk.led_to(clerk.submit("/second-factor/switch-off", 303, code=code(0, secret)))
    assert "switched off" in page_of(off)
    user = db.users.find_one({"_id": clerk.user["_id"]})
    assert user["SecondFactor"] is None
    stored = str(user) + str(list(db.history.find()))
    assert not [text for text in (secret, *codes) if text in stored]


def test_setting_it_up_ends_all_other_sign_ins(app, clerk, client, sign_in, refresh, code):
    elsewhere, name = Visitor(app), clerk.user["Name"]
    elsewhere.sign_in(name)
    tokens = sign_in(name, PASSWORD).json
    set_up(clerk, clerk.get("/second-factor"), code)
    assert (is_signed_in(clerk), is_signed_in(elsewhere)) == (True, False)
    assert refresh(tokens["refresh_token"]).status_code == 400
    headers = bearer(tokens["access_token"])
    assert client.get("/api/v1/players", headers=headers).status_code == 401


def test_each_of_two_tabs_shows_what_the_other_has_done(clerk, code):
    pages = [clerk.get("/second-factor") for _ in range(2)]
    codes = recovery_codes_on(set_up(clerk, pages[0], code))
    assert "already has a second factor" in page_of(set_up(clerk, pages[1], code, 409))
    clerk.submit("/second-factor/switch-off", 303, code=codes[0])
    off = clerk.submit("/second-factor/switch-off", 409, code=codes[1])
    assert "no second factor" in page_of(off)
    assert secret_on(off)


def test_a_secret_of_somebody_elses_page_is_refused(app, world, clerk, code):
    other, page = visitor(app, world), clerk.get("/second-factor")
    fields = {**fields_in(page, SET_UP), "code": code(0, secret_on(page)), "token": other.token()}
    refused = other.send("/second-factor/set-up", fields)
    assert (refused.status_code, "too old" in page_of(refused)) == (400, True)
    assert secret_on(refused) != secret_on(page)


def test_a_role_that_needs_one_leads_every_page_to_the_set_up(browser, world, db, sign_in, code):
    db.roles.insert_one(make_role("guards", "players.read", NeedsSecondFactor=True))
    world.add_user(PASSWORD, Name="warden", Roles=["guards"])
    assert browser.sign_in("warden").status_code == 303
    for path in ("", "/players", "/sign-ins"):
        assert browser.get(path).headers["Location"] == "/console/second-factor", path
    page = browser.get("/second-factor")
    assert "Your role needs a second factor: set it up to continue" in page_of(page)
    refused = browser.send("/keys", {"token": TOKEN.search(page.text)[1], "Name": "shop"})
    assert (refused.status_code, "second factor" in page_of(refused)) == (403, True)
    denied = sign_in("warden", PASSWORD)
    assert (denied.status_code, denied.json["error"]) == (403, "access_denied")
    assert "set it up at the console" in denied.json["Message"]
    set_up(browser, page, code)
    assert browser.get("/players").status_code == 200


def grow_old(db, visitor, minutes=16):
    """Let the last proof of who somebody is be of some minutes ago."""
    began = datetime.now(timezone.utc) - timedelta(minutes=minutes)
    change = {"$set": {"BeganAt": began}, "$unset": {"ProvedAt": 1}}
    db.refresh_tokens.update_many({"UserId": visitor.user["_id"]}, change)


def again(page, **typed):
    """Return what the form sends that asks for the password again."""
    return {**fields_in(page, "main form"), **typed}


KEY = {"Name": "shop", "may-players.read": "true", "Days": "7"}


def test_a_sensitive_form_asks_for_the_password_again_and_goes_on(app, clerk, db, code):
    grow_old(db, clerk, 14)
    clerk.submit("/keys", 200, **KEY)
    grow_old(db, clerk)
    asked = clerk.submit("/keys", 403, **{**KEY, "Name": "other"})
    assert "Is it still you?" in page_of(asked)
    assert "Code" not in page_of(asked)
    wrong = clerk.send("/keys", again(asked, **{"own-password": "x"}))
    assert (wrong.status_code, "password is wrong" in page_of(wrong)) == (400, True)
    made = clerk.send("/keys", again(wrong, **{"own-password": PASSWORD}))
    assert (made.status_code, "The key other was created" in page_of(made)) == (200, True)
    assert "own-password" not in made.text
    # It was proved, and is not asked for again.
    clerk.submit("/keys", 200, **{**KEY, "Name": "third"})
    factor = make_factor(SECRET, service(app, Vault), CODES)
    db.users.update_one({"_id": clerk.user["_id"]}, {"$set": {"SecondFactor": factor}})
    grow_old(db, clerk)
    asked = clerk.submit("/keys", 403, **{**KEY, "Name": "fourth"})
    fields = again(asked, **{"own-password": PASSWORD})
    assert clerk.send("/keys", {**fields, "own-code": ""}).status_code == 400
    assert clerk.send("/keys", {**fields, "own-code": code()}).status_code == 200


def test_a_stranger_keeps_nobody_from_proving_who_they_are(app, clerk, db, sign_in):
    most = app.config["ACCOUNT_FAILURES"]
    grow_old(db, clerk)
    statuses = [sign_in(clerk.user["Name"], "x").status_code for _ in range(most + 1)]
    assert statuses[-1] == 429
    asked = clerk.submit("/keys", 403, **KEY)
    assert clerk.send("/keys", again(asked, **{"own-password": PASSWORD})).status_code == 200
    # The guesses of the session itself are counted.
    grow_old(db, clerk)
    asked = clerk.submit("/keys", 403, **{**KEY, "Name": "b"})
    for status, password in (*[(400, "x")] * most, (429, PASSWORD)):
        assert clerk.send("/keys", again(asked, **{"own-password": password})).status_code == status


def test_how_a_colleague_signs_in_is_a_sensitive_form_and_how_a_player_does_is_not(lead, world, db):
    grow_old(db, lead, 600)
    colleague, player = world.add_user("secret", roles=(Role.API,)), world.add_user("secret")
    for form, typed in (
        ("email", {"new": "new@example.com"}),
        ("password", {"new": "a good one", "again": "a good one"}),
        ("sign-out", {}),
    ):
        asked = lead.submit(f"/users/{colleague['_id']}/{form}", 403, **typed)
        assert "Is it still you?" in page_of(asked), form
        lead.submit(f"/users/{player['_id']}/{form}", 303, confirm=player["Name"], **typed)


def test_whoever_resets_a_lost_one_is_told_that_no_mail_was_sent(app, lead, alice, monkeypatch):
    def fail(*_, **__):
        raise MailNotSent("The mail server is away.")

    page = f"/users/{alice['_id']}"
    assert "Reset the second factor…" in lead.read(page)
    monkeypatch.setattr(service(app, Mailer), "send", fail)
    shown = lead.led_to(lead.submit(f"{page}/second-factor", 303, confirm="alice"))
    assert "tell the person yourself" in page_of(shown)
    assert "Reset the second factor…" not in lead.read(page)
