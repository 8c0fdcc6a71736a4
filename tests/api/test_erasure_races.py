"""Writes while a person is erased: what began before the fence is swept, the rest is refused."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo.collection import Collection

from app.privacy.store import Erasures
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
NAMED = (people.HERO, "Stranger")

pytestmark = on_mongodb


BATCH_ROW = {"Operation": "give", **people.GIFT}
EVENT = {"Id": "1", "Player": "{hero}", "At": "2026-11-18T00:00:00Z", "Kind": "loot"}
SIGN_IN = {"grant_type": "password", "username": people.NAME, "password": sha256("secret")}
ABOUT = f"v1/players/{people.HERO}"
# What staff do about the person, or with what is theirs, and what they do themselves.
BY_STAFF = {
    "save a new character": ("PUT v1/players/{new}", {"Name": "Newest", "UserId": "{user}"}),
    "save a former one": ("PUT v1/players/{hero}", {"Level": 7}),
    "save one for the person": ("PUT v1/players/{stranger}", {"UserId": "{user}"}),
    "give": (f"POST {ABOUT}/items/give", GIFT),
    "delete": (f"DELETE {ABOUT}", None),
    "restore": ("POST v1/history/{deletion}/undo", None),
    "note": (f"POST v1/users/{people.NAME}/notes", {"Text": "late"}),
    "kick": (f"POST {ABOUT}/admin/kick", None),
    "sign in": ("POST oauth/token", SIGN_IN),
    "report an event": ("POST v1/game/events", {"Events": [EVENT]}),
    # By id: what others type about the person later stays.
    "plan": (
        "POST v1/batches",
        {"Rows": [{"Player": name, **BATCH_ROW} for name in ("{hero}", "Stranger")]},
    ),
    "erase": ("POST v1/users/{user}/erase", CONFIRM),
}
BY_PERSON = {
    "give as": ("POST v1/players/Stranger/items/give", GIFT),
    "note as": ("POST v1/players/Stranger/notes", {"Text": "late"}),
    "ban as": ("POST v1/users/Colleague/admin/ban", {"duration": 3}),
    "make a key": ("POST v1/keys", {"Name": f"{people.NAME}s", "Scopes": ["players.read"]}),
    "chat as": ("POST v1/chat/global", {"Message": "Hi."}),
    "plan as": ("POST v1/batches", {"Rows": [{"Player": "Stranger", **BATCH_ROW}], "Name": "mine"}),
}


def filled(value, ids):
    """Return a path or a body with the ids of the world that was made."""
    if isinstance(value, dict):
        return {name: filled(part, ids) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, ids) for part in value]
    return value.format(**ids) if isinstance(value, str) else value


@pytest.fixture
def begin(app, client, world, db):
    """Make a new world; return what acts in it, what erases the person elsewhere, and the id."""

    def begin():
        written.empty(db)
        user_id, headers = people.build_few(world, client)
        person = world.headers(user=db.users.find_one({"_id": user_id}))
        hero, stranger = (db.players.find_one({"Name": name})["_id"] for name in NAMED)
        deletion = db.history.find_one({"Operation": "delete-player"})["_id"]
        ids = {"user": user_id, "hero": hero, "stranger": stranger, "deletion": deletion}

        def act(name):
            by, table = (headers, BY_STAFF) if name in BY_STAFF else (person, BY_PERSON)
            request, body = filled([*table[name]], {**ids, "new": guid()})
            with playing(db):
                return Caller(client, by, "/api/")(request, body, None)

        def erase():
            """Let another worker erase the person."""
            other = Caller(app.test_client(), headers, "/api/v1/")
            with ThreadPoolExecutor(1) as others:
                others.submit(other, f"POST users/{user_id}/erase", CONFIRM).result()

        return act, erase, user_id

    return begin


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


@pytest.mark.parametrize("name", [*BY_STAFF, *BY_PERSON])
def test_what_begins_after_an_erasure_is_refused(app, db, begin, name):
    """Its worker stood still since it had authenticated the caller, before each transaction."""
    for before in itertools.count(1):
        act, erase, user_id = begin()
        with pytest.MonkeyPatch.context() as patch:
            stop = Stop(patch, before, erase)
            answer = act(name)
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


@pytest.mark.parametrize("name", ["give", "note as", "save a new character", "restore", "sign in"])
def test_what_began_before_an_erasure_has_ended_when_it_sweeps(app, db, begin, lifetime, name):
    """Its worker stood still in its transaction, which MongoDB ends."""
    act, erase, user_id = begin()
    thread, has_stood, plain = threading.get_ident(), False, Collection.insert_one

    def insert_one(collection, *args, **kw):
        nonlocal has_stood
        answer = plain(collection, *args, **kw)
        if threading.get_ident() == thread and current_transaction() and not has_stood:
            has_stood = True
            erase()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collection, "insert_one", insert_one)
        answer = act(name)
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


def test_a_game_that_overwrites_or_stores_again_is_found(app, db, begin):
    act, erase, _ = begin()
    hero = db.players.find_one({"Name": people.HERO})
    erase()
    # Of the character that it still has in memory, nothing says that the person was erased.
    db.players.replace_one({"_id": hero["_id"]}, hero, upsert=True)
    found = service(app, Erasures).find_returned()
    assert [one[:2] for one in found] == [("players", hero["_id"])]
    for name in ("save a former one", "give"):
        refused = act(name)
        assert (refused.status_code, "erased" in refused.json["Message"]) == (409, True)
