"""schemathesis, with every check on, against real gunicorn and real MongoDB."""

import pytest
from pymongo import MongoClient

from tests.openapi_document import OPERATIONS
from tests.system.fuzz import fuzz, fuzzable, summed_up

# All there are but one, object_level_authorization, of which not every version knows: it is about
# records that belong to one caller alone, and here what a caller may do goes by roles.
CHECKS = {
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_headers_conformance", "response_schema_conformance", "negative_data_rejection"),
    *("positive_data_acceptance", "missing_required_header", "unsupported_method"),
    *("allow_header_conformance", "use_after_free", "ensure_resource_availability"),
    "ignored_auth",
}


@pytest.fixture(scope="module")
def summary(tmp_path_factory, mongodb_uri):
    folder = tmp_path_factory.mktemp("fuzz")
    with fuzzable(folder, mongodb_uri) as server:
        yield fuzz(server, 2, folder)
    with MongoClient(mongodb_uri) as client:
        client.drop_database("fuzz")


@pytest.mark.everything
def test_it_finds_nothing(summary):
    assert summary.findings == [], summary.output


@pytest.mark.everything
def test_it_tries_every_operation_and_every_check(summary):
    operations = {f"{method.upper()} {path}" for path, method, _ in OPERATIONS.values()}
    assert operations <= set(summary.cases)
    assert [operation for operation in operations if summary.cases[operation] < 4] == []
    assert set(summary.checks) >= CHECKS
    assert summary.cases.total() > 40 * len(operations)


@pytest.mark.everything
def test_it_gets_past_the_door_and_to_what_the_service_does(summary):
    assert summary.statuses[200] > 500
    assert {400, 401, 403, 404, 405, 409, 415} <= set(summary.statuses)
    assert not any(status >= 500 or status == 0 for status in summary.statuses)


def test_a_failed_check_is_a_finding():
    failure = {"operation": "GET /x", "message": "It\nburns."}
    checks = [
        {"name": "calm", "status": "success"},
        {"name": "fire", "status": "failure", "failure_info": {"failure": failure}},
    ]
    recorded = {"label": "GET /x", "checks": {"1": checks}}
    event = {"ScenarioFinished": {"phase": "fuzzing", "recorder": recorded}}
    assert summed_up([event], "").findings == ["fire: GET /x: It burns."]
