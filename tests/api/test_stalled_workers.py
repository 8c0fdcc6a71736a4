"""A worker that stands still between two of its steps, while others go on and come to an end.

No pause is long enough for it, so the laws are tried before each of its writes in turn.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import timedelta

import pytest
from pymongo.collection import Collection

from app.auth.callers import Callers
from app.batches.store import Batches
from app.privacy.store import Erasures
from app.storage.client import Storage
from app.storage.turns import Turns
from tests import people, tiers
from tests.api.test_deletions import delete, entries
from tests.applications import service, written
from tests.callers import Caller
from tests.factories import numbered_guid
from tests.mongod import on_mongodb
from tests.people import settle

WRITES = ("insert_one", "insert_many", "update_one", "update_many", "replace_one", "delete_one")
WRITES += ("delete_many", "bulk_write", "find_one_and_update")
READS = ("find_one",)
ITEM = numbered_guid(1)
GIFT = {"itemid": ITEM, "quantity": 1}
# By what a plan is known to be under way.
PLANNED = ("At", "PlannedUntil")

pytestmark = on_mongodb


class Stall:
    """Stops the thread that made it before one of its operations, and lets others act meanwhile."""

    def __init__(self, monkeypatch, before, act, operations):
        self._thread, self._before, self._act = threading.get_ident(), before, act
        self.writes = 0
        for name in operations:
            plain = getattr(Collection, name)
            monkeypatch.setattr(Collection, name, self._stalling(plain))

    def _stalling(self, plain):
        def write(collection, *args, **kw):
            if threading.get_ident() == self._thread:
                self.writes += 1
                if self.writes == self._before:
                    with ThreadPoolExecutor(1) as others:
                        others.submit(self._act).result()
            return plain(collection, *args, **kw)

        return write


def at_every_step(begin, meanwhile, check, operations=WRITES, stride=1):
    """Do something as often as it has such operations, and stop before each of them in turn.

    Begin makes a new world, and returns what is done and what the others need. With a stride, only
    make test-all stops before all of them.
    """
    for before in itertools.count(1, 1 if tiers.is_everything else stride):
        act, known = begin()
        with pytest.MonkeyPatch.context() as patch:
            # The others are other workers, which take no turns with this one.
            patch.setattr(Turns, "take", lambda *_: nullcontext())
            stall = Stall(patch, before, lambda known=known: meanwhile(known), operations)
            answer = act()
        if stall.writes < before:
            break
        check(known, answer, f"before write {before}")
    assert before > 1


def finish(app):
    """Let the other workers find what is left, until there is nothing."""
    for _ in range(3):
        settle(service(app, Storage).db)
        service(app, Erasures).continue_all()


def give_up_plans(app):
    """Let the other workers take a plan that stands still for one whose worker has died."""
    storage = service(app, Storage)
    past = storage.clock.now() - timedelta(hours=1)
    storage.db.batches.update_many({"State": "planning"}, {"$set": dict.fromkeys(PLANNED, past)})
    service(app, Batches).remove_stale()


def plan_as(caller, *names, **fields):
    rows = [{"Player": name, "Operation": "give", **people.GIFT} for name in ("Stranger", *names)]
    return caller("POST batches", {"Rows": rows, **fields}, None)


@pytest.fixture
def anew(app, db):
    """Empty the database, and forget who was known."""

    def anew():
        written.empty(db)
        service(app, Callers).forget()

    return anew


@pytest.fixture
def other(app):
    """Return another worker's caller with the headers of this one."""
    return lambda caller: Caller(app.test_client(), caller.headers, "/api/v1/")


def undo(staff, entry, key=None, status=None):
    keyed = {"Idempotency_Key": key} if key else {}
    return staff(f"POST history/{entry['Id']}/undo", None, status, **keyed)


class TestRestoring:
    @pytest.fixture
    def deleted(self, world, anew, caller):
        """Delete a player with five of an item; return staff, the player and the entry of it."""

        def deleted():
            anew()
            held = {"0": {"ItemId": ITEM, "Quantity": 5}}
            player, staff = world.add_player(Name="Aladric", Inventory=held), caller("/api/v1/")
            delete(staff)
            return staff, player, entries(staff, player["_id"])[0]

        return deleted

    def test_what_was_restored_deleted_and_restored_meanwhile_is_restored_once(
        self, app, db, deleted, other
    ):
        """The late one must not bring the player back as it was before the others' changes."""

        def begin():
            staff, player, entry = deleted()
            return lambda: undo(staff, entry, "late"), (other(staff), player["_id"], entry)

        def play(known):
            staff, id_, entry = known
            if undo(staff, entry).status_code == 200:
                staff(f"POST players/{id_}/items/take", {"itemid": ITEM, "quantity": 2})
                delete(staff)

        def check(known, answer, when):
            finish(app)
            there, kept = (
                db[name].find_one({"_id": known[1]}) for name in ("players", "deleted_players")
            )
            assert (there is None) != (kept is None), (when, answer.json)
            held = (there or kept["Player"])["Inventory"]["0"]["Quantity"]
            undos = db.history.count_documents({"Operation": "undo"})
            takes = db.history.count_documents({"Operation": "take"})
            told = (held, undos, answer.status_code)
            assert told == (5 - 2 * takes, 1, 409 if takes else 200), (when, answer.json)

        at_every_step(begin, play, check)

    def test_the_same_undo_many_times_at_once_is_one_undo(self, db, deleted, other):
        for round_ in range(3):
            staff, _, entry = deleted()
            with ThreadPoolExecutor(6) as pool:
                key = f"undo {round_}"
                sent = [pool.submit(undo, other(staff), entry, key, 200) for _ in range(6)]
                answers = [one.result() for one in sent]
            assert len({answer.json["Id"] for answer in answers}) == 1
            assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
            assert db.players.count_documents({}) == 1
            assert db.deleted_players.count_documents({}) == 0

    def test_what_is_rolled_back_is_restored_again(self, app, db, deleted):
        """A primary that was cut off had the player alone: it is gone before any next step."""

        def begin():
            staff, player, entry = deleted()
            return lambda: undo(staff, entry, "once"), player

        def roll_back(player):
            # What a majority has decided is not rolled back.
            db.players.delete_one({"RestorePending": True})

        def check(player, answer, when):
            finish(app)
            there = db.players.count_documents({"_id": player["_id"]})
            assert (answer.status_code, there) == (200, 1), (when, answer.json)
            assert db.deleted_players.count_documents({}) == 0, when

        at_every_step(begin, roll_back, check)

    def test_who_dies_at_any_write_leaves_the_player_in_one_place(self, app, db, deleted):
        class Killed(BaseException):
            pass

        def die(_):
            raise Killed

        def begin():
            staff, player, entry = deleted()

            def act():
                with suppress(Killed):
                    undo(staff, entry, "once")

            return act, (staff, player, entry)

        def check(known, _, when):
            staff, player, entry = known
            finish(app)
            again = undo(staff, entry, "once")
            assert again.status_code == 200, (when, again.json)
            assert db.players.find_one()["Inventory"] == player["Inventory"], when
            assert db.deleted_players.count_documents({}) == 0, when
            finish(app)
            assert db.history.count_documents({"Operation": "undo"}) == 1, when

        at_every_step(begin, die, check)
