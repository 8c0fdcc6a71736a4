"""The Postman collection: kept up to date, and run by the real runner."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from app.http.examples import PLAYER
from tests.openapi_document import OPERATIONS, SPEC
from tests.system.programs import playing, run, wait_until
from tests.tiers import some
from tools.postman import EXAMPLE_LINES, files
from tools.postman_values import MAY_BE_REFUSED

KEPT = Path(__file__).parents[2] / "postman"
COLLECTION, ENVIRONMENT = (
    KEPT / f"quartermaster.postman_{part}.json" for part in ("collection", "environment")
)
NEWMAN = shutil.which("newman")


@pytest.fixture(scope="module")
def collection():
    """The requests of all folders."""
    folders = json.loads(COLLECTION.read_text())["item"]
    return [item for folder in folders for item in folder["item"]]


def test_the_kept_files_are_up_to_date_and_small():
    made = files(SPEC)
    assert {path.name: path.read_text() for path in KEPT.iterdir()} == made, "run make contract"
    assert sum(len(text.splitlines()) for text in made.values()) <= 12_500


def test_the_document_is_written_without_a_database(tmp_path):
    result = run(tmp_path / "data", "openapi", str(tmp_path / "openapi.json"))
    assert result.returncode == 0, result.stderr
    written = json.loads((tmp_path / "openapi.json").read_text())
    assert written["paths"].keys() == SPEC["paths"].keys()
    assert json.loads(run(tmp_path / "data", "openapi").stdout) == written
    assert not (tmp_path / "data").exists()


def test_the_collection_has_each_operation_with_its_headers_a_test_and_one_short_example(
    collection,
):
    endpoints = {(one["request"]["method"], one["request"]["url"]["raw"]) for one in collection}
    assert len(endpoints) == len(OPERATIONS)
    headers = {
        item["name"]: {header["key"] for header in item["request"]["header"]} - {"Content-Type"}
        for item in collection
    }
    assert headers["Give an item to a player"] == {"Idempotency-Key", "X-Reason"}
    assert headers["List players"] == set()
    for item in collection:
        assert any(event["listen"] == "test" for event in item["event"])
        assert len(item["response"]) <= 1
        for example in item["response"]:
            assert example["code"] == 200
            assert len(example["body"].splitlines()) <= EXAMPLE_LINES


@pytest.fixture(scope="module")
def server(serve):
    with serve("--demo", WORKERS="1") as server:
        yield server


def newman(server, folder, *options, **variables):
    """Run the collection, and return the exit code and what the runner counted."""
    report = folder / "report.json"
    given = {"baseUrl": server.base, **variables}
    command = [NEWMAN, "run", COLLECTION, "--environment", ENVIRONMENT]
    command += [part for pair in given.items() for part in ("--env-var", "=".join(pair))]
    command += ["--reporters", "json", "--reporter-json-export", report, *options]
    code = subprocess.run(command, capture_output=True, timeout=120).returncode
    return code, json.loads(report.read_text())["run"]


with_newman = pytest.mark.skipif(
    not NEWMAN, reason="newman is not installed: npm install --global newman"
)


def belongings(server):
    """Return all that the collection's player owns, knows and has done."""
    token = server.sign_in()
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
        "total": 2 * len(collection) + 3 - unanswered,
        "pending": 0,
        "failed": 0,
    }
    assert result["stats"]["items"]["total"] == len(collection)
    assert code == 0


@with_newman
def test_the_whole_collection_passes_while_a_game_runs(server, tmp_path):
    uri, database = (server.settings[f"MONGODB_{name}"] for name in ("URI", "DATABASE"))
    with playing(uri, database, tmp_path / "output.txt", "--pace", "100"):
        wait_until(lambda: server.db.games.find_one({"_id": "world-1"}))
        code, result = newman(server, tmp_path)
    failures = [(one["source"]["name"], one["error"]["message"]) for one in result["failures"]]
    assert (failures, code) == ([], 0)


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
