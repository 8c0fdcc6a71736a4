"""Every page and form of the console, as every kind of caller: exactly the documented ones open."""

from __future__ import annotations

import itertools
import re
import uuid
from urllib.parse import urlencode

import pytest

import config
from app.auth.roles import FLAGS, Role
from app.console.session.sessions import COOKIE
from app.http.parser import FORM
from app.oauth.store import RefreshTokens
from app.openapi.examples import BATCH
from app.users.passwords import Passwords
from tests.applications import service
from tests.console_table import CONSOLE_DOORS, ENDED, ONE, RUNNING, VALUES, fields_of
from tests.console_visitor import PASSWORD, Visitor, WatchedBody, database_away
from tests.endpoint_table import (
    ACTION,
    ENTRY,
    ITEM,
    PLAYER,
    SPELL,
    USER,
    VARIABLE,
    catalogue,
    shape_of,
)
from tests.factories import (
    make_batch,
    make_batch_row,
    make_entry,
    make_player,
    make_user,
    sha256,
)
from tests.game import make_action, playing

ROLES = list(Role)
CALLERS = [(), *(tuple(ROLES[: count + 1]) for count in range(3)), (Role.USERS_MANAGE,)]
COLLECTIONS = (
    *("users", "players", "objects", "history", "actions"),
    *("batches", "batch_rows", "batch_parts"),
)


@pytest.fixture
def settings(data_dir):
    """Roles are no matter of the database, so the quick one does; mails go to a folder."""
    return config.load({"QM_ENV": "testing"}, DATA_DIR=str(data_dir))


@pytest.fixture
def scene(app, world):
    """Return a way to set the scene anew, which returns the path of what a door leads to."""
    stored = service(app, Passwords).hash(sha256(PASSWORD))

    def begin():
        for name in COLLECTIONS:
            world.db[name].delete_many({"Name": {"$ne": "caller"}})
        user = make_user(stored, Name=USER)
        held = {"0": {"ItemId": ITEM, "Quantity": 5}}
        player = make_player(
            **{"Id": ENTRY.split(":")[1], "Name": PLAYER, "UserId": user["_id"]},
            **{"Inventory": held, "Spells": {"0": SPELL}, "Variables": {VARIABLE: 7}},
        )
        world.db.users.insert_one(user)
        world.db.players.insert_one(player)
        world.db.objects.insert_many(catalogue())
        world.db.actions.insert_one(make_action(_id=ACTION))
        given = {"Path": "Inventory.0", "Before": None, "After": held["0"]}
        keyed = {"IdempotencyKey": f"batch {ENDED}:000001"}
        world.db.history.insert_one(make_entry(player, _id=ENTRY, Changes=[given], **keyed))
        for batch_id, state in ((BATCH, "planned"), (RUNNING, "running"), (ENDED, "done")):
            world.db.batches.insert_one(make_batch(_id=batch_id, State=state))
            verdict = "done" if state == "done" else "ready"
            row = make_batch_row(player, batch_id, ItemId=ITEM, Verdict=verdict)
            world.db.batch_rows.insert_one(row)

    with playing(world.db):
        yield begin


def contents(db):
    return {name: list(db[name].find(sort=[("_id", 1)])) for name in COLLECTIONS}


def test_every_route_of_the_console_has_its_row(app):
    walked = set()
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/console"):
            # The converter any() stands for each of its words.
            words = re.search(r"<any\(([^)]*)\):\w+>", rule.rule)
            choices = words[1].split(", ") if words else [None]
            for method, word in itertools.product(rule.methods - {"HEAD"}, choices):
                spelled = re.sub(r"<any[^>]*>", word, rule.rule) if word else rule.rule
                walked.add((method, shape_of(spelled)))
    assert walked == {door.shape for door in CONSOLE_DOORS}


@pytest.mark.parametrize(
    "roles", CALLERS, ids=lambda roles: "+".join(r.value for r in roles) or "-"
)
def test_exactly_the_documented_pages_open(app, world, scene, db, roles):
    power = {flag: True for role, flag in FLAGS.items() if role in roles}
    caller = world.add_user(PASSWORD, roles=(Role.API,), Name="caller")
    browser = Visitor(app)
    browser.sign_in("caller")
    token = browser.token()
    db.users.update_one(
        {"_id": caller["_id"]}, {"$set": {"Power": {**caller["Power"], "Api": False, **power}}}
    )
    held = {role.value for role in roles} if Role.API in roles else set()
    for door in CONSOLE_DOORS:
        if door.route == "/console/sign-out" and held:
            continue  # It ends the session; see test_console_session.
        scene()
        before = contents(db)
        path = door.path_with(VALUES).removeprefix("/console")
        if door.method == "GET":
            answer = browser.get(path)
        else:
            hidden = {"token": token, "key": str(uuid.uuid4())}
            answer = browser.send(path, {**hidden, **fields_of(door)})
        if set(door.roles) <= held or not door.roles:
            assert answer.status_code in expected(door), (door, answer.text)
        else:
            # Without the role api, the first request ends the session.
            assert answer.status_code in ((403,) if held else (303, 401, 403)), door
            assert contents(db) == before, door


def expected(door):
    if ONE in door.path_with(VALUES) and not door.route.endswith("/end"):
        return (404,)
    if door.route.endswith("/end"):
        return (404,)  # There is no sign-in with this id.
    if door.route.endswith("/sign-in") and door.method == "POST":
        return (403,)  # The token is not of the visit.
    # The text of a new key is in the answer to its form: no path may hold it.
    is_shown = door.method == "GET" or door.route.endswith("/keys")
    return (200,) if is_shown else (303,)


def test_a_stranger_is_led_to_the_sign_in_everywhere(app, scene, db):
    scene()
    before = contents(db)
    browser = Visitor(app)
    for door in CONSOLE_DOORS:
        if not door.roles:
            continue
        path = door.path_with(VALUES).removeprefix("/console")
        if door.method == "GET":
            answer = browser.get(path)
            assert answer.status_code == 303, door
            assert answer.headers["Location"].startswith("/console/sign-in"), door
        else:
            assert browser.send(path, fields_of(door)).status_code == 401, door
    assert contents(db) == before


# What forms and pages take a number in, and texts that some functions take for one.
NUMBERS = ("duration", "seen", "x", "y", "quantity", "value", "LargestQuantity", "ItemsPerDay")
NUMBERS += ("Days", "OverlapHours", "page", "after", "done")
VAST = ("9" * 5000, "-" + "9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}" * 5000)


@pytest.mark.parametrize("number", VAST, ids=["vast", "negative", "Arabic"])
def test_no_number_that_is_typed_is_too_long(app, world, scene, number):
    world.add_user(PASSWORD, roles=ROLES, Name="caller")
    browser = Visitor(app)
    browser.sign_in("caller")
    scene()
    token = browser.token()
    query = urlencode(dict.fromkeys(NUMBERS, number[:2000]))
    for door in CONSOLE_DOORS:
        path = door.path_with(VALUES).removeprefix("/console")
        if door.method == "GET":
            assert browser.get(f"{path}?{query}").status_code < 500, door
        elif not door.route.endswith(("/sign-in", "/sign-out", "/erase", "/delete")):
            for typed in ({}, dict.fromkeys(NUMBERS, number)):
                hidden = {"token": token, "key": str(uuid.uuid4()), "seen": f"player:x:{number}"}
                answer = browser.send(path, {**fields_of(door), **typed, **hidden})
                assert answer.status_code < 500, door


FORM_TYPES = (FORM, "multipart/form-data; boundary=b", "text/plain")


@pytest.mark.parametrize("content_type", FORM_TYPES)
@pytest.mark.parametrize(
    ("secret", "status"), [("", 401), ("x", 401), ("away", 503), ("without role", 403)]
)
def test_no_body_is_read_before_the_caller_is_known(
    app, world, db, monkeypatch, secret, status, content_type
):
    """Whoever it is: whoever sends it byte by byte would hold a thread."""
    caller = world.add_user(PASSWORD, roles=(Role.API,), Name="caller")
    if secret == "away":
        monkeypatch.setattr(RefreshTokens, "session", database_away)
    for door in CONSOLE_DOORS:
        if door.method == "GET" or door.route == "/console/sign-in":
            continue
        browser = Visitor(app)
        browser._client.set_cookie(COOKIE, secret, path="/console")
        if secret == "without role":
            db.users.update_one({"_id": caller["_id"]}, {"$set": {"Power.Api": True}})
            browser.sign_in("caller")
            db.users.update_one({"_id": caller["_id"]}, {"$set": {"Power.Api": False}})
        path = door.path_with(VALUES).removeprefix("/console")
        for is_chunked in (False, True):
            body = WatchedBody(b"token=x")
            answer = browser.stream(path, body, content_type, is_chunked)
            assert answer.status_code in ((status, 401) if door.roles else (404,)), door
            assert body.taken == 0, door


@pytest.mark.parametrize("roles", CALLERS[1:4], ids=lambda roles: roles[-1].value)
def test_a_page_shows_no_link_and_no_form_that_the_caller_may_not_use(app, world, scene, roles):
    scene()
    world.add_user(PASSWORD, roles=roles, Name="caller")
    browser = Visitor(app)
    browser.sign_in("caller")
    held = {role.value for role in roles}
    pages = [door for door in CONSOLE_DOORS if door.method == "GET" and set(door.roles) <= held]
    for page in pages:
        text = browser.get(page.path_with(VALUES).removeprefix("/console")).text
        for path in re.findall(r'(?:href|action)="(/console[^"?#]*)', text):
            assert any(set(door.roles) <= held for door in doors_at(path)), (page, path)


def doors_at(path):
    """Return the doors that a path leads to, but for the one that leads nowhere."""
    return [
        door
        for door in CONSOLE_DOORS
        if door.route != "/console/[one]"
        and re.fullmatch(re.escape(door.shape[1]).replace(r"\*", "[^/]+"), path)
    ]
