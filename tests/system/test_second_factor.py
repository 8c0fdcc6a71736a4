"""The second factor in a real browser: set up, signed in with, refused, and switched off."""

import re
import time

import pyotp
import pytest

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


def test_the_link_of_an_invitation_is_read_by_the_page_and_leaves_its_address(console, demo):
    console.open("/sign-in")
    console.sign_in("demo", "demo")
    console.open("/staff")
    console.one("#invite-may-viewer").click()
    console.send("invite", Name="recruit", Email="recruit@example.com")
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
