"""Every way a request can go wrong, in one shape."""

import json
import logging

import pytest
from pymongo.errors import NetworkTimeout, OperationFailure, ServerSelectionTimeoutError

from app.auth import guard
from app.core.errors import Busy, Conflict, InvalidField, KeyReused, NotFound, QuartermasterError
from app.core.naming import Lookup
from app.http.api import Blueprint, Schema
from app.http.errors import body_of, codes, status_of
from app.http.fields import Flag, Guid, Integer, PasswordHash, Text
from app.http.json import json_response
from app.players.domain import SavedSince
from app.players.items.domain import NotEnoughItems, no_room

GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


class ThingArgs(Schema):
    itemid = Guid(required=True)
    quantity = Integer(1, 2**31 - 1, required=True)
    bankoverflow = Flag()
    note = Text()
    password = PasswordHash()


FAILURES = {
    "conflict": Conflict("The inventory is full."),
    "missing": NotFound("player", Lookup.parse("Bob")),
    "reused": KeyReused("k"),
    "busy": Busy("player"),
    "away": ServerSelectionTimeoutError("mongodb://user:secret@host"),
    "slow": NetworkTimeout("timed out"),
    "stepping-down": OperationFailure("not primary", 10107),
    "bug": ZeroDivisionError("a secret detail"),
    "invalid-document": OperationFailure("failed validation", 121),
}


def add_failing_routes(app):
    """Add routes that fail in every way there is."""
    blp = Blueprint("Things", __name__, url_prefix="/things")

    @blp.route("/take", methods=["POST"])
    @guard.public
    @blp.arguments(ThingArgs())
    def take(args):
        return json_response(args)

    @blp.route("/fail/<kind>")
    @guard.public
    def fail(kind):
        raise FAILURES[kind]

    app.register_blueprint(blp)


@pytest.fixture
def extend_app():
    return add_failing_routes


@pytest.fixture
def backend_uri():
    """None of this is a matter of the database, so the quick one does."""
    return "mongomock://localhost"


def assert_error(response, status, message=None):
    assert response.status_code == status, response.data
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert response.headers["X-Request-ID"]
    assert {"Message", "Code"} <= response.json.keys() <= {"Message", "Code", "Errors"}
    assert response.json["Code"] in codes()
    assert message in (None, response.json["Message"])


def test_an_unknown_path_is_a_404_in_json(client):
    assert_error(client.get("/nowhere"), 404, "This path does not exist.")
    assert_error(client.get("//api/v1/players"), 404)
    assert_error(client.get("/api/v1/nothing/../here"), 404)


MALFORMED = [
    (
        "{",
        "The request body is not valid JSON: unexpected end of data: line 1 column 2 (char 1).",
    ),
    ("[1]", "The request body must be a JSON object."),
    ('{"itemid": NaN}', None),
    (b'{"note": "\xff"}', None),
    ("[" * 5000, None),
    (
        "  ",
        "The request body is not valid JSON: input data is empty: line 1 column 1 (char 0).",
    ),
    ("", "The field 'itemid' is required; the field 'quantity' is required."),
]


def test_a_malformed_body_is_a_400(client):
    for body, message in MALFORMED:
        response = client.post("/things/take", data=body, content_type="application/json")
        assert_error(response, 400, message)


WRONG = [
    ("itemid", "sword", "The field 'itemid' must be a guid."),
    ("itemid", None, "The field 'itemid' must not be null."),
    (
        "itemid",
        "00000000-0000-0000-0000-000000000000",
        "The field 'itemid' must not be the all-zero guid.",
    ),
    ("quantity", "5", "The field 'quantity' must be a whole number."),
    ("quantity", 5.0, "The field 'quantity' must be a whole number."),
    ("quantity", True, "The field 'quantity' must be a whole number."),
    ("quantity", 0, None),
    ("quantity", 2**31, None),
    ("quantity", 10**30, None),
    ("bankoverflow", "true", "The field 'bankoverflow' must be true or false."),
    ("bankoverflow", 1, "The field 'bankoverflow' must be true or false."),
    ("note", 1, "The field 'note' must be a string."),
    ("password", "secret", None),
    ("password", "g" * 64, None),
    ("colour", "red", "The field 'colour' is unknown."),
]


def test_a_wrong_field_is_a_400_that_names_it(client):
    for field, value, message in WRONG:
        body = json.dumps({"itemid": GUID, "quantity": 1, field: value})
        response = client.post("/things/take", data=body, content_type="application/json")
        assert_error(response, 400, message)
        assert list(response.json["Errors"]) == [field]
        assert f"'{field}'" in response.json["Message"]


def test_a_good_body_is_taken_whatever_its_json_type_is_called(client):
    body = json.dumps({"itemid": GUID.upper(), "quantity": 1})
    for content_type in ("application/json", "application/json; charset=utf-8", "text/x+json"):
        response = client.post("/things/take", data=body, content_type=content_type)
        assert response.json == {"itemid": GUID, "quantity": 1}


def test_a_body_over_the_limit_is_a_413(client):
    body = json.dumps({"note": "x" * 3_000_000})
    response = client.post("/things/take", data=body, content_type="application/json")
    assert_error(response, 413, "The request body is too large.")


AWAY = "The database is not available at the moment; please try again."
KNOWN = [
    ("conflict", 409, "The inventory is full."),
    ("missing", 404, "No player with name 'Bob'."),
    ("reused", 409, "The Idempotency-Key 'k' was used before with another request."),
    ("busy", 503, "Too many changes to this player at once; please try again."),
    ("away", 503, AWAY),
    ("slow", 503, AWAY),
    ("stepping-down", 503, AWAY),
]


def test_known_errors_have_their_status_and_sentence(client):
    for kind, status, message in KNOWN:
        response = client.get(f"/things/fail/{kind}")
        assert_error(response, status, message)
        assert ("Retry-After" in response.headers) == (status == 503)


@pytest.mark.parametrize("kind", ["bug", "invalid-document"])
def test_a_bug_is_a_bland_500_with_its_details_in_the_log(client, caplog, kind):
    response = client.get(f"/things/fail/{kind}", headers={"X-Request-ID": "find-me"})
    assert_error(response, 500)
    assert "X-Request-ID" in response.json["Message"]
    assert str(FAILURES[kind]) not in response.text
    record = next(r for r in caplog.records if r.levelno == logging.ERROR)
    assert record.exc_info[1] is FAILURES[kind]


def test_a_body_of_very_many_fields_is_refused_in_few_words(client):
    many = {f"itmid{number}": 0 for number in range(20_000)}
    response = client.post("/things/take", json=many)
    assert_error(response, 400, "The request body has more than 100 fields.")
    fewer = dict.fromkeys([*many][:90], 0)
    response = client.post("/things/take", json={**fewer, "x" * 5000: 1})
    assert (response.status_code, len(response.json["Errors"])) == (400, 20)
    assert len(response.data) < 5000


NUMBERED = [
    (NotEnoughItems(3, GUID, 5), {"Code": "NOT_ENOUGH_ITEMS", "Wanted": 5, "Held": 3}),
    (no_room(GUID, 5, 2, bank=False), {"Code": "NO_ROOM", "Left": 2}),
    (SavedSince(9), {"Code": "VERSION_CHANGED", "Version": 9}),
    (SavedSince(None), {"Code": "VERSION_CHANGED"}),
    (InvalidField("x", "Is required."), {"Code": "INVALID", "Errors": {"x": ["Is required."]}}),
    (Busy("player"), {"Code": "TOO_MANY_CHANGES"}),
]


def test_an_error_has_a_code_and_its_numbers():
    for error, fields in NUMBERED:
        assert body_of(error) == {"Message": str(error), **fields}
        assert codes()[error.code] == status_of(error)


def test_a_code_has_one_status():
    """A program may decide by the code alone."""
    kinds = [QuartermasterError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind.code in codes() and kind.__module__.startswith("app."):
            assert codes()[kind.code] == status_of(kind.__new__(kind)), kind
