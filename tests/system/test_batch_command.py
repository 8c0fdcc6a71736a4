"""quartermaster batch, on the real MongoDB: plan, run, show and undo; interrupted, it goes on."""

import pytest

from app.batches.running import BatchWorker
from app.cli import batches
from app.cli.intents import system_user
from tests.factories import ITEM, gift, held, make_player, numbered_guid


@pytest.fixture
def batch(quartermaster):
    """Run a batch command that succeeds; return its output."""

    def batch(*arguments, stdin=None):
        result = quartermaster("batch", *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    return batch


@pytest.fixture
def gifts(tmp_path, real_db):
    """A CSV file that gives two items to each of three players, and to one who does not exist."""
    names = [f"Player {number}" for number in range(3)]
    real_db.players.insert_many(make_player(Name=name) for name in names)
    path = tmp_path / "gifts.csv"
    lines = (",".join(map(str, gift(name, 2).values())) for name in [*names, "Nobody"])
    path.write_text("\n".join([",".join(gift("")), *lines]))
    return path


def id_in(output):
    return output.partition("(")[2].partition(")")[0]


def test_a_file_is_planned_run_shown_and_undone(batch, real_db, gifts):
    planned = batch("plan", gifts, "--reason", "Ticket 4711")
    numbers = "4 rows: 3 ready, 0 done, 1 refused, 0 replanned."
    assert planned == f"gifts.csv ({id_in(planned)}): planned, {numbers}\n"
    assert held(real_db) == 0
    # The same file is the same batch.
    assert batch("plan", gifts) == planned
    for _ in range(2):
        batch("run", gifts, "--yes")
        assert held(real_db) == 6
    assert batch("show", gifts).splitlines() == [
        f"gifts.csv ({id_in(planned)}): done, 4 rows: 0 ready, 3 done, 1 refused, 0 replanned.",
        f"4  Nobody  give ItemId={ITEM} Quantity=2 BankOverflow=False  refused  "
        "No player with name 'Nobody'.",
    ]
    assert real_db.history.count_documents({"Via": "batch", "Reason": "Ticket 4711"}) == 3
    real_db.players.insert_one(make_player(Name="Nobody"))
    rest = batch("retry", gifts)
    assert rest.startswith("Rest of gifts.csv (")
    batch("run", id_in(rest), "--yes")
    assert held(real_db) == 8
    for undone, left in ((id_in(rest), 6), (gifts, 0)):
        undo = batch("undo", undone)
        assert undo.startswith("Undo of ")
        batch("run", id_in(undo), "--yes")
        assert held(real_db) == left


def test_the_same_file_can_be_planned_again(batch, real_db, gifts):
    first, second = batch("plan", gifts), batch("plan", gifts, "--again")
    batch("run", id_in(first), "--yes")
    # The file stands for its last plan.
    assert id_in(batch("run", gifts, "--yes")) == id_in(second) != id_in(first)
    assert held(real_db) == 12


def test_what_the_system_user_did_is_undone(batch, real_db, gifts):
    batch("run", gifts, "--yes")
    planned = batch("plan", "--undo-by", system_user(), "--undo-operation", "give")
    batch("run", id_in(planned), "--yes")
    assert held(real_db) == 0


SENTENCES = {
    ("plan",): "Give a FILE, or choose the changes to undo with --undo-... options.",
    ("show", "nothing"): "'nothing' is neither a file nor the id of a batch.",
    ("show", numbered_guid(9)): f"No batch with id '{numbered_guid(9)}'.",
    ("plan", "--undo-by", "nobody"): "There is nothing to undo: no change matches.",
}


def test_what_cannot_be_done_is_a_sentence(quartermaster, gifts):
    wrong_names = {
        ("plan", gifts, "--name", name): "The field 'Name' must"
        for name in ("x" * 101, "two\nlines")
    }
    for arguments, sentence in {**SENTENCES, **wrong_names}.items():
        result = quartermaster("batch", *arguments)
        assert (result.exit_code > 0, sentence in result.stderr) == (True, True), result.output


def test_a_file_that_is_no_batch_is_a_sentence(quartermaster, real_db, tmp_path):
    for name, text, sentence in (
        ("a.json", "[]", "The file must be a JSON object."),
        ("b.csv", "Player\n", "A batch has at least one row."),
    ):
        path = tmp_path / name
        path.write_text(text)
        result = quartermaster("batch", "plan", path)
        assert (result.exit_code, sentence in result.stderr) == (1, True)
    assert real_db.batches.count_documents({}) == 0


def test_it_asks_before_it_runs_and_masks_names(batch, quartermaster, real_db, gifts):
    batch("plan", gifts, "--name", f"key qm_{'a' * 46}")
    assert real_db.batches.find_one()["Name"] == "key ***"
    for answer in ("n\n", ""):
        assert quartermaster("batch", "run", gifts, stdin=answer).exit_code == 1
    assert held(real_db) == 0
    batch("run", gifts, stdin="y\n")
    assert held(real_db) == 6


def test_an_interrupted_run_is_paused_and_goes_on(
    batch, quartermaster, real_db, gifts, monkeypatch
):
    planned = id_in(batch("plan", gifts))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BatchWorker, "carry_out", interrupt)
        # Otherwise this process would ignore Ctrl-C from then on.
        patch.setattr(batches.signal, "signal", lambda *_: None)
        interrupted = quartermaster("batch", "run", planned, "--yes")
    assert interrupted.exit_code == 130
    assert f"Paused. Resume with quartermaster batch run {planned}." in interrupted.stderr
    assert "paused, 4 rows" in batch("pause", planned)
    assert held(real_db) == 0
    batch("run", planned, "--yes")
    assert held(real_db) == 6
