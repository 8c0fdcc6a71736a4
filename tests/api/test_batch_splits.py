"""Every yes and no about a batch rests on what a majority of the servers holds."""

import pytest
from pymongo.errors import WTimeoutError

from app.batches.choosing import Choosing
from app.batches.domain import (
    AllDone,
    BatchNotFound,
    Cancelled,
    NewBatch,
    NotEnded,
    NothingToUndo,
    NotRunning,
    Paused,
    PlannedTooLong,
    StillPlanning,
)
from app.batches.parts.store import NEVER
from app.batches.running import Runner
from app.batches.store import Batches
from app.changes import Origin
from app.errors import KeyReused
from tests.applications import service
from tests.factories import NOW, add_batch, guid, make_batch

SOMEBODY = Origin(None, "tester", "batch")
STARTER = {"UserId": None, "Name": "tester"}
KEY, FINGERPRINT = "key", "body"
COLLECTIONS = ("batches", "batch_rows", "batch_parts")


class OldPrimary:
    """A collection that is read as a cut off primary has it, until something is written.

    The first write finds the new primary, which lacks what the old one had alone.
    """

    def __init__(self, collection, roll_back):
        self._collection, self._roll_back = collection, roll_back

    def __getattr__(self, name):
        if any(verb in name for verb in ("update", "insert", "delete", "bulk_write")):
            self._roll_back()
        return getattr(self._collection, name)


class Split:
    """What the primaries of the two sides hold of batches."""

    def __init__(self, app, db, player):
        self._db, self.player, self.batch_id = db, player, guid()
        self.store = service(app, Batches)
        self.is_rolled_back = False
        self._held = {}
        self._names = dict(zip(COLLECTIONS, ("_batches", "_rows", "_parts"), strict=True))

    def add(self, state, **fields):
        """Store a batch of one row in a state, with its part while the row is ready."""
        add_batch(self._db, self.batch_id, self.player, State=state, **fields)

    def begin(self):
        """Let the majority hold what there is; what is stored from now on, one side alone has."""
        self._held = {name: list(self._db[name].find()) for name in COLLECTIONS}
        for name, attribute in self._names.items():
            setattr(self.store, attribute, OldPrimary(self._db[name], self._roll_back))

    def set(self, **fields):
        self._db.batches.update_one({"_id": self.batch_id}, {"$set": fields})

    def _roll_back(self):
        if self.is_rolled_back:
            return
        self.is_rolled_back = True
        for name, documents in self._held.items():
            self._db[name].delete_many({})
            if documents:
                self._db[name].insert_many(documents)


@pytest.fixture
def split(app, world, db):
    return Split(app, db, world.add_player())


def answer(app, split, question):
    """Return what a caller is told: the state of a batch, or the class of the refusal."""
    store = split.store
    with app.app_context():
        asked = {
            "advance": lambda: service(app, Runner).advance(split.batch_id, SOMEBODY, STARTER),
            "run": lambda: store.start(split.batch_id, STARTER),
            "pause": lambda: store.pause(split.batch_id),
            "cancel": lambda: store.cancel(split.batch_id),
            "undo": lambda: store.require_ended(split.batch_id),
            "get": lambda: store.get(split.batch_id),
            "earlier": lambda: store.find_earlier(KEY, FINGERPRINT, KEY),
            "progress": lambda: store.note_progress(split.batch_id),
        }
        try:
            batch = asked[question]()
        except Exception as error:
            return type(error)
        return batch and batch["State"]


QUESTIONS = [
    # What the majority holds, what the old primary shows, what is asked, and the true answer.
    ("planned", "cancelled", "advance", "done"),
    ("planning", "planned", "advance", StillPlanning),
    ("planned", "planning", "advance", "done"),
    ("planned", "done", "advance", "done"),
    ("cancelled", "running", "advance", Cancelled),
    ("paused", "running", "advance", Paused),
    ("running", "paused", "advance", "done"),
    ("cancelled", "planned", "run", Cancelled),
    ("paused", "done", "run", "running"),
    ("running", "paused", "pause", "paused"),
    ("planned", "running", "pause", NotRunning),
    ("done", "planned", "pause", "done"),
    ("planned", "done", "cancel", "cancelled"),
    ("done", "cancelled", "cancel", AllDone),
    ("planned", "planning", "cancel", "cancelled"),
    ("cancelled", "planning", "cancel", "cancelled"),
    ("done", "running", "undo", "done"),
    ("running", "done", "undo", NotEnded),
    ("planned", "cancelled", "undo", NotEnded),
    ("planned", "planning", "undo", NotEnded),
    ("running", "cancelled", "progress", "running"),
    ("cancelled", "done", "progress", "cancelled"),
]


@pytest.mark.parametrize(("held", "shown", "question", "truth"), QUESTIONS)
def test_no_answer_rests_on_a_state_that_is_rolled_back(
    app, db, split, held, shown, question, truth
):
    split.add(held)
    split.begin()
    split.set(State=shown)
    assert answer(app, split, question) == truth
    is_carried_out = (question, truth) == ("advance", "done")
    assert bool(db.players.find_one()["Inventory"]) is is_carried_out


@pytest.mark.parametrize("question", ["advance", "cancel", "undo", "get"])
def test_a_batch_that_the_old_primary_lacks_is_found(app, db, split, question):
    split.add("planned")
    split.begin()
    for name in COLLECTIONS:
        db[name].delete_many({})
    truth = {"advance": "done", "undo": NotEnded, "cancel": "cancelled", "get": "planned"}
    assert answer(app, split, question) == truth[question]


@pytest.mark.parametrize("question", ["advance", "cancel", "undo"])
def test_a_batch_that_the_old_primary_has_alone_is_not_found(app, split, question):
    split.begin()
    split.add("cancelled" if question != "cancel" else "done")
    assert answer(app, split, question) is BatchNotFound


@pytest.mark.parametrize("fingerprint", [FINGERPRINT, "another body"])
@pytest.mark.parametrize("is_complete", [False, True])
def test_the_answer_to_a_key_rests_on_a_plan_that_a_majority_holds(
    app, split, fingerprint, is_complete
):
    named = {"RequestKey": KEY, "Fingerprint": fingerprint}
    split.add("planned" if is_complete else "planning", **(named if is_complete else {}))
    split.begin()
    if not is_complete:
        split.set(State="planned", **named)
        assert answer(app, split, "earlier") is None
    else:
        split.set(State="cancelled")
        is_same = fingerprint == FINGERPRINT
        assert answer(app, split, "earlier") == ("planned" if is_same else KeyReused)


def test_a_lease_that_is_rolled_back_does_not_keep_a_batch_from_being_undone(app, db, split):
    split.add("cancelled")
    split.begin()
    db.batch_parts.update_one({}, {"$set": {"LeasedUntil": NOW.replace(year=9000)}})
    assert answer(app, split, "undo") == "cancelled"


def test_a_batch_is_not_done_by_rows_and_parts_that_come_back(app, db, split):
    """The old primary alone has noted the last row, and that its part is gone."""
    split.add("running")
    split.begin()
    db.batch_rows.update_many({}, {"$set": {"Verdict": "done"}})
    db.batch_parts.delete_many({})
    assert answer(app, split, "progress") == "running"
    stored = db.batches.find_one()
    assert (stored["State"], stored["Counts"]["Ready"]) == ("running", 1)


def test_a_part_stays_whose_last_row_is_ready_after_all(app, db, split):
    split.add("running")
    lease = split.store.lease(split.batch_id)
    split.begin()
    db.batch_rows.update_many({}, {"$set": {"Verdict": "done"}})
    split.store.release(lease)
    assert db.batch_parts.find_one()["LeasedUntil"] == NEVER
    assert answer(app, split, "advance") == "done"
    assert db.players.find_one()["Inventory"]["0"]["Quantity"] == 1


def test_a_plan_is_complete_when_a_majority_holds_it(app, db, split):
    split.add("planning")
    batch = db.batches.find_one()
    split.begin()
    db.batches.delete_many({})
    db.batches.insert_one(make_batch(_id=guid(), RequestKey=KEY, Fingerprint=FINGERPRINT))
    planned = split.store.complete(batch, {}, NewBatch({}, KEY, FINGERPRINT, KEY))
    assert (planned["_id"], planned["State"]) == (batch["_id"], "planned")
    db.batches.update_one({}, {"$set": {"State": "done"}})
    with pytest.raises(PlannedTooLong):
        split.store.complete(batch, {}, NewBatch({}, None, FINGERPRINT))


@pytest.mark.parametrize(
    "question", ["advance", "run", "pause", "cancel", "undo", "get", "earlier"]
)
@pytest.mark.parametrize("state", ["planning", "cancelled", "done", None])
def test_without_a_majority_nothing_is_answered(app, split, monkeypatch, question, state):
    if state:
        split.add(state, RequestKey=KEY, Fingerprint="another body")
    split.begin()

    def roll_back():
        raise WTimeoutError("waiting for replication timed out")

    for attribute in ("_batches", "_rows", "_parts"):
        monkeypatch.setattr(getattr(split.store, attribute), "_roll_back", roll_back)
    if question == "get" and state:
        assert answer(app, split, question) == state  # a plain read is the primary's
    else:
        assert answer(app, split, question) is WTimeoutError


def test_that_no_change_matches_is_told_by_a_primary_that_is_not_cut_off(app, split):
    split.begin()
    choosing = service(app, Choosing)
    with pytest.raises(NothingToUndo):
        list(choosing.changes({"By": "Nobody"}, ("player",)))
    assert split.is_rolled_back
