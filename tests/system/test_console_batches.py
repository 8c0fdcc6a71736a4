"""Batches in a real browser: planned, looked at, run and undone, with scripts and without."""

from datetime import datetime, timezone

import pytest

from app.demo.names import guid
from tests.system.conftest import with_scripts
from tests.system.console import Demo
from tests.system.programs import wait_until

TONIC, TONIC_ID = "Perfect Tonic of Stone", guid("item", "Perfect Tonic of Stone")
PLAYERS = [Demo("player", number) for number in range(20, 26)]
SOME = 10
FAR = datetime(2100, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def file(tmp_path):
    """Return a maker of CSV files, which gives each of some names a tonic."""

    def write(names):
        path = tmp_path / "batch.csv"
        rows = [f"{name},give,{TONIC_ID},2\n" for name in names]
        path.write_text("Player,Operation,ItemId,Quantity\n" + "".join(rows))
        return str(path)

    return write


def plan_file(console, path, **fields):
    console.open("/batches/new?kind=file")
    console.one("#file-file").send_keys(path)
    console.send("file", **fields)


def batch_of(console):
    """Return the id of the batch whose page is open."""
    return console.path.partition("?")[0].rpartition("/")[2]


def run(console, demo):
    """Press the button, wait until the batch is done, and look again."""
    console.one("details.run > summary").click()
    console.press("#form-run .do")
    assert console.notice == "The batch was started."
    batch = batch_of(console)
    wait_until(lambda: demo.db.batches.find_one({"_id": batch})["State"] == "done")
    console.open(f"/batches/{batch}")
    assert "done" in console.text("#progress h2")


def tonics(api, player):
    slots = api.get(f"players/{player.id}/items/inventory")
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == TONIC_ID)


def test_a_file_is_planned_looked_at_run_and_undone(console, demo, api, file):
    before = [tonics(api, player) for player in PLAYERS]
    names = [player.name for player in PLAYERS]
    plan_file(console, file([*names, "The Nobody"]), Name="Gifts", reason="Ticket 4711")
    assert console.text("h1") == "Gifts"
    assert len(console.all("table.plan tbody tr")) == len(PLAYERS) + 1
    console.press(".warning a")
    assert console.texts("table.plan tbody td:nth-child(2)") == ["The Nobody"]
    assert "No player with name 'The Nobody'." in console.text("table.plan tbody")
    console.one("details.run > summary").click()
    assert console.text(".question") == f"Give 2 × {TONIC} to {len(PLAYERS)} players?"
    assert [tonics(api, player) for player in PLAYERS] == before
    console.one("details.run > summary").click()
    run(console, demo)
    assert console.text(".n-done b") == str(len(PLAYERS))
    assert [tonics(api, player) for player in PLAYERS] == [count + 2 for count in before]
    console.send("undo-batch", reason="Wrong item")
    assert console.text("h1") == "Undo of Gifts"
    assert f"\N{MINUS SIGN}2 {TONIC}" in console.text("table.plan tbody")
    run(console, demo)
    assert [tonics(api, player) for player in PLAYERS] == before


def test_a_list_of_players_is_planned_and_cancelled(console):
    console.open("/batches/new")
    console.fill("players", itemid=TONIC, quantity="3", Name="For some")
    console.enter("#players-players", "\n".join(player.name for player in PLAYERS))
    console.press("#form-players > .do")
    assert "6 players" in console.text("dl.facts-list")
    console.enter("#filter-player", PLAYERS[0].name)
    console.press(".plan-rows .filters button")
    assert console.texts("table.plan tbody td:nth-child(2)") == [PLAYERS[0].name]
    console.send("cancel")
    assert console.notice == "The batch was cancelled."
    console.open("/batches")
    assert "cancelled 0 of 6 done" in console.text(".batches tbody tr")


def test_a_search_becomes_a_batch_what_was_spent_is_missing_and_the_rest_is_tried(
    console, demo, api
):
    player = PLAYERS[0]
    before = tonics(api, player)
    console.open(f"/players?search={player.name}")
    console.press("a[href*='kind=found']")
    console.send("found", itemid=TONIC, quantity="5")
    assert console.text("h1") == f"Give 5 × {TONIC} to 1 player"
    run(console, demo)
    gifts = batch_of(console)
    api.post(f"players/{player.id}/items/take", itemid=TONIC_ID, quantity=before + 3)
    console.one("#form-undo-batch [name=Partial]").click()
    console.send("undo-batch")
    assert f"3 of 5 of the item {TONIC} cannot be taken back" in console.text("table.plan tbody")
    run(console, demo)
    assert tonics(api, player) == 0
    # From the change to its batch, and there to its row.
    console.open(f"/players/{player.id}/history")
    console.press("table.entries .via a[href*='/batches/']")
    assert console.texts("table.plan tbody td:nth-child(2)") == [player.name]
    console.open(f"/batches/{gifts}")
    console.send("undo-batch")
    assert "already undone" in console.text("table.plan tbody")
    console.press("#form-retry button")
    assert console.text("h1") == f"Rest of Undo of Give 5 × {TONIC} to 1 player"


@pytest.mark.everything
@with_scripts
def test_a_batch_runs_to_its_end_though_its_tab_is_closed(console, api, file):
    plan_file(console, file([player.name for player in PLAYERS for _ in range(SOME)]))
    batch = batch_of(console)
    console.one("details.run > summary").click()
    console.press("#form-run .do")
    console.open("/batches/new")  # the page of the batch is gone
    wait_until(lambda: api.get(f"batches/{batch}")["State"] == "done")
    assert api.get(f"batches/{batch}")["Done"] == SOME * len(PLAYERS)


@with_scripts
def test_the_page_watches_a_batch_which_is_paused_and_gone_on_with(console, demo, file):
    plan_file(console, file([player.name for player in PLAYERS for _ in range(SOME)]))
    batch = {"_id": batch_of(console)}
    # Others have it for now, so that it does not come to its end before.
    demo.db.batches.update_one(batch, {"$set": {"Lease": {"Id": "others", "Until": FAR}}})
    console.one("details.run > summary").click()
    console.press("#form-run .do")
    assert console.notice == "The batch was started."
    console.press("#form-pause .do")
    assert console.notice == "The batch is paused."
    assert "paused" in console.text("#progress h2")
    console.press("#form-run .do")
    assert console.all("#form-pause")
    demo.db.batches.update_one(batch, {"$unset": {"Lease": ""}})
    # What is shown changes by itself: the numbers, the rows and what can be done next.
    console.wait.until(lambda _: "done" in console.text("#progress h2"))
    assert console.text(".n-done b") == str(SOME * len(PLAYERS))
    assert console.text("#row-tabs [href*='verdict=done'] .n") == str(SOME * len(PLAYERS))
    assert "done" in console.text("table.plan tbody tr")
    assert console.all("#form-undo-batch")
    assert not console.all("#form-pause")
    assert console.severe() == []


@with_scripts
def test_a_file_that_is_too_large_is_refused_before_it_is_sent(console, tmp_path):
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(33 * 1024 * 1024)
    console.open("/batches/new?kind=file")
    console.one("#file-file").send_keys(str(path))
    console.one("#form-file > .do").click()
    assert console.text("#file-file-about.fault").startswith("This file is too large")
    assert console.path == "/console/batches/new?kind=file"
