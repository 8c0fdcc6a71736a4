"""LENIENT_BODIES: what it takes, what it still refuses, and that off means off."""

from functools import partial
from urllib.parse import urlencode

import pytest

import config
from app.core.permissions import Role
from tests.factories import World, numbered_guid, sha256

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


def test_a_form_that_repeats_a_field_is_refused(post):
    form = urlencode([("itemid", ITEM), ("quantity", "1"), ("quantity", "1")])
    response = post(GIVE, data=form, content_type=FORM)
    assert response.json["Errors"] == {"quantity": ["Must be given once."]}


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


def test_an_unknown_field_may_come_as_often_as_it_likes(post):
    body = urlencode([("value", "1"), ("tags[]", "a"), ("tags[]", "b")])
    assert post(SET, data=body, content_type=FORM).json == {"VariableId": VARIABLE, "Value": 1}
