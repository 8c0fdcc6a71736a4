"""docs/contract.rst and docs/operations.rst agree with the OpenAPI document."""

import re
from pathlib import Path

from app.auth.permissions import OLDER_SCOPES
from tests.contract_tables import CONTRACT, LIST, TABLE, contract, operations, rows_of
from tests.endpoint_table import DOORS, shape_of
from tests.openapi_document import OPERATIONS

ROOT = Path(__file__).parents[1]
TEXT = CONTRACT.read_text()
ANCHOR = re.compile(r"\bcontract-[a-z][a-z-]*[a-z]\b")
TABLES = TABLE.finditer(LIST.read_text())
ROWS = [row for table in TABLES if table[1] == "no" for row in rows_of(table.group())]


def test_the_tables_are_those_of_the_openapi_document():
    for page, made in ((CONTRACT, contract), (LIST, operations)):
        text = page.read_text()
        assert made(text) == text, f"{page.name} is out of date: run make contract"
    assert sorted(row[0] for row in ROWS) == sorted(OPERATIONS)


def test_the_list_has_the_roles_and_scopes_that_the_tests_try():
    for _, number, method, path, role, scopes in ROWS:
        door = next(door for door in DOORS if door.shape == (method, shape_of(path.strip("`"))))
        assert set(scopes.split()) == set(door.scopes or ("open",)), path
        assert role == (" ".join(door.roles[1:] or door.roles) or "open"), path
        assert number == door.number.replace("+", ""), path


def test_the_contract_lists_what_older_scopes_mean():
    rows = rows_of(re.search(r"^=+  =+\nname  +permissions\n(?:.+\n)+", TEXT, re.M)[0])
    listed = {name.strip("`"): re.findall(r"``(.+?)``", text) for name, text in rows}
    assert listed == {name: [*meant] for name, meant in OLDER_SCOPES.items()}


def test_the_contract_names_no_operation_that_does_not_exist():
    verbs = {re.match("[a-z]+", name)[0] for name in OPERATIONS}
    words = re.findall(r"``([a-z]+)([A-Z]\w*)``", TEXT)
    named = {verb + rest for verb, rest in words if verb in verbs}
    assert named
    assert named <= set(OPERATIONS)


def test_tests_refer_to_sections_that_exist():
    anchors = set(re.findall(r"^\.\. _(contract-[\w-]+):$", TEXT, re.M))
    files = [path for folder in ("app", "tests") for path in (ROOT / folder).rglob("*.py")]
    named = {name for path in files for name in ANCHOR.findall(path.read_text())}
    assert named
    assert named <= anchors
