"""The pages of the console in a real browser: sound, open to everybody, and quick to use."""

import re
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
import requests
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from app.http.examples import ACTION, BAG, BATCH, GLOBAL_VARIABLE, ITEM, PLAYER, PLAYER_ID
from tests import tiers
from tests.factories import (
    make_batch,
    make_batch_row,
    make_entry,
    make_object,
    make_player,
    numbered_guid,
)
from tests.game import look, make_action
from tests.system.console import (
    DARK,
    LIGHT,
    NARROW,
    WIDE,
    Api,
    Console,
    Demo,
    session_cookie,
)
from tests.tiers import some

BANNED = Demo("user", 3)
ENTRY = f"player:{PLAYER_ID}:1"
LONG_REASON = "What happened on Saturday, " * 15
ARABIC = Demo("player", 60)
DELETED, ERASED = Demo("player", 9), Demo("user", 30)
HOSTILE = "\"><img src=x onerror=alert(1)>'<script>alert(2)</script>".ljust(255, "W")
HOSTILE_PATH = f"/players/{numbered_guid(1)}"
# Of whom few names hold this: what axe costs goes by the rows of a page.
FEW = PLAYER[:4].lower()
PLAYER_PATH, USER_PATH = f"/players/{PLAYER_ID}", BANNED.path
PAGES = {
    "the sign-in": "/sign-in",
    "the overview": "",
    "a search": f"/search?q={FEW}",
    "a search for nobody": "/search?q=zzzzz",
    "the players": f"/players?search={FEW}&sort=-level",
    "a player": f"{PLAYER_PATH}?bag={BAG}&done={ENTRY}",
    "spells": f"{PLAYER_PATH}/spells",
    "variables": f"{PLAYER_PATH}/variables",
    "the history of a player": f"{PLAYER_PATH}/history",
    "notes on a player": f"{PLAYER_PATH}/notes",
    "a player who was deleted": f"{DELETED.path}/history",
    "the users": f"/users?search={BANNED.name[:4]}",
    "the banned users": "/users/banned",
    "a user": USER_PATH,
    "the history of a user": f"{USER_PATH}/history",
    "notes on a user": f"{USER_PATH}/notes",
    "the keys of a user": f"{USER_PATH}/keys",
    "a user who was erased": f"{ERASED.path}/history",
    "the sign-ins of a user": f"{USER_PATH}/sign-ins",
    "the players online": "/players/online",
    "the game": "/game",
    "an action": f"/game/{ACTION}",
    "the chat": "/chat?to=player&player=dri",
    "the history": "/history?operation=give",
    "a filter that is refused": "/history?player=Nobody",
    "a change": f"/history/{ENTRY}",
    "the batches": "/batches",
    "a new batch": "/batches/new",
    "a batch from a file": "/batches/new/file",
    "a batch from history": "/batches/new/changes",
    "a batch for the players of a search": "/batches/new/found?search=ald&online=true",
    "a batch": f"/batches/{BATCH}",
    "the catalogue": "/catalogue/servervariable",
    "an item": f"/catalogue/item/{ITEM}",
    "a global variable": f"/catalogue/servervariable/{GLOBAL_VARIABLE}",
    "the report": "/report",
    "health": "/health",
    "the staff": "/staff",
    "somebody of the staff": f"/staff/{BANNED.id}",
    "the roles": "/roles",
    "a role": "/roles/support",
    "an invitation": "/invitation",
    "one's own sign-ins": "/sign-ins",
    "one's own second factor": "/second-factor",
    "one's own keys": "/keys",
    "an error": "/nowhere",
}


@pytest.fixture(scope="module")
def server(serve):
    with serve("--demo", "--workers", "1", AUTH_CACHE_SECONDS="0") as server:
        yield server


@pytest.fixture(scope="module")
def game(server):
    """A game that has looked, and what it was asked: one thing that it has not answered, too."""
    db = server.db
    look(db)
    look(db, "world-2", ago=60)
    subject = {"Kind": "player", "Id": PLAYER_ID, "Name": PLAYER}
    at = datetime.now(timezone.utc)
    said = {"Kind": "chat", "Arguments": {"Message": "Hello."}, "At": at}
    refused = {"Taken": at, "TakenBy": "world-1", "Error": f"{PLAYER} is not playing."}
    lasting = {"TakeBefore": at + timedelta(days=1)}
    looks = dict.fromkeys(("ClassName", "MapName"), HOSTILE)
    # The service would refuse such a name: a game may write into its database.
    hostile = make_player(Id=numbered_guid(1), Name=HOSTILE, **looks)
    db.players.insert_one(hostile, bypass_document_validation=True)
    db.objects.insert_one(make_object(Name=HOSTILE), bypass_document_validation=True)
    db.actions.insert_one(make_action(_id=ACTION, Subject=subject, At=at, **lasting))
    db.actions.insert_one(make_action(Subject=subject, **said, **refused))
    player = {"_id": PLAYER_ID, "Name": PLAYER}
    given = {"Path": "Inventory.9", "Before": None, "After": {"ItemId": ITEM, "Quantity": 3}}
    db.history.insert_one(make_entry(player, At=at, Changes=[given]))
    db.batches.insert_one(make_batch(_id=BATCH, Rows=2, At=at))
    db.batch_rows.insert_one(make_batch_row(player, BATCH, ItemId=ITEM))
    nobody = {"Subject": None, "Player": "Nobody", "Verdict": "refused", "Why": "No player."}
    db.batch_rows.insert_one(make_batch_row(player, BATCH, 2, ItemId=ITEM, **nobody))


@pytest.fixture(scope="module")
def api(server, game):
    """Somebody who has done something, so that the pages have something to show."""
    api = Api(server)
    api.post(f"players/{PLAYER_ID}/items/give", itemid=ITEM, quantity=3)
    api.post(f"players/{PLAYER_ID}/items/give", because=LONG_REASON, itemid=ITEM, quantity=1)
    api.post(f"players/{ARABIC.id}/name", Name="\u0644\u064a\u0644\u0649")
    api.post(f"players/{PLAYER_ID}/notes", Text="Lost a sword in the crash of Saturday.")
    api.post(f"users/{BANNED.id}/notes", Text="Was warned twice.")
    api.post(f"users/{BANNED.id}/admin/ban", duration=7, reason="Selling items for money.")
    budget = {"ItemsPerDay": 500, "Items": [ITEM]}
    key = {"Name": "shop", "Scopes": ["players.read", "players.change"], "Budget": budget}
    api.post(f"keys?user={BANNED.id}", **key)
    api.delete(f"players/{DELETED.id}")
    api.erase(ERASED)
    return api


@pytest.fixture(scope="module")
def session(server, api):
    return session_cookie(server.base)


@pytest.fixture
def console(browser, server, session):
    return Console(browser, server, session)


LOOKS = [(width, scheme) for width in (WIDE, NARROW) for scheme in (LIGHT, DARK)]
ZONE = "Australia/Darwin"
# In one script: a driver's own way to read the text of a page takes as long as opening it.
ZONES = """
    const named = [...document.querySelectorAll("[data-zone]")].map((part) => part.innerText);
    const text = document.body.innerText;
    return [named, Boolean(document.querySelector(".side")), text.includes("(UTC)")];
"""


def test_every_page_is_sound(console):
    """One walk, which tells all that it has found: by page, in one look or in all of them."""
    console.bring_axe()
    console.command("Emulation.setTimezoneOverride", timezoneId=ZONE)
    found = {}
    for number, (page, path) in enumerate(PAGES.items()):
        first, *others = LOOKS if tiers.is_everything else [LOOKS[number % len(LOOKS)]]
        console.look(*first)
        console.open(path)
        found[page] = [*faults_of(console), *zone_faults(console), *console.violations()]
        for other in others:
            console.look(*other)
            found[page] += overflow_of(console)
        if others:
            # The first and the last look differ in both, so axe sees each width and each scheme.
            found[page] += console.violations()
        console.resize(NARROW)
        found[page] += overflow_of(console)
    assert {page: faults for page, faults in found.items() if faults} == {}


def overflow_of(console):
    return [f"{pixels} pixels too wide"] if (pixels := console.overflow()) > 0 else []


def faults_of(console):
    """Yield what the browser has logged, and whom else it has asked."""
    yield from (fault for fault in console.severe() if "status of 404" not in fault)
    sent = [event["request"]["url"] for event in console.events("Network.requestWillBeSent")]
    if not any(url.endswith("/console.css") for url in sent):
        yield "no style"
    # The browser draws the fields for times with a picture of its own.
    ours = (f"{console.base}/console", "data:")
    yield from (f"asked {url}" for url in sent if not url.startswith(ours))


def zone_faults(console):
    """Yield what does not name the zone of all times once."""
    zones, has_side, is_utc = console.browser.execute_script(ZONES)
    if zones != [f"{ZONE} (now UTC+9:30)"] and (zones or has_side):
        yield f"the zone is said to be {zones}"
    if is_utc:
        yield "a time is in UTC"


def test_axe_finds_nothing_in_a_refusal_beside_a_preview_and_suggestions(console):
    console.bring_axe()
    console.open(PLAYER_PATH)
    console.send("give", itemid="poti")
    assert console.all("#form-give :is(.fault, .refusal, .choices)")
    console.fill("take", itemid="coin", quantity="3")
    console.one(".slot.will")
    console.one("#find").send_keys("ebren")
    console.one(".find .options li")
    press(console, Keys.ARROW_DOWN)
    for width, scheme in some([(NARROW, DARK), (WIDE, LIGHT)], 1):
        console.look(width, scheme)
        assert console.violations() == []
        assert console.overflow() <= 0


def press(console, *keys):
    ActionChains(console.browser).send_keys(*keys).perform()


FOCUS = """
    const element = document.activeElement;
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
        && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
"""


def test_whoever_works_by_keyboard_always_sees_the_focus(console):
    console.open(PLAYER_PATH)
    for number in range(60):
        ActionChains(console.browser).send_keys(Keys.TAB).perform()
        assert console.browser.execute_script(FOCUS), f"Tab {number}"


def test_ctrl_k_leads_to_a_search_whose_suggestions_are_chosen_by_arrows(console):
    console.open("/health")
    ActionChains(console.browser).key_down(Keys.CONTROL).send_keys("k").key_up(
        Keys.CONTROL
    ).perform()
    field = console.browser.switch_to.active_element
    assert field.get_attribute("id") == "find"
    press(console, "eb")
    assert console.all(".find .options li") == []
    press(console, "re")
    console.one(".find .options li")
    names = console.texts(".find .options li > span[dir]")
    assert all("ebre" in name.lower() for name in names)
    assert field.get_attribute("aria-expanded") == "true"
    press(console, Keys.ARROW_DOWN)
    assert console.text(".find [aria-selected=true] > span") == names[0]
    press(console, Keys.ARROW_UP)
    chosen = console.one(".find [aria-selected=true]")
    assert chosen.find_element("css selector", "span").text == names[-1]
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    press(console, Keys.ESCAPE)
    assert field.get_attribute("aria-expanded") == "false"
    press(console, Keys.ARROW_DOWN)
    console.leave(lambda: press(console, Keys.ENTER))
    assert console.text("h1") == names[0]


# What brings suggestions, by the path that they are asked of.
TYPED = {"suggest": "ebr", "player": "ebr", "item": "coi", "spell": "emb", "map": "rav"}
TYPED["playervariable"] = "rep"
FIELDS_WITH_SUGGESTIONS = {
    *("find", "home-find", "filter-player", "filter-item"),
    *("give-itemid", "take-itemid", "warp-mapid", "teach-spellid", "set-variable-variableid"),
    *("chat-mapid", "chat-player", "changes-Item", "letter-itemid"),
    *(
        f"{form}-{name}id"
        for form in ("players", "found")
        for name in ("item", "spell", "variable")
    ),
}
# A field may be folded up, or belong to a choice that was not made.
REVEAL = """
    const field = document.getElementById(arguments[0]);
    document.querySelectorAll("details:not(.me)").forEach((part) => { part.open = true; });
    for (const choice of field.form.querySelectorAll("input[type=radio]")) {
        if (!field.checkVisibility()) choice.checked = true;
    }
    for (const box of field.form.querySelectorAll(".fold input")) box.checked = true;
    field.scrollIntoView({block: "center"});
    field.focus();
    field.select();
"""
RECTANGLES = """
    const field = document.getElementById(arguments[0]);
    const list = document.getElementById(field.getAttribute("aria-controls"));
    return [field, list].map((part) => part.getBoundingClientRect().toJSON());
"""


def test_suggestions_lie_below_the_field_that_somebody_types_in(console, session):
    tried = set()
    for path in some(PAGES.values(), 12):
        fields = suggesting_fields(console, session, path) - tried
        if fields:
            console.open(path)
        for id_ in sorted(fields):
            type_for_suggestions(console, id_)
            for width in some((NARROW, 700, 1000, WIDE), 1):
                console.resize(width)
                assert_list_is_below(console, id_, width)
        tried |= fields
    assert tried <= FIELDS_WITH_SUGGESTIONS
    assert tried == FIELDS_WITH_SUGGESTIONS or not tiers.is_everything


def suggesting_fields(console, session, path):
    """Return which fields of a page have suggestions, without the cost of a browser."""
    cookies = {"quartermaster": session}
    page = requests.get(f"{console.base}/console{path}", cookies=cookies, timeout=120).text
    inputs = re.findall(r"<input[^>]*\sdata-suggest=[^>]*>", page)
    return {re.search(r'\sid="([\w-]+)"', field)[1] for field in inputs}


def type_for_suggestions(console, id_):
    suggests = console.all(f"#{id_}")[0].get_attribute("data-suggest").rpartition("/")[2]
    console.browser.execute_script(REVEAL, id_)
    press(console, TYPED[suggests])
    console.one(f"#{id_}[aria-expanded=true]")


def assert_list_is_below(console, id_, width):
    field, options = console.browser.execute_script(RECTANGLES, id_)
    assert field["bottom"] <= options["top"] <= field["bottom"] + 8, (id_, width)
    assert 0 <= options["left"] <= field["left"] + 1, (id_, width)
    assert field["right"] - 1 <= options["right"] <= width, (id_, width)


def test_slots_are_marked_while_somebody_types(console):
    console.open(PLAYER_PATH)
    console.fill("give", itemid="coin", quantity="10")
    console.one(".slot.will")
    (held,) = [slot for slot in console.slots if "Coin" in slot]
    assert "73 \N{RIGHTWARDS ARROW} 83" in held
    console.fill("give", quantity="12")
    console.wait.until(lambda _: "85" in console.text("#preview-give"))
    assert '"quantity": 12' in console.one("#curl-give pre").text
    assert console.path == f"/console{PLAYER_PATH}"


def test_times_are_those_of_the_reader_with_utc_at_hand(console):
    console.command("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    console.open(f"/history/{ENTRY}")
    moment = console.one("dd time")
    utc = datetime.fromisoformat(moment.get_attribute("datetime"))
    local = utc.astimezone(ZoneInfo("Asia/Tokyo"))
    assert f"{local:%-I:%M}" in moment.text
    assert f"{utc:%Y-%m-%d %H:%M} UTC" in moment.get_attribute("title")


def test_without_scripts_times_are_utc_and_say_so(console):
    console.without_scripts()
    console.open("/history?from=2020-01-01T00:30%2B01:00")
    assert console.text(".zone") == "Times: UTC"
    assert console.text("label[for=filter-from]") == "From (UTC)"
    assert console.value("filter-from") == "2019-12-31T23:30"


# Clocks were set back there: two moments have this local time, and the later one is meant.
TWICE = "2025-10-26T01:30Z"


@pytest.mark.parametrize(
    ("path", "form", "first", "last"),
    [
        ("/history", ".filters-card", "#filter-from", "#filter-to"),
        ("/batches/new/changes", "#form-changes", "#changes-From", "#changes-To"),
    ],
)
def test_a_time_is_typed_in_the_readers_zone_and_sent_as_the_same_moment(
    console, path, form, first, last
):
    console.command("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    console.open(f"{path}{'&' if '?' in path else '?'}from={TWICE}")
    assert console.text(f"label[for={first[1:]}]").startswith("From")
    assert console.value(first[1:]) == "2025-10-26T02:30"
    set_value = "arguments[0].value = arguments[1]"
    console.browser.execute_script(set_value, console.one(last), "2026-07-01T12:00:30")
    sent = console.browser.execute_script(
        "return Object.fromEntries(new FormData(document.querySelector(arguments[0])))", form
    )
    assert [sent[field.rpartition("-")[2]] for field in (first, last)] == [
        TWICE,
        "2026-07-01T10:00:30Z",
    ]


def test_a_telephone_shows_results_before_filters(console):
    console.look(NARROW)
    console.open("/history?operation=give")
    assert console.one(".entries").location["y"] < 420
    assert console.text(".fold") == "Filters: 1 in use"
    assert not console.all("#filter-by")[0].is_displayed()
    console.one(".fold").click()
    assert console.one("#filter-by").is_displayed()


def test_a_hostile_name_is_text_in_suggestions_and_sticks_out_nowhere(console):
    for path, field in (("/health", "find"), (PLAYER_PATH, "give-itemid"), (HOSTILE_PATH, "find")):
        console.open(path)
        console.enter(f"#{field}", HOSTILE[:12])
        console.one(f"#{field}[aria-expanded=true]")
        assert console.all("img, [onerror], script:not([src])") == []
        for width in (NARROW, WIDE):
            console.resize(width)
            assert console.overflow() <= 0, (path, width)
