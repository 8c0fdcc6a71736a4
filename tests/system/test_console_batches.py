"""What scripts do on the pages of batches: watch one, and refuse a file that is too large."""

from datetime import datetime, timezone

from app.maintenance.demo.catalogue import guid
from tests.system.conftest import with_scripts
from tests.system.console import Demo

TONIC = guid("item", "Perfect Tonic of Stone")
PLAYERS = [Demo("player", number) for number in range(20, 26)]
ROWS = 10 * len(PLAYERS)
FAR = datetime(2100, 1, 1, tzinfo=timezone.utc)


@with_scripts
def test_the_page_watches_a_batch_which_is_paused_and_gone_on_with(console, demo, tmp_path):
    path = tmp_path / "batch.csv"
    lines = [f"{player.name},give,{TONIC},2\n" for player in PLAYERS for _ in range(10)]
    path.write_text("".join(["Player,Operation,ItemId,Quantity\n", *lines]))
    console.open("/batches/new/file")
    console.one("#file-file").send_keys(str(path))
    console.send("file")
    batch = {"_id": console.path.partition("?")[0].rpartition("/")[2]}
    # Others have it for now, so that it does not come to its end before.
    demo.db.batches.update_one(batch, {"$set": {"Lease": {"Id": "others", "Until": FAR}}})
    console.one("details.run > summary").click()
    console.press("#form-run .do")
    console.press("#form-pause .do")
    assert "paused" in console.text("#progress h2")
    console.press("#form-run .do")
    assert console.all("#form-pause")
    demo.db.batches.update_one(batch, {"$unset": {"Lease": ""}})
    # What is shown changes by itself: the numbers, the rows and what can be done next.
    console.wait.until(lambda _: "done" in console.text("#progress h2"))
    assert console.text(".n-done b") == str(ROWS)
    assert console.text("#row-tabs [href*='verdict=done'] .n") == str(ROWS)
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
