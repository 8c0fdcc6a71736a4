"""Documents agree with the OpenAPI document, the errors and the settings of the service."""

import re

from tests.contract_tables import (
    COLLECTIONS,
    CONTRACT,
    ERRORS,
    OPERATING,
    collections,
    contract,
    errors,
    operating,
)
from tests.openapi_document import OPERATIONS

TEXT = CONTRACT.read_text()


def test_the_tables_are_those_of_the_service():
    assert contract(TEXT) == TEXT, "run make contract"
    assert collections(COLLECTIONS.read_text()) == COLLECTIONS.read_text(), "run make contract"
    assert errors(ERRORS.read_text()) == ERRORS.read_text(), "run make contract"
    assert operating(OPERATING.read_text()) == OPERATING.read_text(), "run make contract"


def test_the_contract_names_no_operation_that_does_not_exist():
    verbs = {re.match("[a-z]+", name)[0] for name in OPERATIONS}
    words = re.findall(r"``([a-z]+)([A-Z]\w*)``", TEXT)
    named = {verb + rest for verb, rest in words if verb in verbs}
    assert named
    assert named <= set(OPERATIONS)
