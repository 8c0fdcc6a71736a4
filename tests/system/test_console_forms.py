"""Every form of the console in a real browser, with scripts and without.

All that scripts do to each form is to send it once. Where they do nothing else, as there are no
suggestions and no preview, the form is tried without them alone.
"""

import email
import email.policy
import itertools

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from app.demo.names import VARIABLE_IDS, guid
from tests.factories import sha256
from tests.game import look, playing
from tests.system.conftest import with_scripts, without_scripts
from tests.system.console import Demo, session_cookie

# What nobody has, or knows, before a test gives or teaches it.
TONIC, TONIC_ID = "Perfect Tonic of Stone", guid("item", "Perfect Tonic of Stone")
SPELL = "Ember Nova"
NUMBERS = range(100, 200)
PLAYERS = (Demo("player", number) for number in NUMBERS)
USERS = (Demo("user", number) for number in itertools.count(10))


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


@pytest.mark.everything
def test_back_shows_what_was_typed(console, player):
    console.open(player.path)
    console.send("give", itemid=TONIC, quantity="2")
    console.leave(console.browser.back)
    assert [console.value(f"give-{name}") for name in ("itemid", "quantity")] == [TONIC, "2"]


def test_taking_begins_with_a_click_on_a_slot_and_is_previewed(console, api, player):
    api.post(f"players/{player.id}/items/give", itemid=TONIC_ID, quantity=9)
    console.open(player.path)
    console.press(f"#inventory a[title$='{TONIC}']")
    assert console.value("take-itemid") == TONIC
    console.fill("take", quantity="4")
    console.press("#form-take [name=preview]")
    assert len(console.all("#inventory .slot.will")) == 1
    assert "9 \N{RIGHTWARDS ARROW} 5" in console.text("#preview-take")
    console.send("take")
    assert console.notice == f"Took 4 {TONIC} from {player.name}."
    assert f"5\n{TONIC}" in "\n".join(console.slots)


def test_a_spell_is_taught_and_forgotten_and_that_is_undone_from_the_list(console, player):
    console.open(f"{player.path}/spells")
    console.send("teach", spellid=SPELL)
    assert console.notice == f"Taught {player.name} {SPELL}."
    console.press(f"button[aria-label='Forget {SPELL}']")
    assert console.notice == f"{player.name} has forgotten {SPELL}."
    assert SPELL not in console.text("main .card")
    console.open(f"{player.path}/history")
    console.press(".entries tr:first-child button")
    assert console.path == f"/console{player.path}/history"
    assert "undone" in console.text(".entries tr:nth-child(2)")
    console.open(f"{player.path}/spells")
    assert SPELL in console.text("main .card")


def test_a_variable_is_set(console, api, player):
    console.open(f"{player.path}/variables")
    console.send("set-variable", variableid="Reputation", value="1234")
    assert "1,234" in console.notice
    value = api.get(f"players/{player.id}/variables/{VARIABLE_IDS['Reputation']}")
    assert value["Value"] == 1234


def test_what_is_left_of_a_gift_is_undone_from_its_page(console, player, api):
    for verb, quantity in (("give", 3), ("take", 2)):
        gift = {"itemid": TONIC_ID, "quantity": quantity}
        api.post(f"players/{player.id}/items/{verb}", **gift)
    console.open(f"{player.path}/history")
    console.press(".entries tr:nth-child(2) .when a")
    assert "You can undo the rest." in console.text(".acts")
    console.send("undo-partial", reason="Spent")
    assert "2 of 3" in console.notice


def test_a_note_is_written_and_undone_from_the_page_of_its_change(console, player):
    console.open(f"{player.path}/notes")
    console.send("note", Text="Two\nlines.")
    assert console.notice == f"Wrote a note on {player.name}."
    assert console.text(".note-text") == "Two\nlines."
    console.open(f"{player.path}/history")
    console.press(".entries .when a")
    console.send("undo", reason="Was about another one.")
    assert console.notice.startswith(f"Undid a change of {player.name}")
    assert "This change has already been undone." in console.text()
    console.open(f"{player.path}/notes")
    assert console.all(".note-text") == []


@without_scripts
def test_an_account_is_banned_and_muted_and_gets_a_code_a_password_and_an_address(
    console, demo, api, user
):
    console.open(user.path)
    for verb, done in (("ban", "Banned"), ("mute", "Muted")):
        console.send(verb, duration="3", reason="Selling gold.")
        assert console.notice == f"{user.name}: {done} for 3 days."
    assert {"banned", "muted"} <= set(console.texts(".facts .mark"))
    assert "Selling gold." in console.text(".penalty")
    for verb in ("unban", "unmute"):
        console.send(verb, reason="Was another one.")
    assert console.texts(".facts .mark.bad") == []
    console.send("mail-code", reason="Ticket 4711.")
    assert console.notice.startswith(f"Mailed {user.name} a code to reset the password.")
    (mail,) = mails_to(demo, f"{user.name}@example.com")
    assert any(code in mail for code in console.texts("main p > code"))
    console.send("password", new="correct horse", again="correct horse", confirm=user.name)
    assert console.notice == f"{user.name}: Password changed."
    api.post(f"users/{user.id}/password/validate", password=sha256("correct horse"))
    console.send("email", new=f"new.{user.name}@example.org", confirm="somebody")
    assert console.text("#email-confirm-about").startswith(f"Type {user.name} here")
    console.send("email", confirm=user.name)
    assert console.text(".facts .address") == f"new.{user.name}@example.org"
    console.open(f"{user.path}/notes")
    console.send("note", Text="Was banned by mistake.")
    assert console.text(".note-text") == "Was banned by mistake."


def mails_to(demo, address):
    mails = []
    for path in demo.folder.glob("outbox/*.eml"):
        mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        if address in mail["To"]:
            mails.append(mail.get_body(("plain",)).get_content())
    return mails


@without_scripts
def test_sign_ins_end_one_by_one_and_all_at_once(console, demo, user):
    demo.command("api", "grant", user.name, "api")
    cookies = [session_cookie(demo.base, user.name) for _ in range(3)]
    console.open(f"{user.path}/sign-ins")
    console.press("tbody tr:first-child button")
    assert len(console.all("tbody tr")) == 2
    assert sum(is_signed_in(demo, cookie) for cookie in cookies) == 2
    console.send("sign-out", confirm=user.name)
    assert console.notice == f"{user.name}: Signed out everywhere."
    assert sum(is_signed_in(demo, cookie) for cookie in cookies) == 0
    # One's own as well.
    other = session_cookie(demo.base)
    console.open("/sign-ins")
    rows = [row for row in console.all("tbody tr") if "Another browser" in row.text]
    row, *_ = [row for row in rows if "this one" not in row.text]
    console.leave(row.find_element("css selector", "button").click)
    assert len(console.all("tbody tr")) >= 1
    assert not is_signed_in(demo, other)


def is_signed_in(demo, cookie):
    return (
        demo.ask("GET", "/console/sign-ins", None, "", Cookie=f"quartermaster={cookie}")[0] == 200
    )


@without_scripts
def test_a_key_is_made_and_seen_once_then_rotated_and_revoked(console, demo, player, user):
    console.open(f"{user.path}/keys")
    console.fill("create-key", Name="shop", Days="30", ItemsPerDay="5")
    console.send("create-key")
    assert "Must contain at least one scope" in console.text("fieldset .fault")
    assert console.value("create-key-ItemsPerDay") == "5"
    console.one("#form-create-key [name='players.read']").send_keys(Keys.SPACE)
    console.send("create-key")
    secret = console.text(".secret")
    # Who plays only may not use the API, and neither may a key of such an account.
    path = f"/api/v1/players/{player.id}"
    assert demo.status(path, secret) == 403
    assert secret not in console.browser.current_url
    console.open(f"{user.path}/keys")
    assert console.text(".keys h3") == "shop"
    assert "0 of 5 used today" in console.text(".keys")
    assert secret not in console.browser.page_source
    form = console.all(".keys form")[0].get_attribute("id").removeprefix("form-rotate-")
    console.send(f"rotate-{form}", OverlapHours="0")
    assert console.text(".secret") != secret
    assert demo.status(path, secret) == 401
    console.send(f"revoke-{form}", confirm="shop")
    assert console.notice == f"Revoked the key shop of {user.name}."
    assert console.all(".keys") == []


@without_scripts
def test_a_role_is_made_given_changed_and_removed(console, demo, user):
    console.open("/roles")
    console.fill("create-role", Name="events", ItemsPerDay="70")
    check(console, "create-role", "players.read", "items.move")
    console.send("create-role", reason="For the summer.")
    assert console.notice == "events: Role made: players.read, items.move."
    console.open("/roles/events")
    check(console, "change", "items.move", "history.read")
    console.send("change")
    assert "Permissions: +history.read, −items.move" in console.text(".entries")
    demo.command("staff", "roles", user.name, "viewer")
    console.open(f"/staff/{user.id}")
    check(console, "roles", "events", "viewer")
    console.send("roles", reason="Helps at events.")
    assert console.notice == f"{user.name}: Roles: +events, −viewer."
    console.send("disable", confirm=user.name)
    assert "disabled" in console.text("h2 .mark")
    console.send("enable")
    assert console.notice == f"{user.name}: Enabled for the console and the API."
    console.open("/roles/events")
    assert user.name in console.text(".acts")
    console.send("remove", confirm="events")
    assert console.notice == "events: Role removed."
    assert console.path == "/console/roles"


def check(console, form, *names):
    """Check some boxes of a form, or uncheck them."""
    for name in names:
        console.one(f"#form-{form} [name='may-{name}']").send_keys(Keys.SPACE)


@without_scripts
def test_a_colleague_is_invited_twice(console, demo):
    console.open("/staff")
    console.fill("invite", Name="newcomer", Email="newcomer@example.com")
    console.send("invite")
    assert "Must contain a role" in console.text("fieldset .fault")
    check(console, "invite", "support")
    console.send("invite")
    assert console.notice.startswith("Mailed newcomer an invitation.")
    assert "Invited by mail; roles: support" in console.text(".entries")
    console.send("invite-again")
    assert len(mails_to(demo, "newcomer@example.com")) == 2


@without_scripts
def test_a_player_is_renamed_deleted_and_brought_back(console, api, player):
    console.open(player.path)
    before, name = console.slots, f"{player.name} the Second"
    console.send("rename", Name=name, reason="Asked for it.")
    assert console.notice == f"{player.name} is called {name} now."
    console.send("delete", confirm=name)
    assert console.notice == f"Deleted {name}."
    told = console.text(".gone p")
    assert told.startswith("This player was deleted ")
    assert "by demo." in told
    console.open(player.path)
    console.press(".gone button")
    assert console.notice == f"Undid a change of {name}: Brought back."
    assert console.text("h1") == name
    assert console.slots == before
    assert api.get(f"players/{player.id}")["Name"] == name


@without_scripts
def test_a_person_is_erased_once_the_name_is_typed(console, api):
    # Whose characters are online, the game would store again. Other tests have theirs to keep.
    needed = {guid("player", number) for number in NUMBERS}
    user = next(
        user
        for user in USERS
        if not any(
            player["Online"] or player["Id"] in needed
            for player in api.get(f"users/{user.id}/players")
        )
    )
    console.open(user.path)
    assert "Kept: history" in console.text("#form-erase")
    console.send("erase", Confirm=user.name, reason="Asked by mail.")
    while console.text(".gone h2") == "This person is being erased":
        console.open(console.path.removeprefix("/console"))
    assert console.text(".gone h2") == "This person was erased"
    assert "Asked by mail." in console.text(".entries")
    assert user.name not in console.text()


@without_scripts
def test_a_global_variable_is_set_from_what_is_shown(console, api):
    variable = guid("servervariable", "Gold Rate")
    console.open(f"/catalogue/servervariable/{variable}")
    console.send("value", value="1500")
    assert api.get(f"variables/global/{variable}")["Value"] == 1500
    console.send("value", value="100")
    assert api.get(f"variables/global/{variable}")["Value"] == 100


def test_somebody_signs_in_where_they_wanted_to_go_and_out_again(console, player):
    console.command("Network.clearBrowserCookies")
    console.open(f"{player.path}/notes")
    console.sign_in("demo", "demo")
    assert console.path == f"/console{player.path}/notes"
    console.press(".menu button")
    assert console.path == "/console/sign-in"
    console.open(player.path)
    assert console.path.startswith("/console/sign-in")


def test_a_double_click_is_one_change(console, api, player):
    console.open(player.path)
    console.fill("give", itemid=TONIC, quantity="2")
    button = console.one("#form-give .do")
    console.leave(ActionChains(console.browser).double_click(button).perform)
    console.wait.until(lambda _: console.all(".toast"))
    entries = api.get("history", player=player.id)["Values"]
    assert [entry["Arguments"]["Quantity"] for entry in entries] == [2]


def test_an_error_is_said_beside_its_field_and_keeps_what_was_typed(console, player):
    console.open(player.path)
    console.send("give", itemid=TONIC, quantity="0", reason="A long reason.")
    assert console.text("#give-quantity-about.fault")
    widths = [console.one(f"#give-{part}").size["width"] for part in ("quantity-about", "itemid")]
    assert widths[0] == widths[1]
    assert console.one("#give-quantity").get_attribute("aria-invalid") == "true"
    assert [console.value(f"give-{name}") for name in ("itemid", "quantity", "reason")] == [
        TONIC,
        "0",
        "A long reason.",
    ]
    assert console.value("take-itemid") == ""
    console.send("give", itemid="Tonic of Ston", quantity="1")
    console.press("#form-give .choices button:last-child")
    assert "Tonic of Stone" in console.notice


@without_scripts
def test_a_warp_and_a_message_without_scripts(console, demo, player):
    with playing(demo.db):
        console.open(player.path)
        console.send("warp", mapid="Ravenrock", x="3", y="4", confirm=player.name)
        assert console.notice == f"Warped {player.name} to Ravenrock (3, 4)."
        console.open("/chat")
        console.one("[name=to][value=player]").click()
        console.send("chat", player=player.name, Message="Welcome back.")
        assert console.notice == f"Said “Welcome back.” to {player.name}."
        assert console.value("chat-player") == player.name


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


@without_scripts
def test_a_letter_with_an_item_waits_and_is_withdrawn(console, player):
    console.open(player.path)
    console.send("letter", Message="Sorry.", itemid="Nothing of that name")
    assert console.text("#letter-itemid-about.fault")
    console.send("letter", itemid=TONIC, quantity="2", reason="Ticket 4711.")
    assert console.notice == f"The letter waits until {player.name} is online."
    console.press("#asked .when a")
    assert f"“Sorry.”, 2 {TONIC}" in console.text("#action")
    console.send("withdraw")
    assert "withdrawn" in console.text("#action")
    assert console.all("#form-withdraw") == []


@with_scripts
def test_a_countdown_is_shown_and_stopped(console, demo):
    look(demo.db)
    console.open("/game")
    console.send("restart", Minutes="61", Message="An update.")
    assert console.text("#restart-Minutes-about.fault")
    # Back does not ask whether to send the refused form again.
    console.wait.until(lambda _: console.path == "/console/game")
    console.open("/report")
    console.leave(console.browser.back)
    assert (console.path, console.text("h1")) == ("/console/game", "Game")
    look(demo.db)
    console.send("restart", Minutes="10", Message="An update.")
    assert "has not answered yet" in console.notice
    taken = {"$currentDate": {"Taken": True}, "$set": {"TakenBy": "world-1"}}
    demo.db.actions.update_one({"Kind": "restart"}, taken)
    console.wait.until(lambda _: "counts down" in console.notice)
    console.open()
    assert "An update." in console.text(".warning")
    console.press(".warning a")
    console.send("withdraw")
    assert "withdrawn" in console.text("#action")
    console.open()
    assert console.all(".warning") == []


@without_scripts
def test_a_report_is_of_the_period_that_was_chosen(console):
    console.open("/report")
    for first, said in (("2026-02-01", "2026-02-01 to 2026-02-03"), ("2026-03-01", "must not be")):
        for name, day in (("from", first), ("to", "2026-02-03")):
            field = console.one(f"#{name}")
            console.browser.execute_script("arguments[0].value = arguments[1]", field, day)
        console.press(".list-head button")
        assert said in console.text()


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
def test_what_was_typed_and_refused_before_is_back_as_a_whole(console, player):
    console.open("/batches/new?kind=changes")
    console.send("changes", By="nobody at all", reason="Ticket 4711.")
    assert console.text(".refusal")
    console.fill("changes", Name="Cleaning up")
    lose_session(console)
    console.send("changes")
    console.press("main a")
    console.sign_in("demo", "demo")
    typed = [console.value(f"changes-{name}") for name in ("By", "reason", "Name")]
    assert typed == ["nobody at all", "Ticket 4711.", "Cleaning up"]


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
