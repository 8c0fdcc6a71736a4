"""The OpenAPI document: whole, valid, and true."""

import json
import re
from datetime import datetime, timezone
from importlib.metadata import version

from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import validate

from app.core.operations import all_operations
from app.http import examples
from app.http.fields import DEMO_PASSWORD_HASH
from app.maintenance.demo.world import World
from app.users.domain import is_username
from tests.contract_tables import camel_case
from tests.endpoint_table import DOORS, shape_of
from tests.openapi_document import OPERATIONS, SPEC


def resolved(schema):
    """Return a schema without references, for the validator."""
    if isinstance(schema, list):
        return [resolved(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return resolved(SPEC["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return {name: resolved(part) for name, part in schema.items()}


def faults(value, schema):
    return [error.message for error in OAS30Validator(resolved(schema)).iter_errors(value)]


def test_it_is_valid_and_of_this_version():
    validate(SPEC)
    assert SPEC["info"]["version"] == version("quartermaster")
    # Without a type, OpenAPI 3.0 gives "nullable" no meaning.
    for text in re.findall(r'\{[^{}]*"nullable": true[^{}]*\}', json.dumps(SPEC)):
        assert re.search(r'"(type|allOf|oneOf)": ', text), text


def test_it_has_the_endpoints_of_the_table_and_no_others():
    documented = {(method.upper(), shape_of(path)) for path, method, _ in OPERATIONS.values()}
    # What has two spellings is documented in one; the pages of the document are not in it.
    others = ("/api/docs", "/api/openapi.json")
    doors = [door for door in DOORS if door.route.startswith("/api/") and door.number != "="]
    assert documented == {door.shape for door in doors if not door.route.startswith(others)}
    assert len([door for door in doors if door.number != "+"]) == 31


def test_every_operation_has_a_name_in_one_style():
    for name in OPERATIONS:
        assert re.fullmatch(r"[a-z]+(?:[A-Z][a-z]+)*", name)


# How an operation says who may use it.
ACCESS = r"Public\.|Roles: `.*`\. (Scopes of a key: .*\.|Not with a key\.)"

# What JavaScript and TypeScript have under these names, a generated client would hide.
TAKEN = {
    *("Array", "Boolean", "Date", "Error", "Function", "Headers", "Map", "Number", "Object"),
    *("Promise", "Proxy", "Record", "Request", "Response", "Set", "String", "Symbol"),
}


def test_its_schemas_hide_nothing_of_the_languages_and_are_all_used():
    schemas = SPEC["components"]["schemas"]
    assert not TAKEN & set(schemas)
    text = json.dumps(SPEC)
    unused = [name for name in schemas if f'"#/components/schemas/{name}"' not in text]
    assert unused == []


def test_each_tag_has_a_description_and_operations():
    used = {tag for _, _, operation in OPERATIONS.values() for tag in operation["tags"]}
    assert {tag["name"] for tag in SPEC["tags"] if tag["description"]} == used


def test_an_operation_explains_itself():
    for name, (_, _, operation) in OPERATIONS.items():
        assert re.fullmatch(r".*[^.]", operation["summary"]), name
        explained, _, access = operation["description"].rpartition("\n\n")
        assert explained.endswith("."), name
        assert re.fullmatch(ACCESS, access), name
        for parameter in operation["parameters"]:
            assert parameter["description"].endswith("."), name
            assert "type" in parameter["schema"], name


def examples_of(media):
    found = [example["value"] for example in media.get("examples", {}).values()]
    return [*found, media["example"]] if "example" in media else found


def test_every_status_has_a_body_and_examples_that_fit_it():
    for name, (path, _, operation) in OPERATIONS.items():
        expected = {"200", "429", "500", "503"}
        expected |= {"401", "403"} if operation["security"] else set()
        expected |= {"400", "413", "415"} if "requestBody" in operation else set()
        # What maps there are, the game alone knows.
        expected |= {"404"} if "{" in path and name != "sayOnMap" else set()
        expected |= {"409"} if IDEMPOTENCY in parameters(operation) else set()
        assert expected <= set(operation["responses"]), name
        for status, answer in operation["responses"].items():
            assert answer["description"].endswith("."), (name, status)
            assert "X-Request-ID" in answer["headers"], (name, status)
            media = answer["content"]["application/json"]
            assert examples_of(media), (name, status)
            wrong = [fault for one in examples_of(media) for fault in faults(one, media["schema"])]
            assert wrong == [], (name, status)


def test_examples_are_answers_that_their_operation_gives():
    for name, (path, _, operation) in OPERATIONS.items():
        for status, answer in operation["responses"].items():
            said = json.dumps(answer)
            assert ("Password Updated" in said) <= ("/password/" in path), (name, status)
            assert "'Id' must be a whole number" not in said, (name, status)
    # A letter waits for its player, not for an answer of the game.
    assert "202" not in OPERATIONS["sendLetter"][2]["responses"]


def test_a_request_has_an_example_that_fits_it():
    for name, (_, _, operation) in OPERATIONS.items():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            assert media["example"], name
            assert faults(media["example"], media["schema"]) == [], name
        for parameter in operation["parameters"]:
            if parameter["in"] == "path":
                assert faults(parameter["example"], parameter["schema"]) == [], name


IDEMPOTENCY = "Idempotency-Key"
SAVES = ("SaveArgs", "SaveRowArgs", "Saved", "SaveResult")


def parameters(operation):
    return {parameter["name"]: parameter for parameter in operation["parameters"]}


def test_query_parameters_have_their_defaults_and_ranges():
    said = {name: one["schema"] for name, one in parameters(OPERATIONS["listPlayers"][2]).items()}
    assert said["page"] == {
        **{"type": "integer", "format": "int64"},
        **{"default": 0, "minimum": 0, "maximum": 2**53},
    }
    assert (said["pageSize"]["default"], said["pageSize"]["minimum"]) == (5, 1)
    assert said["sortBy"]["enum"] == ["name", "level", "lastonline"]
    assert said["sortDirection"]["default"] == "Ascending"
    for name, fits, fails in (("after", "", "a b"), ("search", "Bob's \u2028 玩家", "a\x00b")):
        assert not faults(fits, said[name])
        assert faults(fails, said[name])


def test_a_username_fits_the_document_where_it_fits_the_service():
    told = SPEC["components"]["schemas"]["RegisterArgs"]["properties"]["username"]
    for name in ("newcomer", "Ünï2", "玩家", "a b", "a_b", "a.b", "a\n", "a\x7f", "x"):
        assert is_username(name) == (not faults(name, told)), name


def test_exactly_what_must_not_be_done_twice_takes_an_idempotency_key():
    keys = {name: parameters(op).get(IDEMPOTENCY) for name, (_, _, op) in OPERATIONS.items()}
    takes = {name for name, key in keys.items() if key}
    declared = [operation for operation in all_operations() if operation.takes_key]
    changes = {camel_case(view) for operation in declared for view in operation.routes}
    asks_the_game = {name for name, (_, _, op) in OPERATIONS.items() if "202" in op["responses"]}
    others = {"planBatch", "savePlayers", "sendLetter", "undoBatch", "retryBatch", "askForApproval"}
    assert takes == {*changes, *asks_the_game, *others}
    # What stands in an example, the page fills in; and the second try would be the first again.
    assert [name for name in takes if {"example", "examples"} & keys[name].keys()] == []


def test_every_list_whose_size_may_be_reduced_documents_the_warning():
    warned = {
        n for n, (*_, op) in OPERATIONS.items() if "Warning" in op["responses"]["200"]["headers"]
    }
    sized = {n for n, (*_, op) in OPERATIONS.items() if "pageSize" in parameters(op)}
    legacy = {"listPlayersByBody", "listUsersByBody", "listOnlinePlayers", "listObjectsByBody"}
    assert sized | legacy | {"listGlobalVariables", "giveItem"} <= warned
    assert not {"getPlayer", "takeItem"} & warned


def test_every_field_of_an_answer_has_an_example_and_is_always_there():
    for _, _, operation in OPERATIONS.values():
        assert_complete(operation["responses"]["200"]["content"]["application/json"]["schema"])


def assert_complete(schema):
    schema = resolved(schema)
    if schema.get("type") == "array" and "example" not in schema:
        assert_complete(schema["items"])
    elif "properties" in schema:
        # Next is there for those alone who ask for it by after; a player may lack a new field.
        optional = {name for name, part in schema["properties"].items() if "x-optional" in part}
        assert set(schema["required"]) == set(schema["properties"]) - optional
        for part in schema["properties"].values():
            assert_complete(part)
    else:
        assert "example" in schema


def test_the_token_endpoint_is_the_oauth2_password_flow():
    flow = SPEC["components"]["securitySchemes"]["password"]["flows"]["password"]
    path, _, operation = OPERATIONS["createToken"]
    assert flow["tokenUrl"] == path
    content = operation["requestBody"]["content"]
    # Of a second media type, generators make a second body. JSON is accepted, and not documented.
    assert set(content) == {"application/x-www-form-urlencoded"}


def test_deprecated_operations_say_so():
    deprecated = {name: op for name, (_, _, op) in OPERATIONS.items() if op.get("deprecated")}
    assert deprecated.keys() == {"listPlayersByBody", "listUsersByBody", "advanceBatch"}
    for operation in deprecated.values():
        assert {"Deprecation", "Link"} <= set(operation["responses"]["200"]["headers"])


def test_it_speaks_of_nothing_internal():
    names = {
        name
        for kind, schema in SPEC["components"]["schemas"].items()
        # By the version, a game and a receiver of events know whether they have missed a change,
        # a row of a batch tells which one it was judged on, and an error which one there is.
        if kind not in (*SAVES, "Event", "Row", "Failure", "TokenFailure")
        for name in schema["properties"]
    }
    internal = {"_id", "NameKey", "NameTails", "Version", "PasswordHash", "Reset"}
    assert not names & internal


def test_the_examples_are_of_the_demo_world():
    world = World(100, datetime.now(timezone.utc), "hash")
    player = next(player for player in world.players(500) if player["Name"] == examples.PLAYER)
    user = next(user for user in world.users() if user["Name"] == examples.USER)
    assert (player["_id"], player["UserId"]) == (examples.PLAYER_ID, examples.USER_ID)
    assert (user["_id"], user["Email"]) == (examples.USER_ID, examples.EMAIL)
    bags = [slot for slot in player["Inventory"].values() if slot.get("BagId") == examples.BAG]
    assert [slot["ItemId"] for slot in bags] == [examples.BAG_ITEM]
    assert examples.SPELL not in player["Spells"].values()
    assert player["Spells"]["0"] == examples.KNOWN_SPELL
    assert examples.VARIABLE in player["Variables"]
    assert World.PASSWORD == DEMO_PASSWORD_HASH
