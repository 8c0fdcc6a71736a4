"""Writes while a person is erased: what began before the fence is swept, the rest is refused."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from pymongo.collection import Collection

from app.privacy.store import Erasures
from app.storage.client import Storage
from app.storage.lifetime import SETTING
from app.storage.transactions import Transactions, current_transaction
from tests import people
from tests.applications import service, written
from tests.callers import Caller
from tests.factories import guid, make_factor, numbered_guid, sha256
from tests.game import playing
from tests.mongod import on_mongodb

ITEM = numbered_guid(1)
GIFT = {"itemid": ITEM, "quantity": 1}
CONFIRM = {"Confirm": people.NAME}

pytestmark = on_mongodb


def save_new(staff, own, user_id):
    return staff(f"PUT players/{guid()}", {"Name": people.DELETED + "x", "UserId": user_id}, None)


def save_former(staff, own, user_id):
    hero = staff(f"GET players/{people.HERO}").json["Id"]
    return staff(f"PUT players/{hero}", {"Level": 7}, None)


def save_for_the_person(staff, own, user_id):
    """A game gives the person the character of somebody else."""
    stranger = staff("GET players/Stranger").json["Id"]
    return staff(f"PUT players/{stranger}", {"UserId": user_id}, None)


def give_to(staff, own, user_id):
    return staff(f"POST players/{people.HERO}/items/give", GIFT, None, X_Reason="a gift")


def give_as(staff, own, user_id):
    return own("POST players/Stranger/items/give", GIFT, None)


def delete(staff, own, user_id):
    return staff(f"DELETE players/{people.HERO}", None, None)


def restore(staff, own, user_id):
    found = staff(f"GET players/{people.DELETED}/history", None, None)
    if found.status_code == 404:
        return found
    return staff(f"POST history/{found.json['Values'][0]['Id']}/undo", None, None)


def note_about(staff, own, user_id):
    return staff(f"POST users/{people.NAME}/notes", {"Text": "late"}, None)


def note_by(staff, own, user_id):
    return own("POST players/Stranger/notes", {"Text": "late"}, None)


def ban_by(staff, own, user_id):
    return own("POST users/Colleague/admin/ban", {"duration": 3}, None)


def make_key(staff, own, user_id):
    return own("POST keys", {"Name": f"{people.NAME}s", "Scopes": ["players.read"]}, None)


def kick(staff, own, user_id):
    with playing(service(staff.client.application, Storage).db):
        return staff(f"POST players/{people.HERO}/admin/kick", None, None)


def chat_as(staff, own, user_id):
    with playing(service(staff.client.application, Storage).db):
        return own("POST chat/global", {"Message": "Hi."}, None)


def sign_in(staff, own, user_id):
    form = {"grant_type": "password", "username": people.NAME, "password": sha256("secret")}
    return staff.client.post("/api/oauth/token", data=form)


def report_event(staff, own, user_id):
    hero = staff(f"GET players/{people.HERO}").json["Id"]
    event = {"Id": "1", "Player": hero, "At": "2026-11-18T00:00:00Z", "Kind": "loot"}
    return staff("POST game/events", {"Events": [event]}, None)


def plan_about(staff, own, user_id):
    # By id: what others type about the person later stays.
    hero = staff(f"GET players/{people.HERO}").json["Id"]
    rows = [{"Player": name, "Operation": "give", **people.GIFT} for name in (hero, "Stranger")]
    return staff("POST batches", {"Rows": rows}, None)


def plan_as(staff, own, user_id):
    rows = [{"Player": "Stranger", "Operation": "give", **people.GIFT}]
    return own("POST batches", {"Rows": rows, "Name": "mine"}, None)


def erase(staff, own, user_id):
    return staff(f"POST users/{user_id}/erase", CONFIRM, None)


ACTS = [save_new, save_former, save_for_the_person, give_to, give_as, delete, restore]
ACTS += [note_about, note_by, ban_by, make_key, kick, chat_as, sign_in, report_event]
ACTS += [plan_about, plan_as, erase]


@pytest.fixture
def begin(app, client, world, db):
    """Make a new world; return callers that are the staff and the person, and the person's id."""

    def begin():
        written.empty(db)
        user_id, headers = people.build_few(world, client)
        own = world.headers(user=db.users.find_one({"_id": user_id}))
        return (*(Caller(client, sent, "/api/v1/") for sent in (headers, own)), user_id)

    return begin


@pytest.fixture
def elsewhere(app):
    """Let another worker erase the person."""

    def elsewhere(staff, user_id):
        other = Caller(app.test_client(), staff.headers, "/api/v1/")
        with ThreadPoolExecutor(1) as others:
            others.submit(other, f"POST users/{user_id}/erase", CONFIRM).result()

    return elsewhere


def require_gone(app, db, user_id, when):
    service(app, Erasures).request_seconds = 0.0
    service(app, Erasures).continue_all()
    assert people.found_in(db) == [], when
    assert db.players.count_documents({"UserId": user_id}) == 0, when
    assert list(service(app, Erasures).find_returned()) == [], when
    assert db.erasures.count_documents({"FinishedAt": None}) == 0, when


class Stop:
    """Stops this thread before one of its transactions, and lets others act meanwhile."""

    def __init__(self, patch, before, act):
        self._before, self._act = before, act
        self._thread, self._plain, self.begun = threading.get_ident(), Transactions._try, 0
        patch.setattr(Transactions, "_try", lambda *args: self._try(*args))

    def _try(self, *args):
        if threading.get_ident() == self._thread:
            self.begun += 1
            if self.begun == self._before:
                self._act()
        return self._plain(*args)


@pytest.mark.parametrize("act", ACTS)
def test_what_begins_after_an_erasure_is_refused(app, db, begin, elsewhere, act):
    """Its worker stood still since it had authenticated the caller, before each transaction."""
    for before in itertools.count(1):
        staff, own, user_id = begin()
        with pytest.MonkeyPatch.context() as patch:
            stop = Stop(patch, before, partial(elsewhere, staff, user_id))
            answer = act(staff, own, user_id)
        if stop.begun < before:
            break
        require_gone(app, db, user_id, (before, answer.text))
    assert before > 1, answer.text


@pytest.fixture
def lifetime(app, db, monkeypatch):
    """Let transactions live for a second, and erasures wait for them."""
    erasures, admin = service(app, Erasures), db.client.admin
    monkeypatch.setattr(erasures, "_seconds", lambda: Erasures._seconds(erasures))
    before = admin.command({"getParameter": 1, SETTING: 1})[SETTING]
    admin.command({"setParameter": 1, SETTING: 1})
    yield
    admin.command({"setParameter": 1, SETTING: before})


@pytest.mark.parametrize("act", [give_to, note_by, save_new, restore, sign_in])
def test_what_began_before_an_erasure_has_ended_when_it_sweeps(
    app, db, begin, elsewhere, lifetime, act
):
    """Its worker stood still in its transaction, which MongoDB ends."""
    staff, own, user_id = begin()
    thread, has_stood, plain = threading.get_ident(), False, Collection.insert_one

    def insert_one(collection, *args, **kw):
        nonlocal has_stood
        answer = plain(collection, *args, **kw)
        if threading.get_ident() == thread and current_transaction() and not has_stood:
            has_stood = True
            elsewhere(staff, user_id)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collection, "insert_one", insert_one)
        answer = act(staff, own, user_id)
    assert has_stood
    assert answer.status_code >= 400
    require_gone(app, db, user_id, answer.text)


def test_two_administrators_do_not_erase_each_other(client, world, app, db):
    fields = {"Roles": ["administrator"], "SecondFactor": make_factor()}
    users = [world.add_user("secret", Name=name, **fields) for name in ("One", "Two")]
    callers = [Caller(app.test_client(), world.headers(user=user), "/api/v1/") for user in users]

    def erase(number):
        other = ("Two", "One")[number]
        return callers[number](f"POST users/{other}/erase", {"Confirm": other}, None).status_code

    with ThreadPoolExecutor(2) as pool:
        one, other = sorted(pool.map(erase, range(2)))
    assert one == 200
    assert other in (401, 409)
    assert db.users.count_documents({"Roles": "administrator"}) == 1


def test_a_game_that_overwrites_or_stores_again_is_found(app, db, begin, elsewhere):
    staff, _, user_id = begin()
    erasures = service(app, Erasures)
    hero = db.players.find_one({"Name": people.HERO})
    elsewhere(staff, user_id)
    # Of the character that it still has in memory, nothing says that the person was erased.
    db.players.replace_one({"_id": hero["_id"]}, hero, upsert=True)
    assert [found[:2] for found in erasures.find_returned()] == [("players", hero["_id"])]
    for request, body in (
        (f"PUT players/{hero['_id']}", {"Level": 3}),
        (f"POST players/{hero['_id']}/items/give", GIFT),
    ):
        assert "erased" in staff(request, body, 409).json["Message"]
