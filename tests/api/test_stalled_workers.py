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
from app.auth.roles import Role
from app.database import SUBJECTS
from app.game.actions.store import Actions
from app.storage.client import Storage
from app.storage.turns import Turns
from app.storage.unfinished import UnfinishedWork
from tests import people, tiers
from tests.api.test_deletions import delete, entries
from tests.applications import service, written
from tests.callers import Caller
from tests.factories import guid, numbered_guid, sha256
from tests.game import playing
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
    storage = service(app, Storage)
    for _ in range(3):
        settle(storage.db)
        for kind in SUBJECTS.values():
            storage.journals.move_all(kind, storage.clock.now())
        service(app, UnfinishedWork).finish_all()


def give_up_plans(app):
    """Let the other workers take a plan that stands still for one whose worker has died."""
    storage = service(app, Storage)
    past = storage.clock.now() - timedelta(hours=1)
    storage.db.batches.update_many({"State": "planning"}, {"$set": dict.fromkeys(PLANNED, past)})
    service(app, UnfinishedWork).finish_all()


def save_new(staff, own, user_id):
    return staff(f"PUT players/{guid()}", {"Name": people.DELETED + "x", "UserId": user_id}, None)


def save_former(staff, own, user_id):
    hero = staff(f"GET players/{people.HERO}").json["Id"]
    return staff(f"PUT players/{hero}", {"Level": 7}, None)


def delete_hero(staff, own, user_id):
    return staff(f"DELETE players/{people.HERO}", None, None)


def restore(staff, own, user_id):
    return undo(staff, entries(staff, people.DELETED)[0])


def note(staff, own, user_id):
    return own("POST players/Stranger/notes", {"Text": "late"}, None)


def ban(staff, own, user_id):
    return own("POST users/Colleague/admin/ban", {"duration": 3}, None)


def kick(staff, own, user_id):
    return with_game(staff, f"players/{people.HERO}/admin/kick")


def sign_in(staff, own, user_id):
    form = {"grant_type": "password", "username": people.NAME, "password": sha256("secret")}
    return staff.client.post("/api/oauth/token", data=form)


def plan(staff, own, user_id):
    return plan_as(own, Name="mine")


def start(staff, own, user_id):
    planned = plan_as(staff, Name="theirs")
    return own(f"POST batches/{planned.json.get('Id')}/run", None, None)


def plan_as(caller, *names, **fields):
    rows = [{"Player": name, "Operation": "give", **people.GIFT} for name in ("Stranger", *names)]
    return caller("POST batches", {"Rows": rows, **fields}, None)


def with_game(staff, path, body=None):
    """Ask a game; of an action that was erased there is no answer to wait for."""
    app = staff.client.application
    service(app, Actions).wait_seconds = 0.2
    with playing(service(app, Storage).db):
        return staff(f"POST {path}", body, None)


# What is about somebody else, by somebody else, and tells of the person in its text alone.
NAMING = f"as {people.HERO.upper()} asked, or ({people.DELETED}); mail {people.MAIL}"


def name_in_reason(staff, own, user_id):
    return staff("POST players/Stranger/items/give", GIFT, None, X_Reason=NAMING)


def name_in_note(staff, own, user_id):
    return staff("POST players/Stranger/notes", {"Text": NAMING}, None)


def name_in_note_of_restored(staff, own, user_id):
    name_in_note(staff, own, user_id)
    delete(staff, "Stranger")
    return undo(staff, entries(staff, "Stranger")[0])


def name_in_ban(staff, own, user_id):
    body = {"duration": 3, "moderator": people.NAME, "reason": NAMING}
    return staff("POST users/Colleague/admin/ban", body, None)


def name_in_chat(staff, own, user_id):
    return with_game(staff, "chat/global", {"Message": NAMING, "Target": people.NAME})


def name_in_answer(staff, own, user_id):
    service(staff.client.application, Actions).wait_seconds = 0
    game = {"Game": "Island", "Most": 9}
    staff("POST game/actions", game)
    staff("POST chat/global", {"Message": "Hi."}, 202)
    (action,) = staff("POST game/actions", game).json["Values"]
    answer = {"Game": "Island", "Result": {"Near": [{people.HERO: NAMING}]}}
    return staff(f"POST game/actions/{action['Id']}", answer, None)


def name_in_batch(staff, own, user_id):
    return plan_as(staff, people.HERO, people.NAME, Name=people.HERO, Reason=NAMING)


ACTS = [save_new, save_former, delete_hero, restore, note, ban, kick, sign_in, plan, start]
ACTS += [name_in_reason, name_in_note, name_in_note_of_restored, name_in_ban, name_in_chat]
ACTS += [name_in_answer, name_in_batch]


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


@pytest.mark.parametrize("act", ACTS)
def test_nobody_comes_back_after_an_erasure_that_was_finished(
    app, client, db, world, anew, other, act
):
    def begin():
        anew()
        user_id, headers = people.build_few(world, client)
        own = world.headers(user=db.users.find_one({"_id": user_id}))
        staff, own = (Caller(client, sent, "/api/v1/") for sent in (headers, own))
        return lambda: act(staff, own, user_id), (user_id, other(staff))

    def erase(known):
        user_id, staff = known
        for status in (503, None, 200):
            staff(f"POST users/{user_id}/erase", {"Confirm": people.NAME}, status)
            settle(db)
            give_up_plans(app)

    def check(known, answer, when):
        finish(app)
        assert people.found_in(db) == [], (when, answer.status_code)
        assert db.players.count_documents({"UserId": known[0]}) == 0, when
        assert db.erasures.count_documents({"FinishedAt": None}) == 0, when
        batch_ids = db.batches.distinct("_id")
        for left in (db.batch_rows, db.batch_parts):
            assert left.count_documents({"Batch": {"$nin": batch_ids}}) == 0, when

    at_every_step(begin, erase, check, stride=5)


def test_an_erasure_that_comes_late_writes_no_other_name_back(
    app, client, db, world, anew, other, caller
):
    """Two people are named in the same reasons, and one of two erasures stands still."""

    def begin():
        anew()
        staff = caller("/api/v1/", *Role)
        for name in ("Zwartje", "Zwillem"):
            world.add_user(Name=name)
        world.add_player(Name="Stranger")
        for _ in range(2):
            path = "POST players/Stranger/items/give"
            staff(path, GIFT, X_Reason="Zwartje and Zwillem asked")
        return lambda: erase("Zwartje", staff), staff

    def erase(name, staff):
        return staff(f"POST users/{name}/erase", {"Confirm": name}, None)

    def check(staff, answer, when):
        finish(app)
        assert people.found_in(db, ["Zwartje", "Zwillem"]) == [], when

    at_every_step(begin, lambda staff: erase("Zwillem", other(staff)), check, stride=9)


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

    def test_the_same_undo_that_was_faster_and_has_moved_is_no_refusal(self, app, deleted, other):
        def begin():
            staff, _, entry = deleted()
            return lambda: undo(staff, entry, "once"), (other(staff), entry)

        def undo_and_move(known):
            undo(*known, "once", 200)
            finish(app)

        def check(_, answer, when):
            assert answer.status_code == 200, (when, answer.json)

        at_every_step(begin, undo_and_move, check, READS)

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
