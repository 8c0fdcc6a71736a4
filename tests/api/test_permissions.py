"""Every view, page and form, with and without each permission that it needs."""

import re
import uuid
from urllib.parse import urlsplit

import pytest

import config
from app.core.permissions import INCLUDED, SHIPPED, Permission
from app.users.passwords import Passwords
from tests import tiers
from tests.applications import service
from tests.console_table import CONSOLE_DOORS, VALUES, fields_of
from tests.console_visitor import PASSWORD
from tests.endpoint_table import DOORS, SELF
from tests.endpoint_table import PASSWORD as SENT_PASSWORD
from tests.game import playing
from tests.scene import contents, set_scene

EVERYTHING = frozenset(Permission)
ROLE = "tested"
# What a request needs beyond what its view declares: for things of others, and to give a role.
VIEWER = {Permission(name) for name in SHIPPED["viewer"][0]}
GIVING = (
    "roles/[role]/remove",
    "/roles",
    "/staff",
    "[role]",
    "[role]/change",
    "[invited]/invite",
    "/invitation",
)
# Of a request for approval, its author and who decides may do it themselves.
ASKING = ("/approve", "/decline", "api/v1/approvals")
BEYOND = {
    **{key: {Permission.UNDO_ANY} for key in ("[entry]/undo", "[entry]/undo-partial")},
    # The form of the table attaches an item.
    "[player]/letter": {Permission.ITEMS_MOVE},
    **dict.fromkeys(GIVING, VIEWER),
    **dict.fromkeys(ASKING, frozenset({Permission.ITEMS_MOVE})),
}


@pytest.fixture
def settings(data_dir):
    """Permissions are no matter of the database, so the quick one does; mails go to a folder."""
    return config.load({"QM_ENV": "testing"}, DATA_DIR=str(data_dir))


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


def check(app, doors, hold, scene, db, send):
    """Send a request to each door: without each needed permission, and with these alone."""
    faults = []
    scene()
    for door, path in doors:
        permissions = needed(app, path, door.method)
        before = contents(db)
        for permission in permissions or ():
            includes_it = {one for one, included in INCLUDED.items() if included is permission}
            hold(EVERYTHING - {permission} - includes_it)
            if send(door, path).status_code != 403:
                faults.append(f"{door.method} {door.route} opens without {permission.value}")
        if permissions and contents(db) != before:
            faults.append(f"{door.method} {door.route} was refused, but changed something")
        more = next((more for end, more in BEYOND.items() if door.route.endswith(end)), ())
        hold({*(permissions or [Permission.APPROVE]), *more})
        answer = send(door, path)
        if answer.status_code == 403 and permissions is not None:
            faults.append(f"{door.method} {door.route} needs more than it declares: {answer.text}")
        if door.method != "GET":
            scene()
    assert faults == []


def test_each_permission_opens_something(app):
    """One that no view needs would be given for nothing; some are for the things of others."""
    views = app.view_functions.values()
    seen = {permission for view in views for permission in view.permissions or ()}
    assert EVERYTHING - seen <= {Permission.UNDO_ANY, Permission.APPROVE}


def test_every_view_of_the_api_opens_by_its_permissions_alone(
    app, client, world, caller, hold, scene, db
):
    headers = world.headers(user=caller)

    def send(door, path):
        body = door.body
        with client.open(path, method=door.method, json=body, headers=headers) as answer:
            answer.get_data()
            return answer

    doors = [(door, door.path) for door in DOORS if door.roles]
    check(app, doors, hold, scene, db, send)


def test_every_page_and_form_opens_by_its_permissions_alone(app, browser, hold, scene, db):
    token = browser.token()

    def send(door, path):
        short = path.removeprefix("/console")
        if door.method == "GET":
            return browser.get(short)
        return browser.send(short, {"token": token, "key": str(uuid.uuid4()), **fields_of(door)})

    doors = [
        (door, door.path_with(VALUES))
        for door in CONSOLE_DOORS
        if door.roles and door.route != "/console/sign-out"  # which ends the session
    ]
    check(app, doors, hold, scene, db, send)


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
