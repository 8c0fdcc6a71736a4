"""The Postman collection: kept up to date, and run by the real runner."""

import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from app.cli.apidocs import COLLECTION, ENVIRONMENT
from app.openapi.examples import PLAYER
from app.openapi.postman_values import MAY_BE_REFUSED
from tests.openapi_document import OPERATIONS, SPEC
from tests.system.programs import run
from tests.tiers import some

KEPT = Path(__file__).parents[2] / "postman"
NEWMAN = shutil.which("newman")


def requests_of(collection):
    return [item for folder in collection["item"] for item in folder["item"]]


@pytest.fixture(scope="module")
def collection():
    return json.loads((KEPT / COLLECTION).read_text())


def test_the_kept_files_are_up_to_date(tmp_path):
    result = run(tmp_path / "data", "postman", str(tmp_path))
    assert result.returncode == 0, result.stderr
    for name in (COLLECTION, ENVIRONMENT):
        kept, made = (KEPT / name).read_text(), (tmp_path / name).read_text()
        assert kept == made, "postman/ is out of date: run quartermaster postman"
    assert not (tmp_path / "data").exists()


def test_the_document_is_written_without_a_database(tmp_path):
    result = run(tmp_path / "data", "openapi", str(tmp_path / "openapi.json"))
    assert result.returncode == 0, result.stderr
    written = json.loads((tmp_path / "openapi.json").read_text())
    assert written["paths"].keys() == SPEC["paths"].keys()
    assert json.loads(run(tmp_path / "data", "openapi").stdout) == written
    assert not (tmp_path / "data").exists()


def test_the_folders_hold_all_operations(collection):
    tags = Counter(operation["tags"][0] for _, _, operation in OPERATIONS.values())
    # A token is asked for in two ways.
    counts = {folder["name"]: len(folder["item"]) for folder in collection["item"]}
    assert counts == {**tags, "Credentials": tags["Credentials"] + 1}
    requests = [item["request"] for item in requests_of(collection)]
    endpoints = {(request["method"], request["url"]["raw"]) for request in requests}
    assert len(endpoints) == len(OPERATIONS)


def test_headers_are_sent_where_they_are_documented(collection):
    sent = {
        item["name"]: {header["key"] for header in item["request"]["header"]} - {"Content-Type"}
        for item in requests_of(collection)
    }
    assert sent["Give an item to a player"] == {"Idempotency-Key", "X-Reason"}
    assert sent["Register a user"] == {"X-Reason"}
    assert sent["List players"] == set()


def test_every_request_has_saved_answers_and_tests(collection):
    for item in requests_of(collection):
        assert any(event["listen"] == "test" for event in item["event"])
        if item["name"] != "Refresh an access token":
            saved = {answer["code"] for answer in item["response"]}
            assert 200 in saved
            assert len(saved) > 1


@pytest.fixture(scope="module")
def server(serve):
    with serve("--demo", WORKERS="1") as server:
        yield server


def newman(server, folder, *options, **variables):
    """Run the collection, and return the exit code and what the runner counted."""
    report = folder / "report.json"
    given = {"baseUrl": server.base, **variables}
    command = [NEWMAN, "run", KEPT / COLLECTION, "--environment", KEPT / ENVIRONMENT]
    command += [part for pair in given.items() for part in ("--env-var", "=".join(pair))]
    command += ["--reporters", "json", "--reporter-json-export", report, *options]
    code = subprocess.run(command, capture_output=True, timeout=120).returncode
    return code, json.loads(report.read_text())["run"]


with_newman = pytest.mark.skipif(
    not NEWMAN, reason="newman is not installed: npm install --global newman"
)


def belongings(server):
    """Return all that the collection's player owns, knows and has done."""
    token = server.command("token", "demo")
    path = f"/api/v1/players/{PLAYER}"
    return [
        server.json("GET", f"{path}/{part}", token=token)
        for part in ("items", "spells", "variables")
    ]


@with_newman
@pytest.mark.parametrize("time", some(["first", "second"], 1))
def test_the_whole_collection_passes_twice_in_a_row(server, collection, tmp_path, time):
    before = belongings(server)
    code, result = newman(server, tmp_path)
    assert belongings(server) == before
    assert result["failures"] == []
    # Of the three changes that were undone, a run also sees that they were. No game runs and
    # nobody has a second factor, so the shape of these answers is not looked at; but the run
    # answers an action itself.
    unanswered = len(MAY_BE_REFUSED - {"answerAction"})
    assert result["stats"]["assertions"] == {
        "total": 2 * len(requests_of(collection)) + 3 - unanswered,
        "pending": 0,
        "failed": 0,
    }
    assert result["stats"]["items"]["total"] == len(requests_of(collection))
    assert code == 0


@pytest.mark.everything
@with_newman
def test_the_collection_fails_where_the_answers_are_others(server, tmp_path):
    code, result = newman(server, tmp_path, "--folder", "Players", player="Nobody")
    failed = {failure["source"]["name"] for failure in result["failures"]}
    assert code == 1
    assert "Get one player" in failed
    assert "List players" not in failed


@pytest.mark.everything
@with_newman
def test_the_token_is_refreshed_before_it_expires(tmp_path, serve):
    with serve("--demo", ACCESS_TOKEN_SECONDS="5") as server:
        _, result = newman(server, tmp_path, "--folder", "Players", "--delay-request", "350")
    assert result["failures"] == []


@pytest.mark.everything
@with_newman
def test_a_key_is_used_instead_of_the_password(server, tmp_path):
    scopes = ("players.read", "players.change", "users.change", "history.read", "history.undo")
    scopes += ("game.act",)
    key = server.command("key", "create", "demo", "postman", *scopes)
    code, result = newman(
        server, tmp_path, "--folder", "Players", key=key, username="nobody", password="wrong"
    )
    assert result["failures"] == []
    assert code == 0
