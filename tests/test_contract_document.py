"""docs/contract.rst describes exactly the operations of the OpenAPI document."""

from __future__ import annotations

import re
import typing
from pathlib import Path

from app.auth.scopes import Scope
from config.base import Settings
from tests.endpoint_table import DOORS, shape_of
from tests.openapi_document import OPERATIONS, SPEC

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "contract.rst").read_text()
OPERATION = re.compile(
    r"^(\d+|[a-z]{1,2}) +([A-Z]+) +``(\S+)`` +"
    r"([a-z][a-z. ]*?)  +([a-z][a-z. ]*?)(?:  +([\d ]+))?$",
    re.M,
)
# What a row of the other tables says of an endpoint, in one line or several.
DETAILS = re.compile(r"^(\d+|[a-z]{1,2})  +((?:body|query|nothing|a form).*(?:\n    .*)*)", re.M)
ANCHOR = re.compile(r"\bcontract-[a-z][a-z-]*[a-z]\b")
COMMON = {"200", "401", "403", "429", "500", "503"}
OPEN_COMMON = {"200", "403", "429", "500", "503"}
# What the OpenAPI document says of keys at the end of a description.
SCOPES = re.compile(r"Scopes of a key: (.+)\.$|(Not with a key)\.$")
ROWS = [match.groups() for match in OPERATION.finditer(TEXT)]
NUMBERS = {(method, path): number for number, method, path, *_ in ROWS}


def documented():
    """Yield each operation of the OpenAPI document as a row of the contract would have it."""
    for path, method, operation in OPERATIONS.values():
        roles = [role for kind in operation["security"] for role in kind.get("password", ())]
        common = COMMON if roles else OPEN_COMMON
        answers = {status for status in operation["responses"] if status.startswith("2")}
        refused = " ".join(sorted(set(operation["responses"]) - common - answers))
        yield method.upper(), path, frozenset(roles), refused


def contracted():
    for _, method, path, roles, _, refused in ROWS:
        needed = frozenset() if roles == "open" else frozenset({"api", *roles.split()})
        yield method, path, needed, refused or ""


def test_the_contract_has_every_operation_and_no_other():
    rows = list(contracted())
    assert len(rows) == len(set(rows))
    assert sorted(rows, key=str) == sorted(documented(), key=str)


def test_both_pages_say_how_many_operations_were_given_and_added():
    given = sum(number.isdigit() for number, *_ in ROWS)
    added = len(ROWS) - given
    readme = " ".join((ROOT / "README.rst").read_text().split())
    for words in (
        f"all {len(ROWS)} operations",
        f"{given} are the endpoints",
        f"{added} were added",
    ):
        assert words in readme
    assert f"{added} operations have been" in TEXT


def test_the_contract_has_the_scopes_of_every_operation():
    table = {door.shape: door.scopes or ("open",) for door in DOORS}
    described = {(m.upper(), path): told_scopes(op) for path, m, op in OPERATIONS.values()}
    for _, method, path, _, scopes, _ in ROWS:
        assert tuple(scopes.split()) == table[method, shape_of(path)], path
        assert set(scopes.split()) == described[method, path], path


def told_scopes(operation):
    found = SCOPES.search(operation["description"])
    if found is None:
        return {"open"}
    return {"none"} if found[2] else set(found[1].replace("`", "").split(", "))


def test_the_contract_explains_every_scope_and_no_other():
    section = TEXT.split("3.5. Scopes\n")[1].split("\n- ")[0]
    assert re.findall(r"^``([a-z.]+)``  +\S", section, re.M) == [scope.value for scope in Scope]


def test_the_contract_numbers_endpoints_as_the_tests_do():
    numbered = {door.shape: door.number for door in DOORS if door.number != "+"}
    found = {(m, shape_of(p)): n for (m, p), n in NUMBERS.items() if n.isdecimal()}
    assert found == numbered


def test_the_contract_names_the_fields_of_every_request():
    details = dict(DETAILS.findall(TEXT))
    assert len(details) == len(OPERATIONS)
    for path, method, operation in OPERATIONS.values():
        taken = set(re.findall(r"``(\w+)``", details[NUMBERS[method.upper(), path]]))
        wanted = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"}
        wanted |= set(fields_of_body(operation))
        assert taken & {*wanted, *all_fields()} == wanted, path


def fields_of_body(operation):
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from SPEC["components"]["schemas"][content["schema"]["$ref"].split("/")[-1]][
            "properties"
        ]


def all_fields():
    return {name for path, method, op in OPERATIONS.values() for name in fields_of_body(op)}


def test_the_contract_names_every_field_that_is_served():
    literals = " ".join(re.findall(r"``(.+?)``", TEXT, re.DOTALL)) + TEXT.split("::\n\n")[1]
    named = set(re.findall(r"[.\w]+", literals))
    for schema in SPEC["components"]["schemas"].values():
        assert set(schema["properties"]) <= named


def test_the_contract_names_settings_that_exist():
    assert set(re.findall(r"\bQM_(\w+)", TEXT)) <= set(typing.get_type_hints(Settings))


def test_tests_refer_to_sections_that_exist():
    anchors = set(re.findall(r"^\.\. _(contract-[\w-]+):$", TEXT, re.M))
    files = [path for folder in ("app", "tests") for path in (ROOT / folder).rglob("*.py")]
    named = {name for path in files for name in ANCHOR.findall(path.read_text())}
    assert named
    assert named <= anchors
    titles = re.findall(r"^(\d+)(?:\.(\d+))?\. .+\n[-~]+$", TEXT, re.M)
    numbers = [(int(chapter), int(section or 0)) for chapter, section in titles]
    assert numbers == sorted(set(numbers))
