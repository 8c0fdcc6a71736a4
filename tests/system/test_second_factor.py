"""The second factor and an invitation in a real browser: what its scripts and its policy do."""

import re

import pytest

from tests.system.console import Console

NAME, PASSWORD = "guarded", "secret"


@pytest.fixture
def console(browser, demo):
    """Somebody who has not signed in yet."""
    if not demo.db.users.find_one({"Name": NAME}):
        demo.add_account(NAME, "api")
    return Console(browser, demo)


def sign_out(console):
    console.one(".me summary").click()
    console.press(".menu button")
    assert console.path == "/console/sign-in"


def test_the_code_to_scan_is_drawn_within_the_policy_of_the_page(console):
    console.open("/sign-in")
    console.sign_in(NAME, PASSWORD)
    console.press(".menu a[href$=second-factor]")
    assert console.one(".qr").size["width"] > 100
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
