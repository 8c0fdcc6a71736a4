"""quartermaster batch, on the real MongoDB: plan, run, show and undo; interrupted, it goes on."""

import json
import os
import signal
import subprocess

import pytest

from app.cli.intents import system_user
from tests.factories import make_player, numbered_guid
from tests.system.programs import PROGRAM, WITH_CTRL_C, environment, wait_until

ITEM = numbered_guid(1)
# Of a batch that is interrupted.
ROWS = 4000


@pytest.fixture
def players(real_db):
    found = [make_player(Name=f"Player {number:03}") for number in range(30)]
    real_db.players.insert_many(found)
    return found


@pytest.fixture
def gifts(tmp_path, players):
    """A CSV file that gives to all players, and to one that does not exist."""
    path = tmp_path / "gifts.csv"
    names = [player["Name"] for player in players] + ["Nobody"]
    lines = [f"{name},give,{ITEM},2" for name in names]
    path.write_text("\n".join(["Player,Operation,ItemId,Quantity", *lines]) + "\n")
    return path


def held(db):
    slots = [slot for player in db.players.find() for slot in player["Inventory"].values()]
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == ITEM)


def count_done(db, batch):
    return db.batch_rows.count_documents({"Batch": batch, "Verdict": "done"})


def start(batch, settings):
    command = [*WITH_CTRL_C, PROGRAM, "batch", "run", batch, "--yes"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=settings, stdout=pipe, stderr=pipe, text=True)


def id_in(output):
    return output.partition("(")[2].partition(")")[0]


def test_a_file_is_planned_run_shown_and_undone(quartermaster, real_db, gifts):
    planned = quartermaster("batch", "plan", gifts, "--reason", "Ticket 4711")
    assert planned.exit_code == 0, planned.output
    numbers = "31 rows: 30 ready, 0 done, 1 refused, 0 replanned."
    assert planned.output == f"gifts.csv ({id_in(planned.output)}): planned, {numbers}\n"
    assert held(real_db) == 0
    # The same file is the same batch.
    assert quartermaster("batch", "plan", gifts).output == planned.output
    assert quartermaster("batch", "run", gifts, "--yes").exit_code == 0
    assert held(real_db) == 60
    assert quartermaster("batch", "run", gifts, "--yes").exit_code == 0
    assert held(real_db) == 60
    shown = quartermaster("batch", "show", gifts).output.splitlines()
    assert shown[0].endswith("done, 31 rows: 0 ready, 30 done, 1 refused, 0 replanned.")
    assert shown[1:] == [
        f"31  Nobody  give ItemId={ITEM} Quantity=2 BankOverflow=False  refused  "
        "No player with name 'Nobody'."
    ]
    assert real_db.history.count_documents({"Via": "batch", "Reason": "Ticket 4711"}) == 30
    real_db.players.insert_one(make_player(Name="Nobody"))
    rest = quartermaster("batch", "retry", gifts)
    assert rest.output.startswith("Rest of gifts.csv (")
    assert quartermaster("batch", "run", id_in(rest.output), "--yes").exit_code == 0
    assert held(real_db) == 62
    assert (
        "all rows of the batch are done"
        in quartermaster("batch", "retry", id_in(rest.output)).output
    )
    quartermaster(
        "batch", "run", id_in(quartermaster("batch", "undo", id_in(rest.output)).output), "--yes"
    )
    assert held(real_db) == 60
    undo = quartermaster("batch", "undo", gifts)
    assert undo.output.startswith("Undo of gifts.csv (")
    assert quartermaster("batch", "run", id_in(undo.output), "--yes").exit_code == 0
    assert held(real_db) == 0


def test_a_run_that_died_after_its_last_row_is_ended(quartermaster, real_db, gifts):
    quartermaster("batch", "run", gifts, "--yes")
    real_db.batches.update_one({}, {"$set": {"State": "running"}})
    assert "run it to its end" in quartermaster("batch", "undo", gifts).output
    ended = quartermaster("batch", "run", gifts)
    assert "done, 31 rows: 0 ready, 30 done" in ended.output
    assert held(real_db) == 60
    assert quartermaster("batch", "undo", gifts).exit_code == 0


def test_the_same_file_can_be_planned_again(quartermaster, real_db, gifts):
    first = quartermaster("batch", "plan", gifts).output
    second = quartermaster("batch", "plan", gifts, "--again").output
    assert id_in(first) != id_in(second)
    quartermaster("batch", "run", id_in(first), "--yes")
    assert held(real_db) == 60
    # The file stands for its last plan.
    assert id_in(quartermaster("batch", "run", gifts, "--yes").output) == id_in(second)
    assert held(real_db) == 120


def test_what_the_system_user_did_is_undone(quartermaster, real_db, gifts):
    quartermaster("batch", "run", gifts, "--yes")
    planned = quartermaster("batch", "plan", "--undo-by", system_user(), "--undo-operation", "give")
    assert planned.exit_code == 0, planned.output
    assert quartermaster("batch", "run", id_in(planned.output), "--yes").exit_code == 0
    assert held(real_db) == 0


SENTENCES = {
    ("plan",): "Give a FILE, or choose the changes to undo with --undo-... options.",
    ("show", "nothing"): "'nothing' is neither a file nor the id of a batch.",
    ("show", numbered_guid(9)): f"No batch with id '{numbered_guid(9)}'.",
    ("plan", "--undo-by", "nobody"): "There is nothing to undo: no change matches.",
}


def test_what_cannot_be_done_is_a_sentence(quartermaster):
    for arguments, sentence in SENTENCES.items():
        result = quartermaster("batch", *arguments)
        assert result.exit_code > 0
        assert sentence in result.stderr


def test_it_asks_before_it_runs(quartermaster, real_db, gifts):
    assert quartermaster("batch", "run", gifts, stdin="n\n").exit_code == 1
    assert quartermaster("batch", "run", gifts, stdin="").exit_code == 1
    assert held(real_db) == 0
    assert quartermaster("batch", "run", gifts, stdin="y\n").exit_code == 0
    assert held(real_db) == 60


def test_a_name_is_checked_and_masked(quartermaster, real_db, gifts):
    for name in ("x" * 101, "two\nlines"):
        refused = quartermaster("batch", "plan", gifts, "--name", name)
        assert refused.exit_code == 2
        assert "at most 100 characters on one line" in refused.stderr
    assert quartermaster("batch", "plan", gifts, "--name", f"key qm_{'a' * 46}").exit_code == 0
    assert real_db.batches.find_one()["Name"] == "key ***"


def test_a_file_that_is_no_batch_is_a_sentence(quartermaster, real_db, tmp_path):
    for name, text, sentence in (
        ("a.json", "[]", "The file must be a JSON object."),
        ("b.json", '{"Rows": []}', "A batch has at least one row."),
        ("c.csv", "Player\n", "A batch has at least one row."),
    ):
        path = tmp_path / name
        path.write_text(text)
        result = quartermaster("batch", "plan", path)
        assert result.exit_code == 1
        assert sentence in result.stderr
    assert real_db.batches.count_documents({}) == 0


@pytest.mark.everything
def test_an_interrupted_run_goes_on(quartermaster, real_db, mongodb_uri, tmp_path, gifts):
    """By Ctrl-C and by kill -9, in the middle of a larger batch."""
    many = [make_player() for _ in range(ROWS)]
    real_db.players.insert_many(many)
    rows = [
        {"Player": player["_id"], "Operation": "give", "ItemId": ITEM, "Quantity": 1}
        for player in many
    ]
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"Name": "Many", "Rows": rows}))
    batch = id_in(quartermaster("batch", "plan", path).output)
    settings = environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri)
    for kill, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        before = count_done(real_db, batch)
        process = start(batch, settings)
        # After a kill, the lease stays for ten seconds.
        wait_until(lambda before=before: count_done(real_db, batch) > before)
        os.kill(process.pid, kill)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == status
        assert status < 0 or f"Paused. Resume with quartermaster batch run {batch}." in errors
        state = real_db.batches.find_one({"_id": batch})["State"]
        assert state == ("running" if status < 0 else "paused")
    assert f"paused, {ROWS:,} rows" in quartermaster("batch", "pause", batch).output
    assert count_done(real_db, batch) == held(real_db) < ROWS
    assert quartermaster("batch", "run", batch, "--yes").exit_code == 0
    assert held(real_db) == ROWS
    assert real_db.history.count_documents({"Via": "batch"}) == ROWS
