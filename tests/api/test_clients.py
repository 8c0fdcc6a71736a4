"""What public clients of this API send and rely on, one row for each known fact.

Seven clients are known: three PHP CMSs, a WordPress plug-in, an Electron tool, a VB tool and a
TypeScript library. Nothing is known of the WordPress plug-in's requests that the others' do not
hold. Each row is tried with LENIENT_BODIES on and off; what needs it is refused without it.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

import pytest

import config
from app.auth.roles import Role
from tests.factories import guid, sha256

NIL = "00000000-0000-0000-0000-000000000000"
DENIED = "Authorization has been denied for this request."
TOKEN = "/api/oauth/token"
V1 = "/api/v1"
HASH = sha256("secret")
ITEM = guid()
PASSWORD_GRANT = {"grant_type": "password", "username": "site", "password": HASH}
NEW_ACCOUNT = {"username": "Newcomer", "password": HASH, "email": "new@example.com"}


class Fact(NamedTuple):
    """A request, and what its client reads from the answer: a type, or the very value."""

    client: str
    fact: str
    method: str
    path: str
    options: dict[str, Any]
    reads: dict[str, Any]
    status: int = 200
    is_lenient: bool = False


FIRST, SECOND, THIRD = "PHP CMS 1", "PHP CMS 2", "PHP CMS 3"
ELECTRON, VB, TYPESCRIPT = "Electron tool", "VB tool", "TypeScript library"
JSON = {"content_type": "application/json"}
FACTS = [
    Fact(
        *(FIRST, "signs in by a form with a lower-case hash", "POST", TOKEN),
        *({"data": PASSWORD_GRANT}, {"access_token": str}),
    ),
    Fact(
        *(FIRST, "registers by a form", "POST", f"{V1}/users/register"),
        *({"data": NEW_ACCOUNT}, {"Username": "Newcomer", "Email": "new@example.com"}),
        is_lenient=True,
    ),
    Fact(
        *(FIRST, "validates a password by a form", "POST", f"{V1}/users/Alice/password/validate"),
        *({"data": {"password": sha256("alice")}}, {"Message": "Password Correct"}),
        is_lenient=True,
    ),
    Fact(
        *(FIRST, "reads why a form was refused", "POST", f"{V1}/users/register"),
        {"data": {**NEW_ACCOUNT, "username": "Alice"}},
        {"Message": "Account already exists with username 'Alice'."},
        status=409,
        is_lenient=True,
    ),
    Fact(
        *(FIRST, "reads names and levels from a list", "GET", f"{V1}/players/rank"),
        *({}, {"Values.0.Name": "Bob", "Values.0.Level": 7, "Values.1.Name": "Carl"}),
    ),
    Fact(
        *(FIRST, "reads an account and whether it may edit", "GET", f"{V1}/users/Alice"),
        *({}, {"Name": "Alice", "Email": "alice@example.com", "Power.Editor": True}),
    ),
    Fact(
        *(SECOND, "gives by itemId", "POST", f"{V1}/players/Bob/items/give"),
        *({"json": {"itemId": ITEM, "quantity": 1}}, {"id": ITEM, "quantity.total": 1}),
        is_lenient=True,
    ),
    Fact(
        *(SECOND, "sends a Content-Type with a GET", "GET", f"{V1}/players/Bob"),
        *(JSON, {"Name": "Bob", "Level": 7}),
    ),
    Fact(
        *(SECOND, "sends size beside page for the online list", "POST", f"{V1}/players/online"),
        *({"json": {"page": 0, "size": 10}}, {"entries.0.Name": "Bob", "total": 1}),
        is_lenient=True,
    ),
    Fact(
        *(THIRD, "asks for a count of 999", "POST", f"{V1}/players"),
        *({"json": {"page": 0, "count": 999}}, {"count": 2, "total": 3}),
    ),
    Fact(
        *(THIRD, "asks for a pageSize of 99999", "GET", f"{V1}/players?page=0&pageSize=99999"),
        *({}, {"Count": 2, "PageSize": 2, "Total": 3}),
    ),
    Fact(
        *(ELECTRON, "puts a slash after a user's name", "GET", f"{V1}/users/Alice/"),
        *({}, {"Name": "Alice"}),
    ),
    Fact(
        *(TYPESCRIPT, "revokes all its tokens", "DELETE", f"{TOKEN}/site"),
        *({}, {"username": "site"}),
    ),
]


@pytest.fixture(params=[True, False], ids=["lenient", "strict"])
def settings(request, backend_uri):
    """The settings with small pages, so that three players are more than fit on one."""
    return config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI=backend_uri,
        LENIENT_BODIES=request.param,
        PAGE_SIZE_MAX=2,
    )


@pytest.fixture
def site(world):
    """The account that a web site signs in with."""
    return world.add_user("secret", roles=tuple(Role), Name="site")


@pytest.fixture
def people(world):
    alice = world.add_user("alice", Name="Alice", Email="alice@example.com")
    world.db.users.update_one({"_id": alice["_id"]}, {"$set": {"Power.Editor": True}})
    world.add_player(Name="Bob", Level=7, Online=True, LastSeen=datetime.now(timezone.utc))
    world.add_player(Name="Carl", Level=6)
    world.add_player(Name="Dora", Level=5)


def read(body, path):
    """Follow a path such as Values.0.Name."""
    for part in path.split("."):
        body = body[int(part) if isinstance(body, list) else part]
    return body


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.client} {fact.fact}")
def test_a_client_reads_what_it_relies_on(client, world, site, people, settings, fact):
    headers = world.headers(user=site)
    response = client.open(fact.path, method=fact.method, headers=headers, **fact.options)
    if fact.is_lenient and not settings.LENIENT_BODIES:
        assert response.status_code in (400, 415)
        return
    assert response.status_code == fact.status
    for path, expected in fact.reads.items():
        found = read(response.json, path)
        assert isinstance(found, expected) if isinstance(expected, type) else found == expected


def bearer(tokens):
    return {"Authorization": f"Bearer {tokens['access_token']}"}


def test_php_cms_2_sees_a_full_inventory_by_the_absence_of_an_all_zero_item(client, world, site):
    slots = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(34)}
    world.add_player(Name="Bob", Inventory=slots)
    headers = world.headers(user=site)

    def has_room():
        inventory = client.get(f"{V1}/players/Bob/items/inventory", headers=headers, **JSON).json
        return any(slot["ItemId"] == NIL for slot in inventory)

    def give():
        body = {"itemid": guid(), "quantity": 1}
        return client.post(f"{V1}/players/Bob/items/give", json=body, headers=headers).status_code

    assert (has_room(), give()) == (True, 200)
    assert (has_room(), give()) == (False, 409)


def test_php_cms_2_signs_in_again_after_a_401_and_tries_once_more(client, site):
    first = client.post(TOKEN, json=PASSWORD_GRANT).json
    client.delete(f"{TOKEN}/site", headers=bearer(first))
    denied = client.get(f"{V1}/players", headers=bearer(first), **JSON)
    assert (denied.status_code, denied.json["Message"]) == (401, DENIED)
    second = client.post(TOKEN, json=PASSWORD_GRANT).json
    assert client.get(f"{V1}/players", headers=bearer(second), **JSON).status_code == 200


def test_the_vb_tool_refreshes_and_searches_for_password_correct(client, site, people):
    first = client.post(TOKEN, json=PASSWORD_GRANT).json
    grant = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = client.post(TOKEN, data=grant)
    assert second.status_code == 200

    def answer(path, **body):
        path = f"{V1}/users/Alice/{path}"
        return client.post(path, json=body, headers=bearer(second.json)).text

    assert "Password Correct" in answer("password/validate", password=sha256("alice"))
    assert "Password Correct" not in answer("password/validate", password=sha256("wrong"))
    assert "Password Correct" in answer("manage/password/change", new=sha256("new"))


def test_the_typescript_library_ends_a_token_by_its_owners_name(client, site):
    tokens = client.post(TOKEN, json=PASSWORD_GRANT).json
    assert client.delete(f"{TOKEN}/site", headers=bearer(tokens)).json == {"username": "site"}
    assert client.get(f"{V1}/players", headers=bearer(tokens)).status_code == 401
