"""The examples of CONTRIBUTING.rst, typed as they stand into a copy of the program."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.rst").read_text()
BEFORE = '"Face": Field(TEXT, "ranger.png", ""),\n'
FUTURE = "from __future__ import annotations\n"
# What else there is of an operation that was declared: history, undo, batches and a form.
OTHERS = """

import pytest

from tests.console_visitor import page_of, visitor

PORTRAIT = "players/Eve/portrait"


@pytest.fixture(autouse=True)
def eve(world):
    return world.add_player(Name="Eve", Portrait="fox.png")


def portrait_of(staff):
    return staff("GET players/Eve").json.get("Portrait")


def test_history_tells_of_it_and_finds_it(staff):
    staff(f"POST {PORTRAIT}", {"Portrait": "owl.png"})
    (entry,) = staff("GET players/Eve/history?operation=set-portrait").json["Values"]
    assert entry["Arguments"] == {"Portrait": "owl.png"}


def test_it_is_undone_and_made_again(staff):
    staff(f"POST {PORTRAIT}", {})
    for portrait in ("fox.png", None):
        entry = staff("GET players/Eve/history").json["Values"][0]
        staff(f"POST history/{entry['Id']}/undo")
        assert portrait_of(staff) == portrait


def test_a_batch_does_it(staff):
    row = {"Player": "Eve", "Operation": "set-portrait", "Portrait": "owl.png"}
    batch = staff("POST batches", {"Rows": [row]}).json
    assert staff(f"POST batches/{batch['Id']}/advance").json["Done"] == 1
    assert portrait_of(staff) == "owl.png"


def test_a_form_does_it_and_the_page_shows_it(app, world, staff):
    browser = visitor(app, world)
    page = browser.get("/players/Eve")
    assert "Portrait fox.png" in page_of(page)
    assert 'value="fox.png"' in page.text
    assert browser.post("/players/Eve/set-portrait", Portrait="owl.png").status_code == 303
    assert portrait_of(staff) == "owl.png"
    assert browser.post("/players/Eve/set-portrait", Portrait="").status_code == 303
    assert portrait_of(staff) is None
"""
MAKE_TABLES_AND_TEST = """
import runpy, sys
import pytest
for tables in ("contract_tables", "permission_tables"):
    runpy.run_module(f"tests.{tables}", run_name="__main__")
files = ("api/test_portraits_of_players", "api/test_openapi", "test_contract_document")
files += ("test_staff_document",)
files += ("domain/test_operations", "test_game_document", "test_architecture")
options = ["-q", "-p", "no:cacheprovider", "-m", "not mongodb"]
sys.exit(pytest.main([*options, *(f"tests/{name}.py" for name in files)]))
"""


PORTRAITS = """
import pytest
from pymongo.errors import WriteError

from app.storage.schema.migrations import derive_portraits
from tests.mongod import on_mongodb

pytestmark = on_mongodb


def test_a_game_that_does_not_know_the_field_goes_on(world):
    world.add_player()
    world.add_player(Portrait="fox.png")
    with pytest.raises(WriteError):
        world.add_player(Portrait=5)


def test_the_step_can_be_repeated(world, db):
    world.add_player(Sprite="fox.png")
    for _ in range(2):
        derive_portraits(db)
        assert db.players.find_one()["Portrait"] == "fox.png"
"""


def typed_blocks(begin="Add an endpoint", end="Add a form to the console"):
    """Return what a section of the guide lets one type, in its order."""
    section = GUIDE.split(f"{begin}\n")[1].split(f"{end}\n")[0]
    blocks = re.findall(r"::\n\n((?:(?: {7,}.*)?\n)+)", section)
    return [textwrap.dedent(block).strip() + "\n" for block in blocks]


def type_into(path, after, text):
    head, found, rest = path.read_text().partition(after)
    assert found
    path.write_text(f"{head}{found}{text}{rest}")


def copy_program(folder):
    for name in ("app", "config", "docs", "tests"):
        # With what is compiled already: to compile all of it takes seconds.
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "setup.cfg", folder)


def run_tests(folder, *files):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.everything
def test_an_endpoint_that_is_added_by_the_guide_works(tmp_path):
    field, change, form, table, test, _ = typed_blocks()
    copy_program(tmp_path)
    players = tmp_path / "app" / "players"
    type_into(players / "domain.py", BEFORE, field)
    character = players / "character.py"
    imports = "from app.core.changes import ABSENT\nfrom app.http.fields import PlainText\n"
    type_into(character, FUTURE, imports)
    character.write_text(f"{character.read_text()}\n\n{change}")
    views = tmp_path / "app" / "console" / "players" / "views.py"
    type_into(views, FUTURE, "from app.players.character import SET_PORTRAIT\n")
    type_into(views, 'FORMS = {\n    "items": (\n', form)
    row, body = table.strip().split("\n\n")
    type_into(tmp_path / "tests" / "endpoint_table.py", 'TABLE = """\n', f"{row}\n")
    type_into(tmp_path / "tests" / "endpoint_table.py", "BODIES = {\n", body.strip())
    (tmp_path / "tests" / "api" / "test_portraits_of_players.py").write_text(
        f"{FUTURE}\n{test}{OTHERS}"
    )
    done = subprocess.run(
        [sys.executable, "-c", MAKE_TABLES_AND_TEST], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.everything
def test_a_migration_that_is_added_by_the_guide_works(tmp_path):
    field, step, name = typed_blocks()[0], *typed_blocks("Add a migration", "Commits")
    copy_program(tmp_path)
    type_into(tmp_path / "app" / "players" / "domain.py", BEFORE, field)
    steps = tmp_path / "app" / "storage" / "schema" / "migrations.py"
    text = steps.read_text().replace("]\nCURRENT", f"    {name}]\nCURRENT")
    steps.write_text(text.replace("STEPS: list", f"{step}\n\nSTEPS: list"))
    (tmp_path / "tests" / "api" / "test_portraits.py").write_text(PORTRAITS)
    migrations = tmp_path / "tests" / "api" / "test_migrations.py"
    refused = run_tests(
        tmp_path, f"{migrations}::test_what_is_asked_of_a_database_changes_with_its_version"
    )
    planned = re.search(r"assert (\(\d+, '\w+'\)) ==", refused.stdout)
    assert planned, refused.stdout
    text = re.sub("PLANNED = .*", f"PLANNED = {planned[1]}", migrations.read_text())
    migrations.write_text(text)
    files = (migrations, "tests/api/test_portraits.py", "tests/test_game_document.py")
    subprocess.run([sys.executable, "-m", "tests.contract_tables"], cwd=tmp_path, check=True)
    done = run_tests(tmp_path, *files)
    assert done.returncode == 0, done.stdout + done.stderr
