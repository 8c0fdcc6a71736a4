"""An invitation in a real browser: what the script of its page does."""

import re

from tests.system.console import Console


def test_the_link_of_an_invitation_is_read_by_the_page_and_leaves_its_address(browser, demo, api):
    console = Console(browser, demo)
    api.post("staff", Name="recruit", Email="recruit@example.com", Roles=["viewer"])
    (mail,) = demo.folder.glob("outbox/*recruit*.eml")
    text = mail.read_text().replace("=\n", "").replace("=23", "#")
    console.open(re.search(r"/console(/invitation#\S+)", text)[1])
    console.wait.until(lambda _: console.value("choose-a-password-invitation"))
    assert "#" not in console.browser.current_url
    for again in ("something else", "long enough"):
        console.enter("#choose-a-password-new", "long enough")
        console.enter("#choose-a-password-again", again)
        console.press("form button.do")
    assert "Your password is set" in console.text("main")
