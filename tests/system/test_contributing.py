"""The example of CONTRIBUTING.rst, typed as it stands into a copy of the program."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.rst").read_text()
IMPORTS = {
    "app/players/domain.py": "from app.changes import Change",
    "app/players/routes.py": """
from functools import partial
from app.http.intents import answer, keyed_intent
from app.players.domain import set_level
from app.players.schemas import LevelSchema, SetLevelArgs
""",
}
# What a reader of history finds of the change.
READ = """

def test_history_tells_of_it_and_finds_it(client, world, as_role):
    player = world.add_player(Name="Bob", Level=3)
    headers = as_role()
    client.post("/api/v1/players/Bob/level", json={"level": 4}, headers=headers)
    entry = client.get("/api/v1/players/Bob/history", headers=headers).json["Values"][0]
    assert (entry["Operation"], entry["Arguments"]) == ("set-level", {"Level": 4})
    for path in ("/api/v1/history", "/api/v1/players/Bob/history"):
        found = client.get(f"{path}?operation=set-level", headers=headers)
        assert found.status_code == 200, found.json
"""


def typed_blocks():
    """Return what the guide lets one type to add an endpoint, by the first word of each block."""
    section = GUIDE.split("Add an endpoint\n")[1].split("Add a form to the console\n")[0]
    blocks = re.findall(r"::\n\n((?:(?: {7,}.*)?\n)+)", section)
    return [textwrap.dedent(block).strip() + "\n" for block in blocks]


def add(path, text):
    head, rest = path.read_text().split("from __future__ import annotations\n", 1)
    imports = IMPORTS.get(str(path.relative_to(path.parents[2])), "")
    future = "from __future__ import annotations\n"
    path.write_text(f"{head}{future}{imports}\n{rest}\n\n{text}")


def test_an_endpoint_that_is_added_by_the_guide_works(tmp_path):
    rule, schemas, view, operation, *_, test = typed_blocks()
    for name in ("app", "config", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "system")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    for name, block in (("domain", rule), ("schemas", schemas), ("routes", view)):
        add(tmp_path / "app" / "players" / f"{name}.py", block)
    changes = tmp_path / "app" / "changes.py"
    changes.write_text(
        changes.read_text().replace("OPERATIONS = (\n", f"OPERATIONS = (\n{operation}")
    )
    (tmp_path / "tests" / "api" / "test_levels.py").write_text(test + READ)
    options = ["-q", "-p", "no:cacheprovider", "-m", "not mongodb", "tests/api/test_levels.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
