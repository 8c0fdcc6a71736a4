"""What holds for every operation alike: keys of requests, names of nobody, cursors, budgets."""

import itertools

import pytest

from app.auth.api_keys import new_secret
from app.core.operations import all_operations
from app.core.permissions import Role
from app.users.passwords import Passwords
from tests.applications import service
from tests.contract_tables import camel_case
from tests.endpoint_table import (
    BATCH,
    DOORS,
    OWN,
    OWN_KEY,
    OWN_SIGN_IN,
    PASSWORD,
    PLAYER,
    SELF,
    USER,
    VALUES,
    shape_of,
)
from tests.factories import (
    add_batch,
    guid,
    make_batch_row,
    make_entry,
    make_key,
    make_user,
    numbered_guid,
    with_keys,
)
from tests.game import make_action, playing
from tests.openapi_document import OPERATIONS
from tests.scene import ASKER, contents, refresh_token, set_scene


def doors_where(is_wanted):
    """Return the doors of the operations of which the document says something."""
    shapes = {
        (method.upper(), shape_of(path))
        for path, method, operation in OPERATIONS.values()
        if is_wanted(operation)
    }
    return [door for door in DOORS if door.shape in shapes]


def doors_with(header):
    """Return the doors that take a header."""
    return doors_where(lambda operation: header in {p["name"] for p in operation["parameters"]})


def doors_with_entry():
    """Return the doors whose answer names its entry of history."""
    return doors_where(has_entry)


def has_entry(operation):
    return "X-History-Id" in operation["responses"]["200"]["headers"]


@pytest.fixture
def backend_uri():
    """None of this is a matter of the database, so the quick one does."""
    return "mongomock://localhost"


@pytest.fixture
def scene(app, db):
    stored = service(app, Passwords).hash(PASSWORD)
    with playing(db):
        yield lambda: set_scene(db, stored)


@pytest.fixture
def staff(world):
    """Return the headers of somebody who may do everything, and who is stored now."""

    def add():
        caller = make_user(roles=Role, Name=SELF, Roles=[ASKER])
        world.db.users.insert_one(with_keys(caller, **{OWN_KEY: make_key(new_secret())}))
        world.db.refresh_tokens.insert_one(refresh_token(caller, OWN, OWN_SIGN_IN))
        return world.headers(user=caller)

    return add


def altered(body):
    """Return another body that is valid as well, or None where there is none."""
    if "Rows" in (body or {}):
        return {**body, "Rows": 2 * body["Rows"]}
    for name, value in (body or {}).items():
        if isinstance(value, int):
            # Towards 0: what is below the example is valid, whatever the maximum is.
            return {**body, name: value - 1 if value else 1}
        if name in ("itemid", "spellid", "mapid"):
            return {**body, name: guid()}
        if name in ("Text", "Message", "Name"):
            return {**body, name: f"{value}too"}
    return None


def test_the_same_request_with_the_same_key_is_one_change(client, scene, staff, db):
    for door in doors_with("Idempotency-Key"):
        scene()
        headers = {**staff(), "Idempotency-Key": "k"}
        # By the id: the player may have another name afterwards.
        path = door.path_with({"player": VALUES["player_id"]})
        ask = {"path": path, "method": door.method, "headers": headers}
        own = {**headers, "Idempotency-Key": "batch x:000001"}
        refused = client.open(json=door.body, **{**ask, "headers": own})
        assert refused.status_code == 400, (door, refused.json)
        first = client.open(json=door.body, **ask)
        assert first.status_code == 200, (door, first.json)
        assert "Idempotency-Replayed" not in first.headers
        before = contents(db)
        again = client.open(json=door.body, **ask)
        assert (again.status_code, again.json) == (200, first.json), door
        assert again.headers["Idempotency-Replayed"] == "true", door
        assert again.headers.get("X-History-Id") == first.headers.get("X-History-Id"), door
        assert contents(db) == before, door
        if other := altered(door.body):
            refused = client.open(json=other, **ask)
            assert refused.status_code == 409, (door, refused.json)
            assert "'k' was used before with another request" in refused.json["Message"], door


def test_every_change_answers_with_the_id_of_its_entry(client, scene, staff, world):
    for door in doors_with_entry():
        scene()
        ask = {"method": door.method, "json": door.body, "headers": staff()}
        if "/admin/un" in door.route:  # there must be something to lift
            imposed = {**ask, "method": "POST", "json": {"duration": 7}}
            assert client.open(door.path.replace("/un", "/"), **imposed).status_code == 200
        answer = client.open(door.path, **ask)
        assert answer.status_code == 200, (door, answer.json)
        # What ends tokens may have ended the caller's.
        path = f"/api/v1/history/{answer.headers['X-History-Id']}"
        entry = client.get(path, headers=world.headers(*Role)).json
        # An erasure leaves no request id in entries of the person.
        made_by = entry["RequestId"] or entry["Operation"]
        assert made_by in (answer.headers["X-Request-ID"], "erase"), door


def test_the_document_says_which_changes_do():
    views = [view for operation in all_operations() for view in operation.routes]
    told = {name for name, (_, _, op) in OPERATIONS.items() if has_entry(op)}
    assert told == {camel_case(view) for view in views}


def test_a_reason_can_be_required_of_every_change(app, client, scene, staff, db):
    app.config["REASON_REQUIRED"] = True
    for door in doors_with("X-Reason"):
        # To read personal data changes nothing; these have their reason in the body.
        if door.route.endswith(("/personal-data", "/batches", "/approvals")):
            continue
        scene()
        headers, before = staff(), contents(db)
        for reason in ({}, {"X-Reason": ""}, {"X-Reason": "%E2%80%8B"}):
            ask = {"method": door.method, "json": door.body, "headers": {**headers, **reason}}
            answer = client.open(door.path, **ask)
            assert answer.status_code == 400, door
            assert "X-Reason is required" in answer.json["Message"], door
            assert contents(db) == before, door
        given = {**headers, "X-Reason": "because"}
        answer = client.open(door.path, method=door.method, json=door.body, headers=given)
        assert "X-Reason" not in answer.text, door


def test_nobody_is_a_404_that_names_whom_nobody_has(client, scene, staff):
    scene()
    headers = staff()
    for door, kind in itertools.product(DOORS, ("player", "user")):
        for by, key in (("name", "nobody"), ("id", numbered_guid(99))):
            # Whose history is asked for may be gone.
            if kind in door.variables and not (by == "id" and "/history" in door.route):
                path = door.path_with({kind: key})
                answer = client.open(path, method=door.method, json=door.body, headers=headers)
                if "/oauth/" not in path and "/logs/" not in path:
                    assert answer.json["Message"] == f"No {kind} with {by} '{key}'.", door
                assert answer.status_code == 404, door


LISTS = [
    *("v1/players?", "v1/players?sortBy=level&", "v1/players?search=ala&", "v1/players/rank?"),
    *("v1/users?", "v1/history?", "v1/history?by=clerk&", f"v1/players/{PLAYER}/history?"),
    *(f"v1/players/{PLAYER}/notes?", f"v1/users/{USER}/notes?", f"oauth/sign-ins/{USER}?"),
    *("v1/batches?", f"v1/batches/{BATCH}/rows?", "v1/actions?", "v1/events?"),
    *("v1/gameobjects/item?", "v1/gameobjects/spell?", "v1/gameobjects/item?search=arr&"),
]


@pytest.fixture
def long_lists(world, db, scene, client, staff):
    """Let each list have several pages of one; return the headers of somebody who reads them."""
    scene()
    headers, user = staff(), db.users.find_one({"Name": USER})
    for number in range(3):
        player = world.add_player(Name=f"Aladric {number}")
        db.history.insert_one(make_entry(player, By={"UserId": None, "Name": "clerk"}))
        db.users.insert_one(make_user())
        add_batch(db, guid(), player)
        world.add_object(Name="Arrow")
        world.add_object(Name="Fire", Type="spell")
        db.batch_rows.insert_one(make_batch_row(player, BATCH, number + 2))
        db.refresh_tokens.insert_one(refresh_token(user, str(number), guid()))
        db.actions.insert_one(make_action())
        for path in (f"players/{PLAYER}", f"users/{USER}"):
            assert client.post(
                f"/api/v1/{path}/notes", json={"Text": "Kind."}, headers=headers
            ).json["Id"]
    return headers


def test_a_cursor_goes_on_with_its_own_list_alone(client, long_lists):
    cursors = {}
    for path in LISTS:
        page = client.get(f"/api/{path}pageSize=1&after=", headers=long_lists).json
        assert page["Next"], path
        cursors[path] = page["Next"]
    for path, (origin, cursor) in itertools.product(LISTS, cursors.items()):
        answer = client.get(f"/api/{path}pageSize=1&after={cursor}", headers=long_lists)
        if path == origin:
            assert answer.status_code == 200, path
        else:
            assert answer.status_code == 400, (path, origin)
            assert "'after' belongs to another list" in answer.json["Message"], (path, origin)


def test_a_page_is_never_larger_than_the_most_that_is_set(app, client, long_lists):
    app.config["PAGE_SIZE_MAX"] = 2
    for path in LISTS:
        page = client.get(f"/api/{path}pageSize=99&after=", headers=long_lists).json
        assert len(page["Values"]) == (0 if path == "v1/events?" else 2), path


# What is more than to move items.
BEYOND_BUDGETS = [
    ("DELETE", f"players/{PLAYER}", None),
    ("PUT", f"players/{VALUES['player_id']}", {"Level": 3}),
    ("PUT", "players", {"Players": [{"Id": VALUES["player_id"], "Level": 3}]}),
    ("POST", f"users/{USER}/erase", {"Confirm": USER}),
]


@pytest.mark.parametrize(("method", "path", "body"), BEYOND_BUDGETS)
def test_a_key_with_a_budget_does_no_more_than_move_items(
    client, scene, world, db, method, path, body
):
    scene()
    headers = world.key_headers(Budget={"ItemsPerDay": 5})
    before = contents(db)
    answer = client.open(f"/api/v1/{path}", method=method, json=body, headers=headers)
    assert (answer.status_code, "budget" in answer.json["Message"]) == (403, True)
    assert contents(db) == before
