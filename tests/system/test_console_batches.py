"""Batches in a real browser: planned, looked at, run and undone, with scripts and without."""

from datetime import datetime, timezone

import pytest

from app.maintenance.demo.catalogue import guid
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
    console.open("/batches/new/file")
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
    assert console.all("#form-undo")
    assert not console.all("#form-pause")
    assert console.severe() == []


@with_scripts
def test_a_file_that_is_too_large_is_refused_before_it_is_sent(console, tmp_path):
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(33 * 1024 * 1024)
    console.open("/batches/new/file")
    console.one("#file-file").send_keys(str(path))
    console.one("#form-file > .do").click()
    assert console.text("#file-file-about.fault").startswith("This file is too large")
    assert console.path == "/console/batches/new/file"
