"""docs/contract.rst agrees with the OpenAPI document."""

import re
from pathlib import Path

from app.auth.permissions import OLDER_SCOPES
from tests.contract_tables import CONTRACT, contract, rows_of
from tests.openapi_document import OPERATIONS

ROOT = Path(__file__).parents[1]
TEXT = CONTRACT.read_text()
ANCHOR = re.compile(r"\bcontract-[a-z][a-z-]*[a-z]\b")


def test_the_tables_are_those_of_the_service():
    assert contract(TEXT) == TEXT, "run make contract"


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
