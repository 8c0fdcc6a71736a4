"""Pages and totals."""

from __future__ import annotations

import pytest

from app.http.stores import PARTS
from app.paging import Window
from app.players.store import Players
from app.storage.totals import Total
from tests.factories import make_bag

NAMES = ["anna", "Bert", "Çelik", "dora", "Émile", "françois", "Gert"]


@pytest.fixture
def players(app, world):
    for name in reversed(NAMES):
        world.add_player(Name=name)
    return app.extensions[PARTS][Players]


def names(page):
    return [player["Name"] for player in page.values]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_walk_over_all_pages_sees_each_record_once_in_order(players, size):
    seen = []
    for page in range(100):
        found = players.list(Window(page, size, size))
        assert found.total == len(NAMES)
        if not found.values:
            break
        seen += names(found)
    assert seen == ["anna", "Bert", "dora", "françois", "Gert", "Çelik", "Émile"]


def test_a_page_past_the_end_is_empty_with_the_right_total(players):
    assert players.list(Window(2**53, 100, 100)) == (len(NAMES), [])


def test_limit_cuts_a_page_without_moving_the_next(players):
    assert names(players.list(Window(0, 3, 1))) == ["anna"]
    assert names(players.list(Window(1, 3, 1))) == ["françois"]


def test_lists_do_not_load_what_they_do_not_serve(players, db):
    served = players.list(Window(0, 1, 1)).values[0]
    hidden = {"_id", "NameKey", "NameTails", "Version", "Journal"}
    assert not served.keys() & (hidden | {"Inventory", "Bank", "Spells", "Variables"})


def test_the_list_answers_in_the_paged_envelope(players, client, as_role):
    response = client.get("/api/v1/players?page=1&pageSize=3&limit=2", headers=as_role())
    assert list(response.json) == ["Total", "Page", "PageSize", "Count", "Values"]
    assert [response.json[k] for k in ("Total", "Page", "PageSize", "Count")] == [7, 1, 3, 2]
    assert [player["Name"] for player in response.json["Values"]] == ["françois", "Gert"]


def test_a_total_is_read_again_when_it_is_old(real_db, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    total = Total(real_db.bags, 1.0)
    real_db.bags.insert_one(make_bag())
    assert total.get() == 1
    real_db.bags.insert_one(make_bag())
    assert total.get() == 1
    clock[0] += 1.1
    assert total.get() == 2


def test_a_counter_that_a_crash_left_wrong_is_corrected(real_db, monkeypatch):
    """The error of MongoDB's own counter is measured and subtracted."""
    real_db.bags.insert_many([make_bag() for _ in range(3)])

    class Miscounting:
        count_documents = staticmethod(real_db.bags.count_documents)
        database = real_db

        @staticmethod
        def estimated_document_count():
            return real_db.bags.estimated_document_count() + 40

    total = Total(Miscounting(), 1.0)
    assert total.get() == 3
