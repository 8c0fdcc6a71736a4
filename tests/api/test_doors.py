"""Every route, every method, every combination of roles: exactly the documented ones get in."""

import itertools
from datetime import datetime, timezone

import pytest

from app.auth.api_keys import new_secret
from app.core.permissions import OLDER_SCOPES, Role, permissions_named, permissions_of_scopes
from app.http.openapi.docs_page import SPECIFICATION
from app.users.passwords import Passwords
from tests import tiers
from tests.applications import service
from tests.console_visitor import WatchedBody
from tests.endpoint_table import (
    ACTION,
    DOORS,
    FRONT_DOORS,
    OWN,
    OWN_APPROVAL,
    OWN_KEY,
    OWN_SIGN_IN,
    PASSWORD,
    SELF,
    shape_of,
)
from tests.factories import make_key, make_user, with_keys
from tests.game import playing
from tests.scene import COLLECTIONS, contents, refresh_token, set_scene

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"}
FLAGS = {
    "Api": "api",
    "ApiPersonalInformation": "users.query",
    "ApiUserManagement": "users.manage",
}
MODERATION = ("Editor", "Ban", "Kick", "Mute")
STRANGER = None
ASKING = ("POST", "/api/v1/approvals")
# Each role rests on the one before it, so these four are all that commands make.
LADDER = [tuple(FLAGS)[:count] for count in range(4)]
# All combinations of the flags that are roles, those included which no command would make.
COMBINATIONS = [held for count in range(4) for held in itertools.combinations(FLAGS, count)]
CALLERS = [*LADDER, STRANGER]
if tiers.is_everything:
    CALLERS = [*COMBINATIONS, MODERATION, (*MODERATION, *FLAGS), STRANGER]
KEY = new_secret()
# Each name that was a scope alone, and all of them.
SCOPES = [*OLDER_SCOPES, "users.read", "history.read", "objects.change", "leaderboard.read"]
KEYS = [*((scope,) for scope in SCOPES), tuple(SCOPES)]


# A refusal changes nothing; the action is taken by a game at any time.
KEPT = tuple(name for name in COLLECTIONS if name != "actions")


def doors_for(caller):
    """Return all doors, or in short those that a caller just opens, and those just too high.

    Nobody asks for approval by flags alone: see test_staff_sign_in.
    """
    if caller is STRANGER:
        return DOORS
    doors, held = [door for door in DOORS if door.shape != ASKING], len(caller)
    if tiers.is_everything:
        return doors
    return [door for door in doors if len(door.roles) in (held, held + 1)]


def doors_for_key(scopes):
    """Return all doors, or in short those that need a scope, and those that need the next one."""
    if tiers.is_everything:
        return DOORS
    if len(scopes) > 1:
        return [door for door in DOORS if door.scopes == ("none",) or len(door.scopes) > 1]
    place = SCOPES.index(scopes[0])
    near = {*permissions_of_scopes([scopes[0], SCOPES[place - 1]]), "any" if place == 0 else None}
    return [door for door in DOORS if near & set(door.scopes)]


each_caller = pytest.mark.parametrize("caller", CALLERS, ids=str)


@pytest.fixture
def backend_uri():
    """None of this is a matter of the database, so the quick one does."""
    return "mongomock://localhost"


@pytest.fixture
def scene(app, world):
    """Return a way to set the scene anew for a caller, which returns the caller's headers."""
    stored = service(app, Passwords).hash(PASSWORD)

    def begin(flags, scopes=()):
        set_scene(world.db, stored)
        caller = with_keys(make_user(stored, Name=SELF), **{OWN_KEY: make_key(KEY, scopes)})
        caller["Power"] |= dict.fromkeys(flags or (), True)
        clerk = make_user(stored, (Role.API,), Name="Clerk")
        world.db.users.insert_many([caller, clerk])
        taken = {"Taken": datetime.now(timezone.utc), "TakenBy": "door", "TakerId": caller["_id"]}
        world.db.actions.update_one({"_id": ACTION}, {"$set": taken})
        world.db.refresh_tokens.insert_one(refresh_token(caller, OWN, OWN_SIGN_IN))
        own = {"$set": {"By.UserId": caller["_id"]}}
        world.db.approvals.update_one({"_id": OWN_APPROVAL}, own)
        if scopes:
            return {"Authorization": f"Bearer {KEY}"}
        return {} if flags is STRANGER else world.headers(user=caller)

    with playing(world.db):
        yield begin


def roles_of(flags):
    """Return what a caller's flags amount to: each role rests on the one before it."""
    held = itertools.takewhile(lambda flag: flag in (flags or ()), FLAGS)
    return {FLAGS[flag] for flag in held}


def test_every_route_of_the_service_has_its_row(app):
    walked = {
        (method, shape_of(rule.rule))
        for rule in app.url_map.iter_rules()
        if not rule.rule.startswith("/console")  # see test_console_doors
        for method in rule.methods - {"HEAD"}
    }
    assert walked == {door.shape for door in DOORS}


def ask(client, door, headers, method, slash=""):
    body = door.body if method == door.method else None
    with client.open(door.path + slash, method=method, json=body, headers=headers) as answer:
        answer.get_data()
        return answer


def walk(doors, begin, is_open, check, db):
    """Check each door; the scene is set anew after one that opens: a refusal changes nothing."""
    before, refused = None, []
    for door in [*doors, None]:
        if refused and (door is None or is_open(door)):
            assert contents(db, KEPT) == before, refused
            refused = []
        if door is None:
            return
        if before is None:
            headers = begin()
            before = contents(db, KEPT)
        check(door, headers)
        if is_open(door):
            before = None
        else:
            refused.append(door)


@each_caller
def test_exactly_the_documented_doors_open(caller, client, scene, db):
    def missing(door):
        return set(door.roles) - roles_of(caller)

    def check(door, headers):
        answer = ask(client, door, headers, door.method)
        if not missing(door):
            expected = 404 if door.route in FRONT_DOORS else 200
            assert answer.status_code == expected, (door, answer.data)
        elif caller is STRANGER:
            assert answer.status_code == 401, door
        else:
            assert answer.status_code == 403, door
            # Who has no permission at all is told the lowest role.
            named = missing(door) if roles_of(caller) else {"api"}
            assert any(f"'{role}'" in answer.json["Message"] for role in named), door

    walk(doors_for(caller), lambda: scene(caller), lambda door: not missing(door), check, db)


@pytest.mark.parametrize("scopes", KEYS, ids=" ".join)
def test_exactly_the_documented_doors_open_to_a_key(scopes, app, client, scene, db):
    """Of an account that may do everything: so it is the scopes alone that matter."""

    held = {one.value for one in permissions_named(permissions_of_scopes(scopes))}

    def missing(door):
        if held == {"leaderboard.read"} and "any" in door.scopes:
            return {"players.read"}
        return set(door.scopes) - held - {"any"}

    def begin():
        headers = scene(tuple(FLAGS), scopes)
        ask(client, next(d for d in DOORS if d.route.endswith("/info")), headers, "GET")
        return headers

    def check(door, headers):
        answer = ask(client, door, headers, door.method)
        if not missing(door):
            expected = 404 if door.route in FRONT_DOORS else 200
            assert answer.status_code == expected, (door, answer.data)
            return
        assert answer.status_code == 403, door
        closed = "none" in missing(door)
        scopes_told = [f"'{scope}'" for scope in missing(door)]
        names = ["not for keys", "'approve'"] if closed else scopes_told
        assert any(name in answer.json["Message"] for name in names), door

    walk(doors_for_key(scopes), begin, lambda door: not missing(door), check, db)


@pytest.mark.parametrize("flags", COMBINATIONS if tiers.is_everything else LADDER[:3], ids=str)
def test_a_key_may_never_more_than_its_account(flags, app, client, scene):
    is_open = True
    for door in doors_for(flags):
        if is_open:
            headers = scene(flags, SCOPES)
        answer = ask(client, door, headers, door.method)
        is_open = set(door.roles) <= roles_of(flags) and "none" not in door.scopes
        expected = (404 if door.route in FRONT_DOORS else 200) if is_open else 403
        assert answer.status_code == expected, (door, answer.data)


@each_caller
def test_a_head_or_a_slash_too_many_opens_no_more(caller, client, scene):
    refusal = 401 if caller is STRANGER else 403
    headers = scene(caller)
    for door in doors_for(caller):
        tried = [(door.method, "/"), *([("HEAD", "")] if door.method == "GET" else [])]
        for method, slash in tried:
            answer = ask(client, door, headers, method, slash)
            is_refused = not roles_of(caller) >= set(door.roles)
            assert (answer.status_code == refusal) == is_refused, (door, method, slash)
            if door.method != "GET" and not is_refused:
                headers = scene(caller)


@pytest.mark.parametrize("caller", [tuple(FLAGS), STRANGER], ids=str)
def test_no_other_method_opens_a_door(caller, client, scene):
    headers = scene(caller)
    for door in DOORS:
        documented = {other.method for other in DOORS if other.shape[1] == door.shape[1]}
        if door.route.endswith("/users/register"):  # which may be somebody's name as well
            documented |= {"GET", "DELETE"}
        documented |= {"HEAD"} if "GET" in documented else set()
        for method in tiers.some(sorted(METHODS - documented), 2):
            answer = ask(client, door, headers, method)
            assert answer.status_code == 405, (door, method, answer.data)
            assert set(answer.headers["Allow"].split(", ")) == documented, (door, method)


def test_the_openapi_document_names_the_same_roles_and_scopes(app):
    """Of a door to one's own things and to others', it asks for what the first needs."""
    operations = {
        (method.upper(), shape_of(path)): operation
        for path, item in app.extensions[SPECIFICATION]()["paths"].items()
        for method, operation in item.items()
    }
    # A second spelling of a path is served, and documented in the first.
    documented = [
        door
        for door in DOORS
        if door.route.startswith(("/api/v1", "/api/oauth")) and door.number != "="
    ]
    assert operations.keys() == {door.shape for door in documented}
    for door in documented:
        needed = min((other.roles for other in DOORS if other.shape == door.shape), key=len)
        operation = operations[door.shape]
        expected = [{"password": list(needed)}, {"bearer": []}] if needed else []
        assert operation["security"] == expected, door
        said = {"none": "Not with a key.", "any": "Scopes of a key: any."}
        scopes = (said.get(scope, f"`{scope}`") for scope in door.scopes)
        roles = (f"`{role}`" for role in (*needed, *door.roles[-1:]))
        assert all(part in operation["description"] for part in (*scopes, *roles)), door


def test_no_body_of_a_stranger_is_read(client):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer x"}
    for door in DOORS:
        if door.body is not None and door.roles:
            sent = {"method": door.method, "input_stream": WatchedBody(b"{}"), "headers": headers}
            answer = client.open(door.path, **sent)
            assert (answer.status_code, sent["input_stream"].taken) == (401, 0), door
