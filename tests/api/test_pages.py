"""Pages and totals."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo.errors import AutoReconnect

from app.core.paging import Window
from app.core.permissions import Role
from app.players.store import Players
from app.storage.paging.totals import Total, cached_number
from tests.applications import service
from tests.factories import make_bag

NAMES = ["anna", "Bert", "Çelik", "dora", "Émile", "françois", "Gert"]


@pytest.fixture
def players(app, world):
    for name in reversed(NAMES):
        world.add_player(Name=name)
    return service(app, Players)


def test_a_page_past_the_end_is_empty_with_the_right_total(players):
    assert players.list(Window(2**53, 100, 100)) == (len(NAMES), [], None)


OBJECTS = "gameobjects/item"
LISTS = [
    ("GET", "pageSize", ("players", "players/rank", "users", OBJECTS, "history", "events")),
    ("POST", "count", ("players", "players/online", "users", OBJECTS, "variables/global")),
]


@pytest.mark.parametrize(("method", "argument", "paths"), LISTS)
def test_a_page_that_is_cut_says_so(client, as_role, method, argument, paths):
    headers = as_role(Role.API, Role.USERS_QUERY)
    for path, size in itertools.product(paths, (100, 101)):
        sent = {"json" if method == "POST" else "query_string": {argument: size}}
        answer = client.open(f"/api/v1/{path}", method=method, headers=headers, **sent)
        cut = [f'299 quartermaster "{argument} was reduced to 100."'] if size > 100 else []
        assert (answer.status_code, answer.headers.getlist("Warning")) == (200, cut), path


def test_a_list_by_body_says_that_it_ignores_the_query(client, as_role):
    sent = {"json": {"count": 5000}, "headers": as_role()}
    answer = client.post("/api/v1/gameobjects/item?page=1&pageSize=5000", **sent)
    ignored = "The query was ignored: send page and count in the body."
    warnings = answer.headers.getlist("Warning")
    assert warnings == [f'299 quartermaster "{t}"' for t in (ignored, "count was reduced to 100.")]


def test_lists_do_not_load_what_they_do_not_serve(players, db):
    served = players.list(Window(0, 1, 1)).values[0]
    hidden = {"_id", "NameKey", "NameTails", "Version"}
    assert not served.keys() & (hidden | {"Inventory", "Bank", "Spells", "Variables"})


class Clock:
    """A monotonic clock that a test moves on."""

    seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


def test_a_total_is_read_again_when_it_is_old(real_db, clock):
    total = Total(real_db.bags, 1.0, clock)
    real_db.bags.insert_one(make_bag())
    assert total.get() == 1
    real_db.bags.insert_one(make_bag())
    assert total.get() == 1
    clock.seconds += 1.1
    assert total.get() == 2


class Counted:
    """A collection whose counter is off, and which says how often it was really counted."""

    def __init__(self, bags, error=0):
        self.database, self._bags, self.error = bags.database, bags, error
        self.counts = 0
        self.meanwhile = lambda: None

    def estimated_document_count(self):
        return self._bags.estimated_document_count() + self.error

    def count_documents(self, where, **options):
        self.counts += 1
        self.meanwhile()
        return self._bags.count_documents(where, **options)


def test_threads_that_come_together_count_once(real_db):
    real_db.bags.insert_many([make_bag() for _ in range(3)])
    counted, together = Counted(real_db.bags, 40), threading.Barrier(8)
    total = Total(counted, 1.0)

    def get(_):
        together.wait()
        return total.get()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(get, range(8))) == [3] * 8
    assert counted.counts == 1


def test_a_fault_during_the_measure_is_not_taken_for_one(real_db, clock):
    """Right after a crash a server may refuse; the error of the one before it is none of its."""
    real_db.bags.insert_many([make_bag() for _ in range(3)])
    counted = Counted(real_db.bags, 40)
    total = Total(counted, 1.0, clock)

    def fail():
        raise AutoReconnect("not primary yet")

    counted.meanwhile = fail
    with pytest.raises(AutoReconnect):
        total.get()
    counted.meanwhile = lambda: None
    assert total.get() == 3


def test_a_measure_that_writes_disturb_is_taken_again_soon(real_db, clock):
    counted = Counted(real_db.bags, 40)
    total = Total(counted, 1.0, clock)
    counted.meanwhile = lambda: real_db.bags.insert_one(make_bag())
    assert abs(total.get() - 1) <= 1
    counted.meanwhile = lambda: None
    clock.seconds += 31
    assert total.get() == 1
    clock.seconds += 31
    assert total.get() == 1
    assert counted.counts == 2


def test_a_read_that_fails_is_its_callers_alone(clock):
    outcomes = [5, TimeoutError(), 7]

    def read():
        outcome = outcomes.pop(0)
        if isinstance(outcome, TimeoutError):
            raise outcome
        return outcome

    fresh = cached_number(1.0, read, clock)
    assert fresh() == 5
    clock.seconds += 2
    with pytest.raises(TimeoutError):
        fresh()
    assert fresh() == 7
