"""The second factor in a real browser: set up, signed in with, refused, and switched off."""

import re
import time

import pyotp
import pytest

from app.auth.permissions import Permission
from app.auth.shipped_roles import new_role
from tests.system.console import Console

NAME, PASSWORD = "guarded", "secret"
STEP = 30


@pytest.fixture
def console(browser, demo):
    """Somebody who has not signed in yet."""
    if not demo.db.users.find_one({"Name": NAME}):
        demo.add_account(NAME, "api")
    return Console(browser, demo)


def sign_in(console, code=None):
    console.open("/sign-in")
    console.sign_in(NAME, PASSWORD)
    if code:
        type_code(console, code)


def type_code(console, code):
    console.enter("#code-code", code)
    console.press("form button.do")


def sign_out(console):
    console.one(".me summary").click()
    console.press(".menu button")
    assert console.path == "/console/sign-in"


def test_the_whole_way(console):
    sign_in(console)
    console.press(".menu a[href$=second-factor]")
    assert console.one(".qr").size["width"] > 100
    secret = console.text(".steps .secret").replace(" ", "").replace("\n", "")
    app = pyotp.TOTP(secret)
    console.send("set-up", code=app.at(time.time() - 10 * STEP))
    assert "check the clock" in console.text(".refusal")
    assert console.text(".steps .secret").replace(" ", "") == secret
    # The one before, so that the next need not be waited for.
    console.send("set-up", code=app.at(time.time() - STEP))
    codes = console.text(".made .secret").split()
    assert len(codes) == 10
    sign_out(console)

    sign_in(console, "000000")
    assert "check the clock" in console.text(".refusal")
    code = app.now()
    type_code(console, code)
    assert console.path == "/console"
    sign_out(console)

    sign_in(console, code)
    assert "already used" in console.text(".refusal")
    type_code(console, codes[0].lower())
    # Whoever needs a recovery code is led to the page that makes new ones.
    assert console.path == "/console/second-factor"
    assert console.notice == "You signed in with a recovery code. It does not work again."
    sign_out(console)
    sign_in(console, codes[0])
    assert "wrong" in console.text(".refusal")
    type_code(console, codes[1])

    console.open("/second-factor")
    assert "8 recovery codes left" in console.text("main")
    console.send("recovery-codes", code=codes[2])
    renewed = console.text(".made .secret").split()
    assert (len(renewed), set(renewed) & set(codes)) == (10, set())
    console.send("switch-off", code=codes[3])
    assert "wrong" in console.text(".refusal")
    console.send("switch-off", code=renewed[0])
    assert console.notice == "Your second factor is switched off."
    assert not [fault for fault in console.severe() if "Content Security Policy" in fault]


def test_a_sensitive_form_asks_again_and_loses_nothing(console, demo):
    sign_in(console)
    demo.db.refresh_tokens.update_many(
        {"IsSession": True}, [{"$set": {"BeganAt": {"$subtract": ["$BeganAt", 16 * 60_000]}}}]
    )
    console.open("/keys")
    console.one("#form-create-key [name='players.read']").click()
    console.send("create-key", Name="shop", Items="")
    assert "Is it still you?" in console.text("h1")
    console.enter("#proof-own-password", PASSWORD)
    console.press("form button.do")
    assert "The key shop was created" in console.text(".made")


def test_an_invited_colleague_chooses_a_password_and_an_administrator_helps(console, demo):
    """The forms of the support lead and of the colleague, in one browser."""
    console.open("/sign-in")
    console.sign_in("demo", "demo")
    console.open("/staff")
    console.one("#invite-may-viewer").click()
    console.send("invite", Name="recruit", Email="recruit@example.com")
    assert console.notice.startswith("Mailed recruit an invitation.")
    (mail,) = demo.folder.glob("outbox/*recruit*.eml")
    text = mail.read_text().replace("=\n", "").replace("=23", "#")
    link = re.search(r"/console(/invitation#\S+)", text)[1]
    sign_out(console)

    console.open(link)
    console.wait.until(lambda _: console.value("choose-a-password-invitation"))
    assert "#" not in console.browser.current_url
    for again in ("something else", "long enough"):
        console.enter("#choose-a-password-new", "long enough")
        console.enter("#choose-a-password-again", again)
        console.press("form button.do")
    assert "Your password is set" in console.text("main")
    console.sign_in("recruit", "long enough")
    console.open("/second-factor")
    secret = console.text(".steps .secret").replace(" ", "").replace("\n", "")
    console.send("set-up", code=pyotp.TOTP(secret).now())
    assert len(console.text(".made .secret").split()) == 10
    sign_out(console)

    console.sign_in("demo", "demo")
    recruit = demo.db.users.find_one({"Name": "recruit"})["_id"]
    console.open(f"/users/{recruit}")
    console.send("reset-sign-in", reason="Lost the phone.")
    assert console.notice == "Colleagues who may approve it see your request."
    page = console.path.removeprefix("/console")
    sign_out(console)
    demo.db.roles.insert_one(new_role("leads", [one.value for one in Permission], None))
    account = ("user", "create", "third", "--email", "third@example.com", "--password-stdin")
    demo.command(*account, stdin="secret")
    demo.db.users.update_one({"Name": "third"}, {"$set": {"Roles": ["leads"]}})
    console.sign_in("third", "secret")
    console.open(page)
    console.press("#form-approve .do")
    assert "done" in console.text("h2 .mark")
    sign_out(console)
    console.sign_in("recruit", "long enough")
    assert console.path == "/console"
