"""docs/examples/game.js, beside the service, with Node.js and the driver of npm."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from app.core.permissions import Role
from tests.factories import moment

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NODE, NPM = shutil.which("node"), shutil.which("npm")


def modules():
    """Return the folder of packages that are installed globally, or the one that is set."""
    if NODE is None or NPM is None:
        return None
    if folder := os.environ.get("NODE_PATH"):
        return Path(folder)
    found = subprocess.run([NPM, "root", "--global"], capture_output=True, text=True)
    return Path(found.stdout.strip())


MODULES = modules()
pytestmark = pytest.mark.skipif(
    MODULES is None or not (MODULES / "mongodb").is_dir(),
    reason="mongodb is not installed: npm install --global mongodb@6",
)


def node(*arguments):
    environment = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(
        [NODE, *arguments], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def backend_uri(real_db, mongodb_uri):
    return mongodb_uri


def test_what_the_game_writes_is_what_the_service_serves(mongodb_uri, app, caller, world):
    service = caller("/api/v1/", Role.API)
    player_id = node(str(EXAMPLES / "game.js"), mongodb_uri)
    stored = world.db.players.find_one({"_id": player_id})
    assert (stored["Exp"], stored["X"], stored["Version"]) == (3_000_000_000, 0, 2)
    assert {type(stored[name]) for name in ("X", "Level")} <= {int, type(stored["Exp"])}
    record = service(f"GET players/{stored['Name'].replace('ß', 'SS')}").json
    assert (record["Id"], record["Exp"], record["Online"]) == (player_id, 3_000_000_000, True)
    (event,) = service(f"GET players/{player_id}/events").json["Values"]
    assert (event["Kind"], moment(event["At"]).year > 2000) == ("drop", True)
    service(f"POST players/{player_id}/items/give-back", {"event": event["Id"]})
    (slot, *_) = service(f"GET players/{player_id}/items/inventory").json
    assert (slot["Quantity"], slot["StatBuffs"]) == (1, [3, 0, 0, 0, 1])


def test_its_name_keys_are_those_of_the_service():
    script = f"""
        const game = require({json.dumps(str(EXAMPLES / "game.js"))});
        const names = require({json.dumps(str(EXAMPLES / "name_keys.json"))}).Names;
        console.log(JSON.stringify(names.filter(({{Name, Key, Tails}}) =>
          game.nameKey(Name) !== Key ||
          game.nameTails(Key).join("\\n") !== Tails.join("\\n"))));
    """
    assert node("-e", script) == "[]"


def test_whole_numbers_are_longs():
    whole = f"require({json.dumps(str(EXAMPLES / 'game.js'))}).whole"
    numbers = "[-0, 3e9, -3e9, 9007199254740993n]"
    script = f"console.log({numbers}.map((number) => String({whole}(number))).join())"
    assert node("-e", script) == "0,3000000000,-3000000000,9007199254740993"
    with pytest.raises(AssertionError, match="not a whole number"):
        node("-e", f"{whole}(1.5)")
