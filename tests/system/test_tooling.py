"""The worked example of docs/tooling.rst, run as its reader would, at a real server."""

import csv
import io
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pytest

from tests.factories import guid, make_player
from tests.system import fork_server
from tests.system.programs import WITH_CTRL_C, wait_until
from tests.system.tcp_proxy import DROP, LOSE, TcpProxy

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "give_items.py"
BATCHES = DOCS / "examples" / "run_batch.py"
SCOPES = ("players.read", "players.change")
NOTHING_TWICE = "Run it again when that is mended: no row is done twice.\n"
AGAIN = "Run it again when that is mended: nothing is given twice.\n"
DIFFICULT = "Zoë 100% ?#&"


@pytest.fixture(scope="module")
def server(serve):
    with (
        serve("--demo", WORKERS="1", AUTH_CACHE_SECONDS="0") as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("QUARTERMASTER_KEY", make_key(server, "shop"))
        yield server


def make_key(server, name, *scopes):
    """Create a key as the page does."""
    return server.command("key", "create", "demo", name, *(scopes or SCOPES))


@pytest.fixture
def crowd(server):
    """A dozen players who own nothing, one of them with a name that paths do not like."""
    players = [make_player() for _ in range(11)] + [make_player(Name=DIFFICULT)]
    server.db.players.insert_many(players)
    yield players
    server.db.players.delete_many({"_id": {"$in": [player["_id"] for player in players]}})


def tool(server, *arguments, key=None, example=EXAMPLE):
    command = [str(example), "--url", server.base, *arguments]
    env = {**os.environ, "QUARTERMASTER_KEY": key or os.environ["QUARTERMASTER_KEY"]}
    return fork_server.run(command, env, timeout=600)


@pytest.fixture
def write(tmp_path):
    def write(*rows, name="gifts.csv", columns=("player", "item", "quantity")):
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([columns, *rows])
        return str(path)

    return write


def proxied(server, faults=(), delay=0.0):
    """Return a proxy in front of the server; after its faults, it only passes on."""
    return closing(TcpProxy(server.port, delay, faults))


def assert_each_has(server, players, item, quantity):
    for player in server.db.players.find({"_id": {"$in": [one["_id"] for one in players]}}):
        slots = player["Inventory"].values()
        held = sum(slot["Quantity"] for slot in slots if slot["ItemId"] == item)
        assert held == quantity, player["Name"]


def gives(proxy):
    """Return how often each give was sent."""
    return Counter(path for path, _, _ in proxy.seen if path.endswith("/give"))


def test_the_list_holds_every_player_once(server, crowd):
    result = tool(server, "list")
    assert (result.returncode, result.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    known = {player["_id"]: player["Name"] for player in server.db.players.find({}, ["Name"])}
    assert len(rows) == len(known) == 512
    assert {row["player"]: row["name"] for row in rows} == known


def test_gifts_are_given_once_however_often_the_tool_runs(server, crowd, write):
    item = guid()
    rows = [(player["Name"], item, 3) for player in crowd]
    # Two equal rows are two gifts, as somebody meant them to be.
    file = write(*rows, *rows[:2])
    first, second = tool(server, "give", file), tool(server, "give", file)
    assert (first.returncode, first.stdout) == (0, "14 given, 0 given before, 0 refused.\n")
    assert (second.returncode, second.stdout) == (0, "0 given, 14 given before, 0 refused.\n")
    assert first.stderr == second.stderr == ""
    assert_each_has(server, crowd[:2], item, 6)
    assert_each_has(server, crowd[2:], item, 3)


def test_rows_may_be_added_and_moved_and_another_file_is_another_occasion(server, crowd, write):
    item = guid()
    rows = [(player["_id"], item, 3) for player in crowd[:6]]
    tool(server, "give", write(*rows[:4]))
    upper = [(player.upper(), item.upper(), quantity) for player, item, quantity in rows]
    again = tool(server, "give", write(*reversed(upper)))
    assert again.stdout == "2 given, 4 given before, 0 refused.\n"
    assert_each_has(server, crowd[:6], item, 3)
    assert tool(server, "give", write(*rows, name="may.csv")).stdout.startswith("6 given")
    assert_each_has(server, crowd[:6], item, 6)


def test_what_is_refused_is_told_and_not_repeated_and_the_rest_is_given(server, crowd, write):
    item, full = guid(), crowd[3]
    slots = {str(slot): {"ItemId": guid(), "Quantity": 1} for slot in range(35)}
    server.db.players.update_one({"_id": full["_id"]}, {"$set": {"Inventory": slots}})
    names = ["Nobody", *(player["Name"] for player in crowd)]
    file = write(*((name, item, 1) for name in names), (crowd[0]["Name"], "sword", 1))
    with proxied(server) as proxy:
        result = tool(proxy, "give", file)
    assert result.returncode == 1
    said = result.stdout.splitlines()
    assert said.pop(1).startswith(f"line 6, {full['Name']}: ")
    assert said == [
        "line 2, Nobody: No player with name 'Nobody'.",
        f"line 15, {crowd[0]['Name']}: The field 'itemid' must be a guid.",
        "11 given, 0 given before, 3 refused.",
    ]
    assert max(gives(proxy).values()) == 2  # once for each row; the first player has two
    others = [player for player in crowd if player is not full]
    assert_each_has(server, others, item, 1)
    server.db.players.update_one({"_id": full["_id"]}, {"$unset": {"Inventory.5": 1}})
    again = tool(server, "give", file)
    assert again.stdout.endswith("\n1 given, 11 given before, 2 refused.\n")
    assert_each_has(server, crowd, item, 1)


def test_a_key_goes_with_every_request_and_a_gift_says_why_it_was_given(server, crowd, write):
    file = write((crowd[0]["_id"], guid(), 1), name="Ostern ä.csv")
    with proxied(server) as proxy:
        assert tool(proxy, "give", file).returncode == 0
    path = f"/api/v1/players/{crowd[0]['_id']}"
    # Nobody signs in.
    assert [path for path, _, _ in proxy.seen] == [path, f"{path}/items/give"]
    assert server.db.history.find_one({"Subject.Id": crowd[0]["_id"]})["Reason"] == "Ostern ä.csv"


def test_a_401_ends_the_tool_and_the_next_key_goes_on(server, crowd, write):
    item = guid()
    file = write(*((player["_id"], item, 1) for player in crowd[:3]))
    with proxied(server, [*[None] * 4, 401]) as proxy:
        result = tool(proxy, "give", file)
    assert (result.returncode, result.stdout) == (1, "1 given, 0 given before, 0 refused.\n")
    assert result.stderr == f"Not now. The key is unknown, expired or revoked.\n{AGAIN}"
    assert len(gives(proxy)) == 2
    again = tool(server, "give", file, key=make_key(server, "another"))
    assert again.stdout == "2 given, 1 given before, 0 refused.\n"
    assert_each_has(server, crowd[:3], item, 1)


def faults(seed):
    """Yield what goes wrong: often, but never so often in a row that a tool should give up."""
    rng, row = random.Random(seed), 0
    while True:
        fault = rng.choice((503, 429, DROP, LOSE, LOSE, None, None, None, None))
        row = row + 1 if fault else 0
        yield fault if row < 3 else None


def test_whatever_happens_on_the_way_everything_is_given_once(server, crowd, write):
    item = guid()
    file = write(*((player["Name"], item, 2) for player in crowd))
    with proxied(server, faults(seed=1)) as proxy:
        result = tool(proxy, "give", file)
        listed = tool(proxy, "list")
    assert result.returncode == listed.returncode == 0, result.stdout + result.stderr
    assert {503, 429, DROP, LOSE} <= {fault for _, _, fault in proxy.seen}
    assert max(gives(proxy).values()) > 1
    assert_each_has(server, crowd, item, 2)
    assert len(listed.stdout.splitlines()) == 513


def test_a_service_that_stays_away_is_given_up_on_in_a_sentence(server, crowd, write, tmp_path):
    impatient = tmp_path / "give_items.py"
    impatient.write_text(EXAMPLE.read_text().replace("Retry(8,", "Retry(1,"))
    file = write(*((player["_id"], guid(), 1) for player in crowd))
    with proxied(server, [*[None] * len(crowd), None, *[503] * 99]) as proxy:
        result = tool(proxy, "give", file, example=impatient)
    assert (result.returncode, result.stdout) == (1, "1 given, 0 given before, 0 refused.\n")
    assert "503" in result.stderr
    assert result.stderr.endswith(f"\n{AGAIN}")
    assert "Traceback" not in result.stderr


def test_a_bad_file_is_refused_before_anything_is_sent(server, write, tmp_path):
    good = ("Bob", guid(), 1)
    with proxied(server) as proxy:
        for bad in (
            ("Bob", guid(), "1.5"),
            ("Bob", guid()),
            ("", guid(), 1),
            ("Bob", guid(), "-1"),
        ):
            result = tool(proxy, "give", write(good, bad))
            assert (result.returncode, result.stdout) == (1, "")
            assert result.stderr.startswith("Line 3 needs player, item and a whole quantity.\n")
        vast = tool(proxy, "give", write(("x" * 200_000, guid(), 1)))
        assert "field larger than field limit" in vast.stderr
        assert "No such file" in tool(proxy, "give", str(tmp_path / "missing.csv")).stderr
    assert proxy.seen == []


@pytest.fixture
def write_batch(write):
    def write_batch(names, item):
        columns = ("Player", "Operation", "ItemId", "Quantity")
        return write(*((name, "give", item, 1) for name in names), name="may.csv", columns=columns)

    return write_batch


def test_a_batch_is_planned_once_looked_at_run_and_undone(server, crowd, write_batch):
    key = make_key(server, "batches", *SCOPES, "history.undo")
    batch_tool = partial(tool, server, example=BATCHES, key=key)
    item = guid()
    file = write_batch([*(player["Name"] for player in crowd), "Nobody"], item)
    first, second = batch_tool("plan", file), batch_tool("plan", file)
    refused, told = first.stdout.splitlines()
    assert refused == "row 13, Nobody: No player with name 'Nobody'."
    batch = told.split()[0]
    assert told == f"{batch} is planned: 12 ready, 0 done, 1 refused."
    assert (first.returncode, first.stderr, second.stdout) == (1, "", first.stdout)
    assert_each_has(server, crowd, item, 0)
    done = batch_tool("run", batch)
    assert done.stdout.splitlines()[-1] == f"{batch} is done: 0 ready, 12 done, 1 refused."
    assert_each_has(server, crowd, item, 1)
    assert server.db.batches.find_one({"_id": batch})["Reason"] == "may.csv"
    undo = batch_tool("undo", batch)
    assert undo.stdout.endswith(" is planned: 12 ready, 0 done, 0 refused.\n")
    assert batch_tool("run", undo.stdout.split()[0]).returncode == 0
    assert_each_has(server, crowd, item, 0)


def test_a_batch_that_is_interrupted_goes_on_and_does_nothing_twice(server, crowd, write_batch):
    item, times = guid(), 20
    file = write_batch([player["Name"] for player in crowd] * times, item)
    planned = tool(server, "plan", file, example=BATCHES)
    batch = planned.stdout.split()[0]
    # Somebody else has it for now, so that it does not come to its end before.
    lease = {"Id": "another", "Until": datetime(2100, 1, 1, tzinfo=timezone.utc)}
    server.db.batches.update_one({"_id": batch}, {"$set": {"Lease": lease}})
    command = [*WITH_CTRL_C, sys.executable, str(BATCHES), "--url", server.base, "run", batch]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        wait_until(lambda: server.db.batches.find_one({"_id": batch, "State": {"$ne": "planned"}}))
        running.send_signal(signal.SIGINT)
        try:
            output, errors = running.communicate(timeout=120)
        finally:
            running.kill()
    assert running.returncode == 130, output + errors
    assert errors == "Paused. Run it again to go on: no row is done twice.\n"
    assert f"{batch} is paused: " in output
    server.db.batches.update_one({"_id": batch}, {"$unset": {"Lease": ""}})
    again = tool(server, "run", batch, example=BATCHES)
    assert again.stdout == f"{batch} is done: 0 ready, {12 * times} done, 0 refused.\n"
    assert again.returncode == 0
    assert_each_has(server, crowd, item, times)
    assert tool(server, "cancel", batch, example=BATCHES).stderr.endswith(NOTHING_TWICE)


def test_every_excerpt_on_the_page_stands_in_the_file():
    page, source = (DOCS / "tooling.rst").read_text(), EXAMPLE.read_text() + BATCHES.read_text()
    for example in (EXAMPLE.name, BATCHES.name):
        assert f"`docs/examples/{example} <examples/{example}>`_" in page
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", page, re.MULTILINE)
    assert len(blocks) > 3
    for block in blocks:
        excerpt = textwrap.dedent(block).strip("\n")
        assert any(
            f"\n{textwrap.indent(excerpt, ' ' * depth)}\n" in source for depth in (0, 4, 8, 12)
        ), f"no example holds this: {excerpt}"
