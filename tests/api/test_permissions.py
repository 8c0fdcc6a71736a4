"""Every page and form, with and without each permission that it needs; test_doors has the API."""

import re
from urllib.parse import urlsplit

import pytest

from app.core.permissions import INCLUDED, SHIPPED, Permission
from app.users.passwords import Passwords
from tests import tiers
from tests.applications import service
from tests.console_table import CONSOLE_DOORS, VALUES, fields_of
from tests.console_visitor import PASSWORD
from tests.endpoint_table import PASSWORD as SENT_PASSWORD
from tests.endpoint_table import SELF
from tests.game import playing
from tests.scene import contents, set_scene

EVERYTHING = frozenset(Permission)
ROLE = "tested"
# What a form needs beyond what its view declares: for things of others, and to give a role.
VIEWER = {Permission(name) for name in SHIPPED["viewer"][0]}
GIVING = ("roles/[role]/remove", "/roles", "/staff", "[role]/change", "[invited]/invite")
BEYOND = {
    **{key: {Permission.UNDO_ANY} for key in ("[entry]/undo", "[entry]/undo-partial")},
    # The form of the table attaches an item; so do the requests for approval.
    **{key: {Permission.ITEMS_MOVE} for key in ("[player]/letter", "/approve", "/decline")},
    **dict.fromkeys(GIVING, VIEWER),
}


@pytest.fixture
def backend_uri():
    """Permissions are no matter of the database, so the quick one does."""
    return "mongomock://localhost"


@pytest.fixture
def hold(db):
    """Return a way to give the caller exactly these permissions, by a role."""

    def give(permissions):
        names = [permission.value for permission in permissions]
        db.roles.replace_one({"_id": ROLE}, {"_id": ROLE, "Permissions": names}, upsert=True)

    give(EVERYTHING)
    return give


@pytest.fixture
def caller(world, hold):
    return world.add_user(PASSWORD, Name=SELF, Roles=[ROLE])


@pytest.fixture
def browser(browser, caller):
    browser.sign_in(SELF)
    return browser


@pytest.fixture
def scene(app, db):
    # Of the password that the bodies of the API's table have.
    stored = service(app, Passwords).hash(SENT_PASSWORD)
    with playing(db):
        yield lambda: set_scene(db, stored, kept=SELF)


def needed(app, path, method="GET"):
    """Return the permissions of the view of a path; None if it is public."""
    endpoint, _ = app.url_map.bind("").match(urlsplit(path).path, method)
    return app.view_functions[endpoint].permissions


def test_each_permission_opens_something(app):
    """One that no view needs would be given for nothing; some are for the things of others."""
    views = app.view_functions.values()
    seen = {permission for view in views for permission in view.permissions or ()}
    assert EVERYTHING - seen <= {Permission.UNDO_ANY, Permission.APPROVE}


def test_every_page_and_form_opens_by_its_permissions_alone(app, browser, hold, scene, db):
    """Without each needed permission it is closed, and with these alone it opens."""

    def send(door):
        path = door.path_with(VALUES).removeprefix("/console")
        return browser.get(path) if door.method == "GET" else browser.post(path, **fields_of(door))

    browser.token()
    scene()
    for door in CONSOLE_DOORS:
        permissions = needed(app, door.path_with(VALUES), door.method)
        if permissions is None or door.route == "/console/sign-out":  # which ends the session
            continue
        before = contents(db)
        for permission in permissions:
            includes_it = {one for one, included in INCLUDED.items() if included is permission}
            hold(EVERYTHING - {permission} - includes_it)
            assert send(door).status_code == 403, f"{door} opens without {permission.value}"
        assert contents(db) == before, door
        more = next((more for end, more in BEYOND.items() if door.route.endswith(end)), ())
        hold({*(permissions or [Permission.APPROVE]), *more})
        answer = send(door)
        assert answer.status_code != 403, f"{door} needs more than it declares: {answer.text}"
        if door.method != "GET":
            scene()


# The shipped roles, and each permission alone.
PEOPLE = {
    **{name: [Permission(one) for one in names] for name, (names, _) in SHIPPED.items()},
    **{permission.value: [permission] for permission in Permission},
}


@pytest.mark.parametrize("who", tiers.some(PEOPLE, 8))
def test_a_page_shows_no_link_and_no_form_that_its_reader_may_not_use(
    app, browser, hold, scene, who
):
    permissions = PEOPLE[who]
    scene()
    hold(permissions)
    faults = []
    for door in CONSOLE_DOORS:
        path = door.path_with(VALUES)
        wanted = needed(app, path) if door.method == "GET" else None
        if wanted is None or not set(wanted) <= set(permissions):
            continue
        answer = browser.get(path.removeprefix("/console"))
        if answer.status_code not in (200, 404):
            faults.append(f"{path} answers {answer.status_code}")
        for method, to in links_of(answer.text):
            more = set(needed(app, to, method) or ()) - set(permissions)
            if more:
                faults.append(f"{path} has {method} {to}, which needs {more}")
    assert faults == []


def links_of(text):
    for attribute, path in re.findall(r'(href|action)="(/console[^"#]*)', text):
        # A form that searches is a GET.
        tag = text[: text.index(f'{attribute}="{path}')].rpartition("<")[2]
        yield ("POST" if "post" in tag else "GET"), path.replace("&amp;", "&")
