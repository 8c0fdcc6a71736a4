"""Every page and form of the console, as every kind of caller: exactly the documented ones open."""

import itertools
import re
import uuid
from urllib.parse import urlencode

import pytest

import config
from app.console.frame.pages import DIGEST
from app.console.session.sessions import COOKIE
from app.core.permissions import FLAGS, Role
from app.http.parser import FORM
from app.users.oauth.store import RefreshTokens
from app.users.passwords import Passwords
from tests import tiers
from tests.applications import service
from tests.console_table import CONSOLE_DOORS, OF_FORMS, ONE, VALUES, fields_of
from tests.console_visitor import (
    PASSWORD,
    SAME_ORIGIN,
    Visitor,
    WatchedBody,
    body_of,
    commands_of,
    database_away,
    fields_in,
    markup_of,
    page_of,
    texts_in,
)
from tests.endpoint_table import shape_of
from tests.factories import sha256
from tests.game import playing
from tests.scene import ASKER, contents, set_scene

ROLES = list(Role)
CALLERS = [(), *(tuple(ROLES[: count + 1]) for count in range(3)), (Role.USERS_MANAGE,)]


def doors_for(held):
    """Return all doors, or in short those that roles just open, and those just too high."""
    near = (len(held), len(held) + 1)
    return [door for door in CONSOLE_DOORS if tiers.is_everything or len(door.roles) in near]


@pytest.fixture
def settings(data_dir):
    """Roles are no matter of the database, so the quick one does; mails go to a folder."""
    return config.load({"QM_ENV": "testing"}, DATA_DIR=str(data_dir))


# Forms that are read before anybody is known.
SIGN_IN = ("/sign-in", "/sign-in/code", "/invitation")


@pytest.fixture
def scene(app, world):
    """Return a way to set the scene anew, in which the caller and its session stay."""
    stored = service(app, Passwords).hash(sha256(PASSWORD))
    with playing(world.db):
        yield lambda: set_scene(world.db, stored, kept="caller")


def test_every_route_of_the_console_has_its_row(app):
    walked = set()
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/console"):
            # The converter any() stands for each of its words.
            words = re.search(r"<any\(([^)]*)\):\w+>", rule.rule)
            choices = words[1].split(", ") if words else [None]
            for method, word in itertools.product(rule.methods - {"HEAD"}, choices):
                spelled = re.sub(r"<any[^>]*>", word, rule.rule) if word else rule.rule
                spelled = spelled.replace(f"/{DIGEST}/", "/<digest>/")
                walked.add((method, shape_of(spelled)))
    assert walked == {door.shape for door in CONSOLE_DOORS}


@pytest.mark.parametrize(
    "roles", CALLERS, ids=lambda roles: "+".join(r.value for r in roles) or "-"
)
def test_exactly_the_documented_pages_open(app, world, scene, db, roles):
    power = {flag: True for role, flag in FLAGS.items() if role in roles}
    caller = world.add_user(PASSWORD, roles=(Role.API,), Name="caller", Roles=[ASKER])
    browser = Visitor(app)
    browser.sign_in("caller")
    token = browser.token()
    db.users.update_one(
        {"_id": caller["_id"]}, {"$set": {"Power": {**caller["Power"], "Api": False, **power}}}
    )
    held = {role.value for role in roles} if Role.API in roles else set()
    before, refused = None, []
    for door in doors_for(held):
        if door.route == "/console/sign-out" and held:
            continue  # It ends the session; see test_console_session.
        is_open = set(door.roles) <= held or not door.roles
        if is_open and refused:
            assert contents(db) == before, refused
            refused = []
        if before is None:  # a refusal leaves the scene as it was
            scene()
            before = contents(db)
        path = door.path_with(VALUES).removeprefix("/console")
        if door.method == "GET":
            answer = browser.get(path)
        else:
            hidden = {"token": token, "key": str(uuid.uuid4())}
            answer = browser.send(path, {**hidden, **fields_of(door)})
        if is_open:
            assert answer.status_code in expected(door), (door, answer.text)
            before = None if door.method == "POST" else before
        else:
            # Without the role api, the first request ends the session.
            assert answer.status_code in ((403,) if held else (303, 401, 403)), door
            refused.append(door)
    assert not refused or contents(db) == before, refused


def forms_of(browser, token, scene, doors=CONSOLE_DOORS):
    """Yield each form that changes something, and a way to send it, with the scene set anew."""
    for door in doors:
        is_change = door.method == "POST" and ONE not in door.path_with(VALUES)
        if is_change and door.roles and door.route != "/console/sign-out":
            scene()
            # By the id: the player may have another name afterwards.
            by_id = door.path_with({**VALUES, "player": VALUES["player_id"]})
            path = by_id.removeprefix("/console")
            usual = {"token": token, "key": str(uuid.uuid4()), **fields_of(door)}

            def send(path=path, usual=usual, headers=SAME_ORIGIN, **typed):
                return browser.send(path, {**usual, **typed}, headers)

            yield door, send


@pytest.fixture
def caller(app, world):
    """Somebody who is signed in and may do everything."""
    browser = Visitor(app)
    browser.user = world.add_user(PASSWORD, roles=ROLES, Name="caller", Roles=[ASKER])
    browser.sign_in("caller")
    return browser


def test_a_form_that_is_sent_twice_is_one_change(caller, scene, db):
    for door, send in forms_of(caller, caller.token(), scene):
        first = send()
        before = contents(db)
        again = send()
        if door.route.endswith("/erase"):
            assert again.status_code == 404  # Nobody has that name any more.
        else:
            assert again.headers.get("Location") == first.headers.get("Location"), door
        assert contents(db) == before, door


def test_a_form_of_another_site_changes_nothing(caller, scene, db):
    for door, send in forms_of(caller, caller.token(), scene):
        before = contents(db)
        assert send(headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403, door
        assert send(token="").status_code == 403, door
        assert contents(db) == before, door


def test_what_cannot_be_undone_asks_for_the_name(caller, scene, db):
    doors = [door for door in CONSOLE_DOORS if "confirm" in " ".join(fields_of(door)).lower()]
    assert len(doors) > 10
    for door, send in forms_of(caller, caller.token(), scene, doors):
        for name in {"confirm", "Confirm"} & fields_of(door).keys():
            before = contents(db)
            for confirm in ("", "somebody else"):
                refused = send(**{name: confirm}, reason="Asked by mail")
                assert refused.status_code == 400, door
                fault = "Type .* here|must be the username|is required"
                assert re.search(fault, texts_in(refused, SENT)[0]), door
                typed = {name: confirm, "reason": "Asked by mail"}
                assert typed.items() <= fields_in(refused, SENT).items(), door
            assert contents(db) == before, door
            right = fields_of(door)[name]
            assert send(**{name: f" {right.upper()} "}).status_code == 303, door


# The form of a page that was sent.
SENT = "form[data-typed]"
SECRETS = {"new", "again"}


def test_a_form_that_is_refused_keeps_what_was_typed_and_has_a_curl_line_for_it(
    app, caller, client, scene, db, world
):
    """No header could hold such a reason, whatever else is right."""
    app.config["REASON_REQUIRED"] = True
    without = set()
    for door, send in forms_of(caller, caller.token(), scene):
        ends = ("/run", "/pause", "/cancel", "/withdraw", "/new/file", "/forget")
        if door.route.endswith(ends) or "approval]" in door.route:
            continue  # What it is about has its reason already, or nothing is typed.
        before = contents(db)
        assert send(reason="").status_code == 400, door
        assert "500 characters" in page_of(send(reason="x" * 501)), door
        refused = send(reason="two\nlines")
        assert refused.status_code == 400, (door, refused.text)
        assert contents(db) == before, door
        shown = fields_in(refused, SENT if markup_of(refused).select(SENT) else "main")
        assert "reason" in shown or "[entry]" in door.route, door
        hidden = SECRETS if door.route.endswith("/password") else set()
        for name, value in fields_of(door).items() - {("reason", "Lost.")}:
            assert shown.get(name, "") == ("" if name in hidden else value), (door, name)
        lines = commands_of(refused, SENT)
        without |= set() if lines else {door.route}
        if lines and not hidden:  # With a password, the line has to be completed.
            assert f"Idempotency-Key: {shown['key']}" in lines[0], door
            execute(lines[0], client, world.headers(user=caller.user), door)
    assert not without & OF_FORMS.keys()


def execute(line, client, headers, door):
    """Send what a curl line would send, with a reason that is valid."""
    body = body_of(line) if "-d" in line else None
    if body and door.route in OF_FORMS:
        assert OF_FORMS[door.route].body.items() <= body.items(), door
    for name in {"reason", "Reason"} & (body or {}).keys():
        body[name] = "Lost."
    method = line[line.index("-X") + 1] if "-X" in line else "GET"
    path = line[-1].removeprefix("http://localhost")
    headers = {**headers, "X-Reason": "Lost."}
    answer = client.open(path, method=method, json=body, headers=headers)
    assert answer.status_code == 200, (door, answer.json)


def expected(door):
    if ONE in door.path_with(VALUES) and not door.route.endswith("/end"):
        return (404,)
    if "/company" in door.route:
        return (404,)  # There is no provider.
    if door.route.endswith("/end"):
        return (404,)  # There is no sign-in with this id.
    if door.route.endswith("/new/file") and door.method == "POST":
        return (400,)  # There is no file.
    if "/second-factor/" in door.route:
        return (400, 409)  # No code is right.
    if door.route.endswith(SIGN_IN) and door.method == "POST":
        return (403,)  # The token is not of the visit.
    # The text of a new key is in the answer to its form: no path may hold it.
    is_shown = door.method == "GET" or door.route.endswith("/keys")
    return (200,) if is_shown else (303,)


def test_a_stranger_is_led_to_the_sign_in_everywhere(app, world, scene, db):
    world.add_user(PASSWORD, Name="caller")
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


@pytest.mark.parametrize("number", tiers.some(VAST, 1), ids=lambda number: number[:2])
def test_no_number_that_is_typed_is_too_long(caller, scene, number):
    browser = caller
    scene()
    token = browser.token()
    query = urlencode(dict.fromkeys(NUMBERS, number[:300]))
    for door in CONSOLE_DOORS:
        path = door.path_with(VALUES).removeprefix("/console")
        if door.method == "GET":
            assert browser.get(f"{path}?{query}").status_code < 500, door
        elif not door.route.endswith((*SIGN_IN, "/sign-out", "/erase", "/delete")):
            for typed in ({}, dict.fromkeys(NUMBERS, number)):
                hidden = {"token": token, "key": str(uuid.uuid4()), "seen": f"player:x:{number}"}
                answer = browser.send(path, {**fields_of(door), **typed, **hidden})
                assert answer.status_code < 500, door


FORM_TYPES = (FORM, "multipart/form-data; boundary=b", "text/plain")


@pytest.mark.parametrize("content_type", tiers.some(FORM_TYPES, 1))
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
        if door.method == "GET" or door.route.endswith(SIGN_IN):
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
