"""docs/contract.rst describes exactly the operations of the OpenAPI document."""

import re
from pathlib import Path

from app.auth.scopes import Scope
from tests.contract_tables import TABLE, made, rows_of
from tests.endpoint_table import DOORS, shape_of
from tests.openapi_document import OPERATIONS, SPEC

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "contract.rst").read_text()
ANCHOR = re.compile(r"\bcontract-[a-z][a-z-]*[a-z]\b")
ROWS = [row for table in TABLE.finditer(TEXT) if table[1] == "no" for row in rows_of(table.group())]


def test_the_tables_are_those_of_the_openapi_document():
    assert made(TEXT) == TEXT, "docs/contract.rst is out of date: run make contract"
    assert sorted(row[0] for row in ROWS) == sorted(OPERATIONS)


def test_the_contract_has_the_roles_and_scopes_that_the_tests_try():
    for _, number, method, path, role, scopes, _ in ROWS:
        door = next(door for door in DOORS if door.shape == (method, shape_of(path.strip("`"))))
        assert set(scopes.split()) == set(door.scopes or ("open",)), path
        assert role == (" ".join(door.roles[1:] or door.roles) or "open"), path
        assert number == door.number.replace("+", ""), path


def test_the_contract_explains_every_scope_and_no_other():
    section = TEXT.split("3.5. Scopes\n")[1].split("\n- ")[0]
    assert re.findall(r"^``([a-z.]+)``  +\S", section, re.M) == [scope.value for scope in Scope]


def test_the_contract_names_every_field_that_is_served():
    literals = " ".join(re.findall(r"``(.+?)``", TEXT, re.DOTALL)) + TEXT.split("::\n\n")[1]
    named = set(re.findall(r"[.\w]+", literals))
    for schema in SPEC["components"]["schemas"].values():
        assert set(schema["properties"]) <= named


def test_tests_refer_to_sections_that_exist():
    anchors = set(re.findall(r"^\.\. _(contract-[\w-]+):$", TEXT, re.M))
    files = [path for folder in ("app", "tests") for path in (ROOT / folder).rglob("*.py")]
    named = {name for path in files for name in ANCHOR.findall(path.read_text())}
    assert named
    assert named <= anchors
    titles = re.findall(r"^(\d+)(?:\.(\d+))?\. .+\n[-~]+$", TEXT, re.M)
    numbers = [(int(chapter), int(section or 0)) for chapter, section in titles]
    assert numbers == sorted(set(numbers))
