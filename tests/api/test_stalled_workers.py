"""A worker that stands still between two of its steps, while others go on and come to an end.

No pause is long enough for it, so the laws are tried before each of its writes in turn.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from pymongo.collection import Collection

from app.auth.callers import Callers
from app.auth.roles import Role
from app.database import SUBJECTS
from app.game.actions.store import Actions
from app.storage.client import Storage
from app.storage.unfinished import UnfinishedWork
from tests import people
from tests.api.test_deletions import delete, entries, undo
from tests.api.test_privacy import CONFIRM, settle
from tests.applications import empty, service
from tests.factories import guid, numbered_guid, sha256
from tests.game import playing

WRITES = ("insert_one", "insert_many", "update_one", "update_many", "replace_one", "delete_one")
WRITES += ("delete_many", "bulk_write", "find_one_and_update")
READS = ("find_one",)
ITEM = numbered_guid(1)
# By what a plan is known to be under way.
PLANNED = ("At", "PlannedUntil")

pytestmark = pytest.mark.parametrize("backend_uri", ["mongodb"], indirect=True)


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


def at_every_write(begin, meanwhile, check):
    at_every_step(begin, meanwhile, check, WRITES)


def at_every_step(begin, meanwhile, check, operations):
    """Do something as often as it has such operations, and stop before each of them in turn.

    Begin makes a new world, and returns what is done and what the others need.
    """
    before = 0
    while True:
        before += 1
        act, known = begin()
        with pytest.MonkeyPatch.context() as patch:
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


def save_new(client, staff, user_id):
    body = {"Name": people.DELETED + "x", "UserId": user_id}
    return client.put(f"/api/v1/players/{guid()}", json=body, headers=staff)


def save_former(client, staff, user_id):
    hero = client.get(f"/api/v1/players/{people.HERO}", headers=staff).json["Id"]
    return client.put(f"/api/v1/players/{hero}", json={"Level": 7}, headers=staff)


def delete_hero(client, staff, user_id):
    return delete(client, staff, people.HERO)


def restore(client, staff, user_id):
    entry = entries(client, staff, people.DELETED)[0]
    return undo(client, staff, entry)


def note(client, staff, user_id):
    path = "/api/v1/players/Stranger/notes"
    return client.post(path, json={"Text": "late"}, headers=client.own)


def ban(client, staff, user_id):
    path = "/api/v1/users/Colleague/admin/ban"
    return client.post(path, json={"duration": 3}, headers=client.own)


def kick(client, staff, user_id):
    # Of an action that was erased there is no answer to wait for.
    service(client.application, Actions).wait_seconds = 0.2
    with playing(service(client.application, Storage).db):
        return client.post(f"/api/v1/players/{people.HERO}/admin/kick", headers=staff)


def sign_in(client, staff, user_id):
    form = {"grant_type": "password", "username": people.NAME, "password": sha256("secret")}
    return client.post("/api/oauth/token", data=form)


def plan(client, staff, user_id):
    return plan_as(client, client.own, Name="mine")


def start(client, staff, user_id):
    planned = plan_as(client, staff, Name="theirs")
    path = f"/api/v1/batches/{planned.json.get('Id')}/run"
    return client.post(path, headers=client.own)


def plan_as(client, headers, *names, **fields):
    rows = [{"Player": name, "Operation": "give", **people.GIFT} for name in ("Stranger", *names)]
    return client.post("/api/v1/batches", json={"Rows": rows, **fields}, headers=headers)


# What is about somebody else, by somebody else, and tells of the person in its text alone.
NAMING = f"as {people.HERO.upper()} asked, or ({people.DELETED}); mail {people.MAIL}"


def name_in_reason(client, staff, user_id):
    give = {"itemid": ITEM, "quantity": 1}
    headers = {**staff, "X-Reason": NAMING}
    return client.post("/api/v1/players/Stranger/items/give", json=give, headers=headers)


def name_in_note(client, staff, user_id):
    path = "/api/v1/players/Stranger/notes"
    return client.post(path, json={"Text": NAMING}, headers=staff)


def name_in_note_of_restored(client, staff, user_id):
    name_in_note(client, staff, user_id)
    delete(client, staff, "Stranger")
    return undo(client, staff, entries(client, staff, "Stranger")[0])


def name_in_ban(client, staff, user_id):
    body = {"duration": 3, "moderator": people.NAME, "reason": NAMING}
    return client.post("/api/v1/users/Colleague/admin/ban", json=body, headers=staff)


def name_in_chat(client, staff, user_id):
    service(client.application, Actions).wait_seconds = 0.2
    with playing(service(client.application, Storage).db):
        body = {"Message": NAMING, "Target": people.NAME}
        return client.post("/api/v1/chat/global", json=body, headers=staff)


def name_in_answer(client, staff, user_id):
    service(client.application, Actions).wait_seconds = 0
    game = {"Game": "Island", "Most": 9}
    client.post("/api/v1/game/actions", json=game, headers=staff)
    client.post("/api/v1/chat/global", json={"Message": "Hi."}, headers=staff)
    (action,) = client.post("/api/v1/game/actions", json=game, headers=staff).json["Values"]
    answer = {"Game": "Island", "Result": {"Near": [{people.HERO: NAMING}]}}
    return client.post(f"/api/v1/game/actions/{action['Id']}", json=answer, headers=staff)


def name_in_batch(client, staff, user_id):
    return plan_as(client, staff, people.HERO, people.NAME, Name=people.HERO, Reason=NAMING)


ACTS = [save_new, save_former, delete_hero, restore, note, ban, kick, sign_in, plan, start]
ACTS += [name_in_reason, name_in_note, name_in_note_of_restored, name_in_ban, name_in_chat]
ACTS += [name_in_answer, name_in_batch]


@pytest.mark.parametrize("act", ACTS)
def test_nobody_comes_back_after_an_erasure_that_was_finished(app, client, db, world, act):
    def begin():
        empty(db)
        service(app, Callers).forget()
        user_id, staff = people.build_few(world, client)
        client.own = world.headers(user=db.users.find_one({"_id": user_id}))
        return lambda: act(client, staff, user_id), (user_id, staff)

    def erase(known):
        user_id, staff = known
        answer = None
        for _ in range(3):
            path = f"/api/v1/users/{user_id}/erase"
            answer = app.test_client().post(path, json=CONFIRM, headers=staff)
            settle(db)
            give_up_plans(app)
        assert answer.status_code == 200, answer.json

    def check(known, answer, when):
        finish(app)
        assert people.found_in(db) == [], (when, answer.status_code)
        assert db.players.count_documents({"UserId": known[0]}) == 0, when
        assert db.erasures.count_documents({"FinishedAt": None}) == 0, when
        batch_ids = db.batches.distinct("_id")
        for left in (db.batch_rows, db.batch_parts):
            assert left.count_documents({"Batch": {"$nin": batch_ids}}) == 0, when

    at_every_write(begin, erase, check)


def test_an_erasure_that_comes_late_writes_no_other_name_back(app, client, db, world):
    """Two people are named in the same reasons, and one of two erasures stands still."""

    def begin():
        empty(db)
        service(app, Callers).forget()
        staff = world.headers(Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
        for name in ("Zwartje", "Zwillem"):
            world.add_user(Name=name)
        world.add_player(Name="Stranger")
        give = {"itemid": ITEM, "quantity": 1}
        reason = {"X-Reason": "Zwartje and Zwillem asked"}
        for _ in range(3):
            path = "/api/v1/players/Stranger/items/give"
            assert client.post(path, json=give, headers={**staff, **reason}).status_code == 200
        return lambda: erase("Zwartje", client, staff), staff

    def erase(name, as_client, staff):
        path = f"/api/v1/users/{name}/erase"
        return as_client.post(path, json={"Confirm": name}, headers=staff)

    def check(staff, answer, when):
        finish(app)
        assert people.found_in(db, ["Zwartje", "Zwillem"]) == [], when

    at_every_write(begin, lambda staff: erase("Zwillem", app.test_client(), staff), check)


class TestRestoring:
    @pytest.fixture
    def staff(self, world):
        return world.headers()

    def deleted(self, world, client, staff):
        """Return a player with five of an item that was deleted, and the entry of the deletion."""
        empty(world.db)
        service(client.application, Callers).forget()
        player = world.add_player(Name="Aladric", Inventory={"0": {"ItemId": ITEM, "Quantity": 5}})
        staff.update(world.headers())
        assert delete(client, staff).status_code == 200
        return player, entries(client, staff, player["_id"])[0]

    def test_what_was_restored_deleted_and_restored_meanwhile_is_restored_once(
        self, app, client, db, world, staff
    ):
        """The late one must not bring the player back as it was before the others' changes."""

        def begin():
            player, entry = self.deleted(world, client, staff)
            late = {"Idempotency-Key": "late"}
            return lambda: undo(client, staff, entry, **late), (player, entry)

        def play(known):
            player, entry = known
            other = app.test_client()
            if undo(other, staff, entry).status_code != 200:
                return
            take = {"itemid": ITEM, "quantity": 2}
            path = f"/api/v1/players/{player['_id']}/items/take"
            assert other.post(path, json=take, headers=staff).status_code == 200
            assert delete(other, staff).status_code == 200

        def check(known, answer, when):
            player, _ = known
            finish(app)
            there = db.players.find_one({"_id": player["_id"]})
            kept = db.deleted_players.find_one({"_id": player["_id"]})
            assert (there is None) != (kept is None), (when, answer.json)
            held = (there or kept["Player"])["Inventory"]["0"]["Quantity"]
            undos = db.history.count_documents({"Operation": "undo"})
            takes = db.history.count_documents({"Operation": "take"})
            assert held == 5 - 2 * takes, (when, answer.json)
            assert undos == 1, (when, answer.json)
            assert answer.status_code == (409 if takes else 200), (when, answer.json)

        at_every_write(begin, play, check)

    def test_the_same_undo_many_times_at_once_is_one_undo(self, app, client, db, world, staff):
        for round_ in range(5):
            _, entry = self.deleted(world, client, staff)
            once = {"Idempotency-Key": f"undo {round_}"}
            with ThreadPoolExecutor(8) as pool:
                sent = [
                    pool.submit(undo, app.test_client(), staff, entry, **once) for _ in range(8)
                ]
                answers = [one.result() for one in sent]
            assert {answer.status_code for answer in answers} == {200}, answers
            assert len({answer.json["Id"] for answer in answers}) == 1
            assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
            assert db.players.count_documents({}) == 1
            assert db.deleted_players.count_documents({}) == 0

    def test_the_same_undo_that_was_faster_and_has_moved_is_no_refusal(
        self, app, client, db, world, staff
    ):
        once = {"Idempotency-Key": "once"}

        def begin():
            _, entry = self.deleted(world, client, staff)
            return lambda: undo(client, staff, entry, **once), entry

        def undo_and_move(entry):
            assert undo(app.test_client(), staff, entry, **once).status_code == 200
            finish(app)

        def check(entry, answer, when):
            assert answer.status_code == 200, (when, answer.json)

        at_every_step(begin, undo_and_move, check, READS)

    def test_what_is_rolled_back_is_restored_again(self, app, client, db, world, staff):
        """A primary that was cut off had the player alone: it is gone before any next step."""

        def begin():
            player, entry = self.deleted(world, client, staff)
            return lambda: undo(client, staff, entry, **{"Idempotency-Key": "once"}), player

        def roll_back(player):
            # What a majority has decided is not rolled back.
            db.players.delete_one({"RestorePending": True})

        def check(player, answer, when):
            finish(app)
            there = db.players.count_documents({"_id": player["_id"]})
            assert (answer.status_code, there) == (200, 1), (when, answer.json)
            assert db.deleted_players.count_documents({}) == 0, when

        at_every_write(begin, roll_back, check)

    def test_who_dies_at_any_write_leaves_the_player_in_one_place(
        self, app, client, db, world, staff
    ):
        class Killed(BaseException):
            pass

        def die(_):
            raise Killed

        def begin():
            player, entry = self.deleted(world, client, staff)

            def act():
                try:
                    return undo(client, staff, entry, **{"Idempotency-Key": "once"})
                except Killed:
                    return None

            return act, (player, entry)

        def check(known, answer, when):
            player, entry = known
            finish(app)
            again = undo(client, staff, entry, **{"Idempotency-Key": "once"})
            assert again.status_code == 200, (when, again.json)
            assert db.players.find_one()["Inventory"] == player["Inventory"], when
            assert db.deleted_players.count_documents({}) == 0, when
            finish(app)
            assert db.history.count_documents({"Operation": "undo"}) == 1, when

        at_every_write(begin, die, check)
