"""Every form of the console in a real browser, with scripts and without.

All that scripts do to each form is to send it once. Where they do nothing else, as there are no
suggestions and no preview, the form is tried without them alone.
"""

import itertools

import pytest
from selenium.webdriver.common.action_chains import ActionChains

from app.maintenance.demo.catalogue import guid
from tests.factories import make_object
from tests.game import look
from tests.system.conftest import with_scripts
from tests.system.console import Demo

# What nobody has before a test gives it.
TONIC, TONIC_ID = "Perfect Tonic of Stone", guid("item", "Perfect Tonic of Stone")
NUMBERS = range(100, 200)
PLAYERS = (Demo("player", number) for number in NUMBERS)
USERS = (Demo("user", number) for number in itertools.count(10))


@pytest.fixture(scope="module", autouse=True)
def tonic(demo):
    """Add an item that nobody has: players of the demo world have all of its others."""
    demo.db.objects.insert_one(make_object(Id=TONIC_ID, Name=TONIC))


@pytest.fixture
def player():
    return next(PLAYERS)


@pytest.fixture
def user():
    return next(USERS)


def test_giving_is_previewed_in_the_slots_told_and_undone_from_the_notice(console, player):
    console.open(player.path)
    before = console.slots
    console.fill("give", itemid=TONIC, quantity="5", reason="Lost in the crash.")
    console.press("#form-give [name=preview]")
    assert [slot for slot in console.slots if slot not in before] == console.texts(".slot.will")
    assert "empty \N{RIGHTWARDS ARROW} 5" in console.text("#preview-give")
    assert console.value("give-reason") == "Lost in the crash."
    console.press("#form-give .do")
    assert console.notice == f"Gave 5 {TONIC} to {player.name}."
    assert len(console.slots) == len(before) + 1
    told = console.text(".entries tbody tr")
    assert all(part in told for part in (f"+5 {TONIC}", "Lost in the crash.", "demo", "console"))
    console.press(".toast button")
    assert console.notice.startswith(f"Undid a change of {player.name}")
    assert console.slots == before


def test_a_click_on_a_slot_fills_in_the_form_to_take_its_item(console, api, player):
    api.post(f"players/{player.id}/items/give", itemid=TONIC_ID, quantity=9)
    console.open(player.path)
    console.press(f"#inventory a[title$='{TONIC}']")
    assert console.value("take-itemid") == TONIC


def test_a_double_click_is_one_change(console, api, player):
    console.open(player.path)
    console.fill("give", itemid=TONIC, quantity="2")
    button = console.one("#form-give .do")
    console.leave(ActionChains(console.browser).double_click(button).perform)
    console.wait.until(lambda _: console.all(".toast"))
    entries = api.get("history", player=player.id)["Values"]
    assert [entry["Arguments"]["Quantity"] for entry in entries] == [2]


@with_scripts
def test_a_late_answer_of_the_game_comes_by_itself(console, demo, player):
    look(demo.db)
    console.open(player.path)
    console.send("kick", confirm=player.name)
    assert "has not answered yet" in console.notice
    answered = {"$currentDate": {"Taken": True, "Done": True}, "$set": {"TakenBy": "world-1"}}
    demo.db.actions.update_one({"Subject.Id": player.id}, answered)
    console.wait.until(lambda _: console.notice == f"Kicked {player.name}.")
    console.wait.until(lambda _: "done" in console.text("#asked"))


@with_scripts
def test_a_refused_form_is_not_sent_again_by_going_back(console, demo):
    look(demo.db)
    console.open("/game")
    console.send("restart", Minutes="61", Message="An update.")
    assert console.text("#restart-Minutes-about.fault")
    # Back does not ask whether to send the refused form again.
    console.wait.until(lambda _: console.path == "/console/game")
    console.open("/report")
    console.leave(console.browser.back)
    assert (console.path, console.text("h1")) == ("/console/game", "Game")
    console.send("restart", Minutes="10", Message="An update.")
    assert "has not answered yet" in console.notice
    taken = {"$currentDate": {"Taken": True}, "$set": {"TakenBy": "world-1"}}
    demo.db.actions.update_one({"Kind": "restart"}, taken)
    console.wait.until(lambda _: "counts down" in console.notice)


BACK = "Your input from before the sign-in is restored. It was not sent."


def lose_session(console):
    console.command("Network.clearBrowserCookies")


@with_scripts
def test_what_was_typed_is_back_after_a_session_has_ended(console, api, player):
    console.open(player.path)
    console.one("[name=bankoverflow]").click()
    console.fill("give", itemid=TONIC, quantity="7", reason="Lost in the crash.")
    lose_session(console)
    # Before that, the button would move away under the mouse.
    console.wait.until(lambda _: "No preview" in console.text("#preview-give"))
    console.send("give")
    assert "no longer signed in" in console.text()
    assert "is restored in its form after you sign in" in console.text()
    assert "on another tab" not in console.text()
    console.press("main a")
    console.sign_in("demo", "demo")
    assert console.path == f"/console{player.path}"
    assert console.text("#form-give .restored") == BACK
    assert [console.value(f"give-{name}") for name in ("itemid", "quantity", "reason")] == [
        TONIC,
        "7",
        "Lost in the crash.",
    ]
    assert console.one("[name=bankoverflow]").is_selected()
    assert console.all("#form-take .restored") == []
    # It was not sent by itself, and is sent as any other form.
    assert api.get("history", player=player.id)["Values"] == []
    console.wait.until(lambda _: "empty \N{RIGHTWARDS ARROW} 7" in console.text("#preview-give"))
    console.send("give")
    assert console.notice == f"Gave 7 {TONIC} to {player.name}."
    assert console.value("give-itemid") == ""
    # What was sent does not come back, whoever signs in next.
    lose_session(console)
    console.open(player.path)
    console.sign_in("demo", "demo")
    assert console.value("give-itemid") == ""
    assert console.all(".restored") == []


@pytest.mark.everything
@with_scripts
def test_what_was_typed_and_not_sent_is_back_where_it_was_typed(console, user):
    console.open(user.path)
    console.fill("email", new=f"other.{user.name}@example.com", reason="Asked by mail.")
    console.fill("password", new="correct horse", again="correct horse", reason="Forgotten.")
    lose_session(console)
    console.open(f"{user.path}/notes")
    console.sign_in("demo", "demo")
    assert console.all(".restored") == []
    console.open(user.path)
    assert console.value("email-new") == f"other.{user.name}@example.com"
    assert console.value("password-reason") == "Forgotten."
    # A password is kept nowhere.
    assert console.value("password-new") == console.value("password-again") == ""
    console.open(f"{user.path}/notes")
    console.open(user.path)
    assert console.all(".restored") == []


@pytest.mark.everything
@with_scripts
def test_what_was_typed_is_shown_to_nobody_else_and_not_after_signing_out(
    console, demo, player, user
):
    demo.command("api", "grant", user.name, "api")
    console.open(f"{player.path}/notes")
    console.fill("note", Text="Between us.")
    lose_session(console)
    console.open(f"{player.path}/notes")
    console.sign_in(user.name, "demo")
    assert console.value("note-Text") == ""
    assert "Between us." not in console.browser.execute_script(
        "return JSON.stringify(sessionStorage)"
    )
    console.fill("note", Text="Another one.")
    console.one(".me summary").click()
    console.press(".menu button")
    console.open(f"{player.path}/notes")
    console.sign_in(user.name, "demo")
    assert console.value("note-Text") == ""


@pytest.mark.everything
@with_scripts
def test_a_preview_is_renewed_and_says_when_it_cannot_be(console, api, player):
    api.post(f"players/{player.id}/items/give", itemid=TONIC_ID, quantity=3)
    console.open(player.path)
    console.fill("give", itemid=TONIC, quantity="2")
    console.wait.until(lambda _: "3 \N{RIGHTWARDS ARROW} 5" in console.text("#preview-give"))
    api.post(f"players/{player.id}/items/give", itemid=TONIC_ID, quantity=4)
    console.wait.until(lambda _: "7 \N{RIGHTWARDS ARROW} 9" in console.text("#preview-give"))
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    console.command("Network.emulateNetworkConditions", offline=True, **offline)
    console.wait.until(
        lambda _: "No preview: the server does not respond" in console.text("#preview-give")
    )
    assert console.all(".slot.will") == []
    console.command("Network.emulateNetworkConditions", offline=False, **offline)
    console.wait.until(lambda _: "7 \N{RIGHTWARDS ARROW} 9" in console.text("#preview-give"))
    lose_session(console)
    console.wait.until(
        lambda _: "No preview: you are no longer signed in" in console.text("#preview-give")
    )
    assert console.all(".slot.will") == []
