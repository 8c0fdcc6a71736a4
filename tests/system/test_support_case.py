"""A support case from beginning to end, by keyboard alone.

Somebody writes that a tonic was lost. A colleague has given the wrong thing already, and the player
has forgotten the password as well.
"""

import itertools

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from app.demo.names import guid
from tests.system.conftest import with_scripts
from tests.system.console import Api, Demo

WRONG, RIGHT = "Perfect Mana Draught", "Perfect Tonic of Stone"
REASON, NOTE = "Lost in the crash of Saturday, ticket 4711", "Got the tonic back, ticket 4711."
NUMBERS = itertools.count(60)
MANY = 150
FOCUS = """
    const element = document.activeElement;
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    const label = element.labels?.[0]?.innerText ?? element.ariaLabel ?? element.innerText;
    return {
        label: label?.trim() ?? "",
        form: element.form?.id ?? "",
        seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
            && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    };
"""


class Case:
    """The player whom the case is about, and what must have come of it."""

    def __init__(self, demo):
        self._api, self._outbox = Api(demo), demo.folder / "outbox"
        self.player = Demo("player", next(NUMBERS))
        self._give(WRONG)
        owner = self._api.get(f"players/{self.player.id}")["UserId"]
        self.owner = self._api.get(f"users/{owner}")["Name"]

    def _give(self, item):
        body = {"itemid": guid("item", item), "quantity": 2}
        self._api.post(f"players/{self.player.id}/items/give", **body)

    def assert_solved(self):
        entries = self._api.get("history", player=self.player.id)["Values"]
        told = [(entry["Operation"], entry["Via"]) for entry in entries]
        by_console = [(operation, "console") for operation in ("note", "give", "undo")]
        assert told == [*by_console, ("give", "api")]
        assert entries[1]["Reason"] == REASON
        assert entries[2]["Undoes"] == entries[3]["Id"]
        held = self._api.get(f"players/{self.player.id}/items/inventory")
        counts = {slot["ItemId"]: slot["Quantity"] for slot in held}
        assert guid("item", WRONG) not in counts
        assert counts[guid("item", RIGHT)] == 1
        (note,) = self._api.get(f"players/{self.player.id}/notes")["Values"]
        assert note["Text"] == NOTE
        assert len(list(self._outbox.glob(f"*{self.owner}*.eml"))) == 1


@pytest.fixture
def case(demo):
    return Case(demo)


class Keyboard:
    """Somebody without a mouse, who sees where the focus is."""

    def __init__(self, console):
        self._console = console

    def press(self, *keys):
        ActionChains(self._console.browser).send_keys(*keys).perform()

    def follow(self, *keys):
        """Press keys that lead to another page."""
        self._console.leave(lambda: self.press(*keys))

    def search(self, text):
        control_k = ActionChains(self._console.browser).key_down(Keys.CONTROL).send_keys("k")
        control_k.key_up(Keys.CONTROL).send_keys(text).perform()

    def focus(self):
        return self._console.browser.execute_script(FOCUS)

    def tab_to(self, label, form=""):
        """Press Tab until something of this label has the focus, which must always be in sight."""
        for _ in range(MANY):
            self.press(Keys.TAB)
            focus = self.focus()
            assert focus["seen"], focus
            if focus["label"].startswith(label) and form in focus["form"]:
                return
        raise AssertionError(f"Tab does not lead to {label}.")

    def arrow_to(self, name):
        """Press the arrow until the suggestion of this name is marked."""
        self._console.one(".options:not([hidden]) li")
        for _ in range(MANY):
            self.press(Keys.ARROW_DOWN)
            if self._console.texts(".options [aria-selected=true] > span") == [name]:
                return
        raise AssertionError(f"{name} is not suggested.")


@pytest.mark.everything
@with_scripts
def test_a_support_case_is_solved_by_keyboard_alone(console, case):
    keyboard, player = Keyboard(console), case.player
    console.open()
    keyboard.search(player.name[:3])
    keyboard.arrow_to(player.name)
    keyboard.follow(Keys.ENTER)
    assert console.text("h1") == player.name
    keyboard.tab_to("Items")
    keyboard.tab_to("History")
    keyboard.follow(Keys.ENTER)
    assert f"+2 {WRONG}" in console.text(".entries tbody tr")
    keyboard.tab_to(f"Undo: {WRONG}")
    keyboard.follow(Keys.ENTER)
    keyboard.tab_to("Items")
    keyboard.follow(Keys.ENTER)
    keyboard.tab_to("Item", form="give")
    keyboard.press(RIGHT[:12])
    keyboard.arrow_to(RIGHT)
    keyboard.press(Keys.ENTER)
    assert console.value("give-itemid") == RIGHT
    keyboard.tab_to("Reason", form="give")
    keyboard.press(REASON)
    keyboard.tab_to("Give", form="give")
    keyboard.follow(Keys.ENTER)
    assert console.notice == f"Gave 1 {RIGHT} to {player.name}."
    keyboard.tab_to("Notes")
    keyboard.follow(Keys.ENTER)
    keyboard.tab_to("Note", form="note")
    keyboard.press(NOTE)
    keyboard.tab_to("Save", form="note")
    keyboard.follow(Keys.SPACE)
    keyboard.tab_to(case.owner)
    keyboard.follow(Keys.ENTER)
    assert console.text("h1") == case.owner
    keyboard.tab_to("Mail a reset code")
    keyboard.press(Keys.ENTER)
    keyboard.tab_to("Reason", form="mail-code")
    keyboard.press(REASON)
    keyboard.follow(Keys.ENTER)
    assert console.notice.startswith(f"Mailed {case.owner} a code to reset the password.")
    case.assert_solved()
