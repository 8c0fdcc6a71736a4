"""The second factor at the console: set-up, sign-in, required by a role, asked for again."""

from __future__ import annotations

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
from tests.console_visitor import PASSWORD, TOKEN, Visitor, page_of, visitor
from tests.factories import make_factor, make_role, sha256

ALL = (Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
SECRET = pyotp.random_base32()
CODES = new_recovery_codes()
STATE = re.compile(r'name="state" value="([^"]+)"')


@pytest.fixture
def alice(app, world):
    factor = make_factor(SECRET, service(app, Vault), CODES)
    return world.add_user(PASSWORD, roles=(Role.API,), Name="alice", SecondFactor=factor)


@pytest.fixture
def code(app):
    now = service(app, Users).now
    return lambda steps=0, secret=SECRET: pyotp.TOTP(secret).at(now(), counter_offset=steps)


def is_signed_in(browser):
    return browser.get("/sign-ins").status_code == 200


def type_code(browser, step, code, **fields):
    """Send the code that the page of the second step asks for."""
    token, state = TOKEN.search(step.text)[1], STATE.search(step.text)[1]
    return browser.send("/sign-in/code", {"token": token, "state": state, "code": code, **fields})


def test_the_password_alone_begins_no_session_and_the_code_does(browser, alice, code):
    step = browser.sign_in("alice", back="/console/players")
    assert (step.status_code, "Second factor" in page_of(step)) == (200, True)
    assert not is_signed_in(browser)
    answer = type_code(browser, step, code(), back="/console/players")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/players")
    assert is_signed_in(browser)


def test_a_wrong_code_is_asked_for_again_and_a_used_one_refused(app, browser, alice, code):
    step = browser.sign_in("alice")
    for typed in ("", "000000", code(-10)):
        step = type_code(browser, step, typed)
        assert (step.status_code, "check the clock" in page_of(step)) == (400, True)
    now = code()
    assert type_code(browser, step, now).status_code == 303
    other = Visitor(app)
    again = type_code(other, other.sign_in("alice"), now)
    assert (again.status_code, "already used" in page_of(again)) == (400, True)
    assert not is_signed_in(other)
    assert type_code(other, again, CODES[0]).status_code == 303


def test_a_recovery_code_signs_in_once(app, alice):
    for status in (303, 400):
        browser = Visitor(app)
        step = browser.sign_in("alice")
        assert type_code(browser, step, CODES[2].lower()).status_code == status


def test_whoever_uses_recovery_codes_is_told_how_many_are_left(app, alice):
    for left, code in enumerate(reversed(CODES)):
        browser = Visitor(app)
        answer = type_code(browser, browser.sign_in("alice"), code, back="/console/players")
        page = page_of(browser.led_to(answer))
        assert "You signed in with a recovery code. It does not work again." in page
        count = 9 - left
        assert f"You have {count or 'no'} recovery code{'s' * (count != 1)} left" in page
        assert ("Make new ones now" in page) is (count <= 3)


def test_the_state_between_the_steps_is_of_one_browser_and_one_password(
    app, browser, db, alice, code
):
    step, other = browser.sign_in("alice"), Visitor(app)
    token = TOKEN.search(other.get("/sign-in").text)[1]
    for fields in ({"state": STATE.search(step.text)[1]}, {"state": "forged"}, {}):
        answer = other.send("/sign-in/code", {"token": token, "code": code(), **fields})
        assert (answer.status_code, "Sign in again" in page_of(answer)) == (400, True)
    db.users.update_one({"_id": alice["_id"]}, {"$inc": {"PasswordVersion": 1}})
    answer = type_code(browser, step, code())
    assert (answer.status_code, "Sign in again" in page_of(answer)) == (400, True)
    assert browser.send("/sign-in/code", {"code": code()}).status_code == 403


def test_the_state_ends_after_minutes(app, browser, alice, code):
    step = browser.sign_in("alice")
    vault = service(app, Vault)
    clock = vault._clock
    vault._clock = lambda: clock() + 301
    assert "Sign in again" in page_of(type_code(browser, step, code()))
    assert not is_signed_in(browser)


def test_codes_are_guessed_no_more_often_than_passwords(app, browser, alice, code):
    step = browser.sign_in("alice")
    for _ in range(app.config["ACCOUNT_FAILURES"]):
        step = type_code(browser, step, "000000")
    locked = type_code(browser, step, code())
    assert (locked.status_code, "Retry-After" in locked.headers) == (429, True)


def secret_on(page):
    return re.search(r'for the app">([A-Z2-7 ]+)</pre>', page.text)[1].replace(" ", "")


def recovery_codes_on(page):
    return re.findall(r"\b[A-Z2-9]{4}(?:-[A-Z2-9]{4}){3}\b", page.text)


def test_it_is_set_up_with_a_code_renewed_and_switched_off(app, world, db, code):
    clerk = visitor(app, world)
    page = clerk.get("/second-factor")
    assert "<svg" in page.text
    assert "style=" not in page.text
    secret, state = secret_on(page), STATE.search(page.text)[1]
    wrong = clerk.submit("/second-factor/set-up", 400, state=state, code=code(-10, secret))
    assert "check the clock" in page_of(wrong)
    assert secret_on(wrong) == secret
    key = "11111111-1111-4111-8111-111111111111"
    fields = {"state": STATE.search(wrong.text)[1], "code": code(-1, secret)}
    made = clerk.submit("/second-factor/set-up", 200, key=key, **fields)
    codes = recovery_codes_on(made)
    assert len(set(codes)) == RECOVERY_CODES
    # The same form again makes nothing twice, and shows no codes.
    again = clerk.submit("/second-factor/set-up", 200, key=key, **fields)
    assert ("already sent" in page_of(again), recovery_codes_on(again)) == (True, [])
    renewed = clerk.submit("/second-factor/recovery-codes", 200, code=codes[0])
    assert not set(recovery_codes_on(renewed)) & set(codes)
    clerk.submit("/second-factor/switch-off", 400, code=codes[1])
    off = clerk.led_to(clerk.post("/second-factor/switch-off", code=code(0, secret)))
    assert "switched off" in page_of(off)
    assert db.users.find_one({"_id": clerk.user["_id"]})["SecondFactor"] is None
    told = str(db.users.find_one({"_id": clerk.user["_id"]})) + str(list(db.history.find()))
    assert not [text for text in (secret, *codes) if text in told]


def test_setting_it_up_ends_all_other_sign_ins(app, world, client, code):
    clerk, elsewhere = visitor(app, world), Visitor(app)
    name = clerk.user["Name"]
    elsewhere.sign_in(name)
    body = {"grant_type": "password", "username": name, "password": sha256(PASSWORD)}
    tokens = client.post("/api/oauth/token", data=body).json
    page = clerk.get("/second-factor")
    fields = {"state": STATE.search(page.text)[1], "code": code(0, secret_on(page))}
    clerk.submit("/second-factor/set-up", 200, **fields)
    assert (is_signed_in(clerk), is_signed_in(elsewhere)) == (True, False)
    again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert client.post("/api/oauth/token", data=again).status_code == 400
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert client.get("/api/v1/players", headers=bearer).status_code == 401


def test_two_tabs_tell_what_the_other_has_done(app, world, code):
    clerk = visitor(app, world)
    pages = [clerk.get("/second-factor") for _ in range(2)]
    sent = [(STATE.search(p.text)[1], code(0, secret_on(p))) for p in pages]
    made = clerk.submit("/second-factor/set-up", 200, state=sent[0][0], code=sent[0][1])
    late = clerk.submit("/second-factor/set-up", 409, state=sent[1][0], code=sent[1][1])
    assert "already has a second factor" in page_of(late)
    codes = recovery_codes_on(made)
    clerk.submit("/second-factor/switch-off", 303, code=codes[0])
    off = clerk.submit("/second-factor/switch-off", 409, code=codes[1])
    assert "no second factor" in page_of(off)
    assert secret_on(off)


def test_a_secret_of_somebody_elses_page_is_refused(app, world, code):
    one, other = visitor(app, world), visitor(app, world)
    page = one.get("/second-factor")
    fields = {"state": STATE.search(page.text)[1], "code": code(0, secret_on(page))}
    refused = other.submit("/second-factor/set-up", 400, **fields)
    assert "too old" in page_of(refused)
    assert secret_on(refused) != secret_on(page)


def test_a_role_that_needs_one_leads_every_page_to_the_set_up(app, world, db, client, code):
    db.roles.insert_one(make_role("guards", "players.read", NeedsSecondFactor=True))
    somebody = Visitor(app)
    somebody.user = world.add_user(PASSWORD, Name="warden", Roles=["guards"])
    assert somebody.sign_in("warden").status_code == 303
    for path in ("", "/players", "/sign-ins"):
        assert somebody.get(path).headers["Location"] == "/console/second-factor", path
    page = somebody.get("/second-factor")
    assert "Your role needs a second factor: set it up to continue" in page_of(page)
    refused = somebody.send("/keys", {"token": TOKEN.search(page.text)[1], "Name": "shop"})
    assert (refused.status_code, "second factor" in page_of(refused)) == (403, True)
    body = {"grant_type": "password", "username": "warden", "password": sha256(PASSWORD)}
    denied = client.post("/api/oauth/token", data=body)
    assert (denied.status_code, denied.json["error"]) == (403, "access_denied")
    assert "set it up at the console" in denied.json["Message"]
    token, key = TOKEN.search(page.text)[1], "11111111-1111-4111-8111-111111111111"
    fields = {"token": token, "key": key, "state": STATE.search(page.text)[1]}
    fields["code"] = code(0, secret_on(page))
    assert somebody.send("/second-factor/set-up", fields).status_code == 200
    assert somebody.get("/players").status_code == 200


def grow_old(db, visitor, minutes=16):
    began = datetime.now(timezone.utc) - timedelta(minutes=minutes)
    db.refresh_tokens.update_many({"UserId": visitor.user["_id"]}, {"$set": {"BeganAt": began}})


def hidden_fields(page):
    return dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.text))


def test_a_sensitive_form_asks_for_the_password_again_and_goes_on(app, world, db, code):
    clerk = visitor(app, world)
    grow_old(db, clerk, 14)
    typed = {"Name": "shop", "may-players.read": "true", "Days": "7"}
    clerk.submit("/keys", 200, **typed)
    grow_old(db, clerk)
    asked = clerk.submit("/keys", 403, **{**typed, "Name": "other"})
    assert "Is it still you?" in page_of(asked)
    assert "Code" not in page_of(asked)
    fields = hidden_fields(asked)
    wrong = clerk.send("/keys", {**fields, "own-password": "x"})
    assert (wrong.status_code, "password is wrong" in page_of(wrong)) == (400, True)
    made = clerk.send("/keys", {**hidden_fields(wrong), "own-password": PASSWORD})
    assert (made.status_code, "The key other was created" in page_of(made)) == (200, True)
    assert "own-password" not in made.text
    # It was proved, and is not asked for again.
    clerk.submit("/keys", 200, **{**typed, "Name": "third"})
    factor = make_factor(SECRET, service(app, Vault), CODES)
    db.users.update_one({"_id": clerk.user["_id"]}, {"$set": {"SecondFactor": factor}})
    db.refresh_tokens.update_many({}, {"$unset": {"ProvedAt": 1}})
    fields = hidden_fields(clerk.submit("/keys", 403, **{**typed, "Name": "fourth"}))
    fields["own-password"] = PASSWORD
    assert clerk.send("/keys", fields).status_code == 400
    assert clerk.send("/keys", {**fields, "own-code": code()}).status_code == 200


def test_a_stranger_keeps_nobody_from_proving_who_they_are(app, world, db, client):
    clerk, most = visitor(app, world), app.config["ACCOUNT_FAILURES"]
    grow_old(db, clerk)
    wrong = {"grant_type": "password", "username": clerk.user["Name"], "password": sha256("x")}
    statuses = [client.post("/api/oauth/token", data=wrong).status_code for _ in range(most + 1)]
    assert statuses[-1] == 429
    typed = {"Name": "shop", "may-players.read": "true", "Days": "7"}
    fields = hidden_fields(clerk.submit("/keys", 403, **typed))
    assert clerk.send("/keys", {**fields, "own-password": PASSWORD}).status_code == 200
    # The guesses of the session itself are counted.
    db.refresh_tokens.update_many({}, {"$unset": {"ProvedAt": 1}})
    fields = {**hidden_fields(clerk.submit("/keys", 403, **{**typed, "Name": "b"}))}
    for _ in range(most):
        assert clerk.send("/keys", {**fields, "own-password": "x"}).status_code == 400
    assert clerk.send("/keys", {**fields, "own-password": PASSWORD}).status_code == 429


def test_a_form_that_is_not_sensitive_asks_nothing(app, world, db):
    clerk = visitor(app, world)
    grow_old(db, clerk, 600)
    player = world.add_player()
    clerk.submit(f"/players/{player['_id']}/rename", 303, Name="Aldric")


def test_how_a_colleague_signs_in_is_a_sensitive_form_and_how_a_player_does_is_not(app, world, db):
    lead = visitor(app, world, *Role)
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


@pytest.mark.parametrize("is_mailed", [True, False])
def test_an_administrator_resets_a_lost_one(app, world, db, alice, is_mailed):
    def fail(*_, **__):
        raise MailNotSent("The mail server is away.")

    if not is_mailed:
        service(app, Mailer).send = fail
    admin = visitor(app, world, *ALL)
    assert "Reset the second factor" in admin.read(f"/users/{alice['_id']}")
    answer = admin.post(f"/users/{alice['_id']}/second-factor", confirm="alice")
    page = page_of(admin.led_to(answer))
    assert ("tell the person yourself" in page) is not is_mailed
    assert db.users.find_one({"_id": alice["_id"]})["SecondFactor"] is None
    assert "Reset the second factor…" not in admin.read(f"/users/{alice['_id']}")
