"""LENIENT_BODIES: what it takes, what it still refuses, and that off means off."""

from functools import partial
from urllib.parse import urlencode

import pytest

import config
from app.core.permissions import Role
from tests.factories import World, numbered_guid, sha256

ITEM, VARIABLE = map(numbered_guid, range(2))
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


def test_a_form_repeats_only_fields_that_are_unknown(post):
    form = urlencode([("itemid", ITEM), ("quantity", "1"), ("quantity", "1")])
    response = post(GIVE, data=form, content_type=FORM)
    assert response.json["Errors"] == {"quantity": ["Must be given once."]}
    form = urlencode([("value", "1"), ("tags[]", "a"), ("tags[]", "b")])
    assert post(SET, data=form, content_type=FORM).json == {"VariableId": VARIABLE, "Value": 1}


def test_every_spelling_of_a_give_is_the_same_give(post, db):
    spellings = [
        {"json": {"itemid": ITEM, "quantity": 5}},
        {"json": {"itemId": ITEM.upper(), "Quantity": "5", "bankOverflow": "false"}},
        {"data": {"ITEMID": ITEM, "quantity": "05", "bankoverflow": "0", "submit": "Give"}},
        {"json": {"itemid": ITEM, "quantity": 5, "colour": {"is": ["unknown"]}}},
    ]
    answers = [post(GIVE, key="order-1", **spelling) for spelling in spellings]
    given = {"id": ITEM, "quantity": {"total": 5, "bank": 0, "inventory": 5}}
    assert [answer.json for answer in answers] == [given] * 4
    assert ["Idempotency-Replayed" in a.headers for a in answers] == [False, True, True, True]
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


OFF = [
    ({"data": {"itemid": ITEM, "quantity": "5"}}, 415),
    ({"json": {"itemId": ITEM, "quantity": 5}}, 400),
    ({"json": {"itemid": ITEM, "quantity": "5"}}, 400),
    ({"json": {"itemid": ITEM, "quantity": 5, "bankoverflow": "1"}}, 400),
    ({"json": {"itemid": ITEM, "quantity": 5, "colour": "red"}}, 400),
    ({"json": {"itemid": ITEM, "quantity": 5}}, 200),
]


def test_off_means_off(make_app):
    app = make_app(config.load({"QM_ENV": "testing"}))
    world = World(app)
    world.add_player(Name="Bob")
    send = partial(app.test_client().post, GIVE, headers=world.headers())
    assert [send(**options).status_code for options, _ in OFF] == [status for _, status in OFF]
