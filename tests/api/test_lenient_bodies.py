"""LENIENT_BODIES: what it takes, what it still refuses, and that off means off."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

import config
from app.auth.roles import Role
from app.http import parser
from tests.factories import World, guid, numbered_guid, sha256

ITEM, VARIABLE, SPELL = map(numbered_guid, range(3))
GIVE = "/api/v1/players/Bob/items/give"
SET = f"/api/v1/players/Bob/variables/{VARIABLE}"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def settings():
    """The setting, on the quick database alone: how a body is spelled is nothing to a database."""
    return config.load({"QM_ENV": "testing"}, LENIENT_BODIES=True)


@pytest.fixture
def bob(world):
    return world.add_player(Name="Bob")


@pytest.fixture
def post(caller, bob):
    return caller("", *Role).send


def test_it_is_off_unless_set():
    assert config.load({}).LENIENT_BODIES is False
    assert config.load({"QM_LENIENT_BODIES": "on"}).LENIENT_BODIES is True


@pytest.mark.parametrize(
    "options",
    [
        {"data": {"itemid": ITEM, "quantity": "5"}},
        {"data": {"ItemId": ITEM, "QUANTITY": "5", "bankOverflow": "0", "submit": "Give"}},
        {"json": {"itemId": ITEM, "quantity": "5", "bankoverflow": "False"}},
        {"json": {"itemid": ITEM, "quantity": 5, "bankoverflow": "1"}},
        {"json": {"itemid": ITEM, "quantity": 5, "colour": {"is": ["unknown"]}}},
    ],
)
def test_every_lenient_spelling_of_a_give_is_a_give(post, options):
    response = post(GIVE, **options)
    assert response.status_code == 200
    assert response.json == {"id": ITEM, "quantity": {"total": 5, "bank": 0, "inventory": 5}}


@pytest.mark.parametrize(
    ("path", "form", "answer"),
    [
        ("/players", {"page": "0", "count": "1"}, {"count": 1}),
        ("/players/online", {"page": "0", "count": "1"}, {"count": 0}),
        ("/players/Bob/items/give", {"itemid": ITEM, "quantity": "1"}, {"id": ITEM}),
        ("/players/Bob/spells/teach", {"spellid": SPELL}, {"SpellId": SPELL}),
        (f"/players/Bob/variables/{VARIABLE}", {"value": "-7"}, {"Value": -7}),
        ("/users", {"count": "1"}, {"count": 1}),
        (
            "/users/register",
            {"username": "Eve", "password": "0" * 64, "email": "eve@example.com"},
            {"Username": "Eve"},
        ),
        ("/users/Alice/password/validate", {"password": sha256("old")}, "Password Correct"),
        (
            "/users/Alice/email/change",
            {"new": "new@example.com", "authorization": sha256("old")},
            {"Email": "new@example.com"},
        ),
        (
            "/users/Alice/password/change",
            {"new": sha256("new"), "authorization": sha256("old")},
            "Password Updated",
        ),
        ("/users/Alice/manage/email/change", {"new": "b@example.com"}, {"Email": "b@example.com"}),
        ("/users/Alice/manage/password/change", {"new": sha256("new")}, "Password Correct"),
    ],
)
def test_every_endpoint_with_a_body_takes_a_form(post, world, path, form, answer):
    world.add_user("old", Name="Alice")
    response = post(f"/api/v1{path}", data=form)
    assert response.status_code == 200
    expected = {"Message": answer} if isinstance(answer, str) else answer
    assert {name: response.json[name] for name in expected} == expected


@pytest.mark.parametrize("content_type", ["application/json", FORM, None])
def test_no_body_is_still_an_empty_one(post, content_type):
    assert post("/api/v1/players", content_type=content_type).json["count"] == 1


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("1", 1), ("true", True), ("FALSE", False), (1, 1), (True, True), (str(-(2**63)), -(2**63))],
)
def test_a_variable_never_takes_a_number_for_a_flag(post, db, bob, sent, stored):
    response = post(SET, json={"Value": sent})
    assert response.json == {"VariableId": VARIABLE, "Value": stored}
    kept = db.players.find_one({"_id": bob["_id"]})["Variables"][VARIABLE]
    assert (kept, isinstance(kept, bool)) == (stored, isinstance(stored, bool))


@pytest.mark.parametrize("kind", ["json", "data"])
def test_two_spellings_of_one_field_are_refused_and_give_neither(post, db, kind):
    response = post(GIVE, **{kind: {"itemid": ITEM, "itemId": guid(), "quantity": "1"}})
    assert response.status_code == 400
    assert response.json["Message"] == "The field 'itemid' must be given once."
    assert response.json["Errors"] == {"itemid": ["Must be given once."]}
    assert db.players.find_one({"Name": "Bob"})["Inventory"] == {}


def test_a_form_that_repeats_a_field_is_refused(post):
    form = urlencode([("itemid", ITEM), ("quantity", "1"), ("quantity", "1")])
    response = post(GIVE, data=form, content_type=FORM)
    assert response.json["Errors"] == {"quantity": ["Must be given once."]}


@pytest.mark.parametrize("content_type", ["multipart/form-data", "text/plain"])
def test_a_body_that_is_neither_json_nor_a_form_is_a_415(post, content_type):
    assert post(GIVE, data=b"itemid=1", content_type=content_type).status_code == 415


def test_a_form_over_the_limit_is_a_413(post):
    assert post(GIVE, data={"note": "x" * 1_100_000}).status_code == 413


def test_a_repetition_is_recognised_in_another_spelling(post, db):
    spellings = [
        {"json": {"itemid": ITEM, "quantity": 5}},
        {"json": {"itemId": ITEM.upper(), "Quantity": "5", "bankOverflow": "false"}},
        {"data": {"ITEMID": ITEM, "quantity": "05", "bankoverflow": "0", "colour": "red"}},
    ]
    first, *others = [post(GIVE, key="order-1", **spelling) for spelling in spellings]
    assert "Idempotency-Replayed" not in first.headers
    for other in others:
        assert other.headers["Idempotency-Replayed"] == "true"
        assert other.json == first.json
    assert post(GIVE, key="order-1", data={"itemid": ITEM, "quantity": "6"}).status_code == 409
    (held,) = db.players.find_one({"Name": "Bob"})["Inventory"].values()
    assert held["Quantity"] == 5


def test_a_flag_and_a_number_are_not_repetitions_of_each_other(post):
    assert post(SET, key="set-1", data={"value": "1"}).json["Value"] == 1
    assert post(SET, key="set-1", data={"value": "true"}).status_code == 409


def test_the_names_of_a_token_request_are_lenient_too(client, world):
    world.add_user("secret", roles=(Role.API,), Name="Alice")
    body = {"Grant_Type": "password", "UserName": "Alice", "Password": sha256("secret")}
    assert client.post("/api/oauth/token", data=body).status_code == 200
    twice = client.post("/api/oauth/token", data={**body, "username": "Bob"})
    assert (twice.status_code, twice.json["error"]) == (400, "invalid_request")


def test_query_strings_keep_their_names(client, as_role, bob):
    response = client.get("/api/v1/players?PAGESIZE=1", headers=as_role())
    assert response.json["PageSize"] == 5


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"data": {"itemid": ITEM, "quantity": "5"}}, 415),
        ({"json": {"itemId": ITEM, "quantity": 5}}, 400),
        ({"json": {"itemid": ITEM, "quantity": "5"}}, 400),
        ({"json": {"itemid": ITEM, "quantity": 5, "bankoverflow": "1"}}, 400),
        ({"json": {"itemid": ITEM, "quantity": 5, "colour": "red"}}, 400),
        ({"json": {"itemid": ITEM, "quantity": 5}}, 200),
    ],
)
def test_off_means_off(make_app, options, status):
    app = make_app(config.load({"QM_ENV": "testing"}))
    world = World(app)
    world.add_player(Name="Bob")
    response = app.test_client().post(GIVE, headers=world.headers(), **options)
    assert response.status_code == status


def test_off_a_body_is_not_respelled(make_app, monkeypatch):
    monkeypatch.setattr(parser, "respelled", None)
    app = make_app(config.load({"QM_ENV": "testing"}))
    assert (
        app.test_client().post("/api/v1/players", headers=World(app).headers()).json["total"] == 0
    )


def test_an_unknown_field_may_come_as_often_as_it_likes(post):
    body = urlencode([("value", "1"), ("tags[]", "a"), ("tags[]", "b")])
    assert post(SET, data=body, content_type=FORM).json == {"VariableId": VARIABLE, "Value": 1}
