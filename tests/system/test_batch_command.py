"""quartermaster batch, on the real MongoDB: plan, run, show and undo; interrupted, it goes on."""

import pytest

from app.batches.running import BatchWorker
from app.cli import batches
from app.cli.intents import system_user
from tests.factories import make_player, numbered_guid

ITEM = numbered_guid(1)


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


def id_in(output):
    return output.partition("(")[2].partition(")")[0]


def test_a_file_is_planned_run_shown_and_undone(quartermaster, real_db, gifts):
    planned = quartermaster("batch", "plan", gifts, "--reason", "Ticket 4711")
    assert planned.exit_code == 0, planned.output
    numbers = "31 rows: 30 ready, 0 done, 1 refused, 0 replanned."
    assert planned.stdout == f"gifts.csv ({id_in(planned.stdout)}): planned, {numbers}\n"
    assert held(real_db) == 0
    # The same file is the same batch.
    assert quartermaster("batch", "plan", gifts).stdout == planned.stdout
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
        assert refused.exit_code == 1
        assert "The field 'Name' must" in refused.stderr
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


def test_an_interrupted_run_is_paused_and_goes_on(quartermaster, real_db, gifts, monkeypatch):
    batch = id_in(quartermaster("batch", "plan", gifts).output)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BatchWorker, "carry_out", interrupt)
        # Otherwise this process would ignore Ctrl-C from then on.
        patch.setattr(batches.signal, "signal", lambda *_: None)
        interrupted = quartermaster("batch", "run", batch, "--yes")
    assert interrupted.exit_code == 130
    assert f"Paused. Resume with quartermaster batch run {batch}." in interrupted.stderr
    assert real_db.batches.find_one()["State"] == "paused"
    assert "paused, 31 rows" in quartermaster("batch", "pause", batch).output
    assert held(real_db) == 0
    assert quartermaster("batch", "run", batch, "--yes").exit_code == 0
    assert held(real_db) == 60
