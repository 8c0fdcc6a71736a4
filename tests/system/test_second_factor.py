"""The second factor in a real browser: set up, signed in with, refused, and switched off."""

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
    console.enter("#code", code)
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
    assert console.path == "/console"
    sign_out(console)
    sign_in(console, codes[0])
    assert "wrong" in console.text(".refusal")
    type_code(console, codes[1])

    console.open("/second-factor")
    assert "8 recovery codes left" in console.text("main")
    console.send("switch-off", code=codes[2])
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
    console.enter("#own-password", PASSWORD)
    console.press("form button.do")
    assert "The key shop was created" in console.text(".made")
