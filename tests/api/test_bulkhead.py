"""The bulkhead: a slow database holds neither all threads nor any request for long."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
from pymongo import _csot
from pymongo.errors import PyMongoError

from app.errors import Unavailable
from app.storage.bulkhead import Bulkhead, RequestBudget, run_within_budget
from app.storage.errors import explain

LONG = 60.0


@contextmanager
def at_the_database(held, requests=1):
    """Hold so many slots of other requests until the block ends."""
    leave, inside = threading.Event(), threading.Semaphore(0)

    def operation():
        inside.release()
        leave.wait(LONG)

    def request():
        with RequestBudget(held, LONG, time.monotonic()):
            run_within_budget(operation)

    threads = [threading.Thread(target=request) for _ in range(requests)]
    for thread in threads:
        thread.start()
        inside.acquire()
    try:
        yield leave
    finally:
        leave.set()
        for thread in threads:
            thread.join()


def test_an_operation_runs_while_a_slot_is_free():
    held = Bulkhead(2)
    with at_the_database(held), RequestBudget(held, LONG, time.monotonic()):
        assert run_within_budget(lambda word: word, "done") == "done"


def test_a_young_request_waits_for_the_next_slot():
    held, answers = Bulkhead(1, LONG), []

    def request():
        with RequestBudget(held, LONG, time.monotonic()):
            answers.append(run_within_budget(lambda: "done"))

    with at_the_database(held) as leave:
        waiting = threading.Thread(target=request)
        waiting.start()
        assert not answers
        leave.set()
        waiting.join()
    assert answers == ["done"]


def test_a_request_that_has_waited_enough_elsewhere_is_refused_at_once():
    held = Bulkhead(1, LONG)
    old = RequestBudget(held, LONG, time.monotonic() - LONG)
    with at_the_database(held), old, pytest.raises(Unavailable, match="The database is slow"):
        run_within_budget(lambda: "done")


def test_nobody_waits_where_nobody_comes_back():
    held = Bulkhead(1, patience=0.0)
    budget = RequestBudget(held, LONG, time.monotonic() + LONG)
    with at_the_database(held), budget, pytest.raises(Unavailable):
        run_within_budget(lambda: "done")


def test_a_slot_is_freed_by_an_operation_that_fails():
    held = Bulkhead(1)
    for _ in range(3):
        with RequestBudget(held, LONG, time.monotonic()), pytest.raises(ZeroDivisionError):
            run_within_budget(lambda: 1 / 0)


def test_all_operations_of_a_request_share_its_time():
    with RequestBudget(Bulkhead(1), 0.01, time.monotonic()):
        run_within_budget(time.sleep, 0.02)
        with pytest.raises(Unavailable):
            run_within_budget(lambda: "too late")


def test_the_database_is_told_how_much_time_is_left(real_db):
    """Without a limit, this operation would take for ever."""
    real_db["players"].insert_one({"_id": "somebody"}, bypass_document_validation=True)
    forever = {"$where": "while (true) {}"}
    with RequestBudget(Bulkhead(1), 0.2, time.monotonic()), pytest.raises(Exception, match="time"):
        real_db["players"].find_one(forever, {})


def test_outside_of_a_request_nobody_waits():
    with at_the_database(Bulkhead(1)):
        assert run_within_budget(lambda: "done") == "done"


def test_requests_get_their_budget_from_the_application(app, client, monkeypatch):
    seen = []

    def request_scope(arrived_at):
        seen.append(arrived_at)
        return RequestBudget(Bulkhead(1), LONG, arrived_at)

    monkeypatch.setattr(app, "request_scope", request_scope)
    assert client.get("/healthz").status_code == 200
    assert len(seen) == 1


def test_everybody_who_waits_gets_one_of_the_slots_that_are_freed_together():
    held, answers = Bulkhead(4, LONG), []

    def request():
        with RequestBudget(held, LONG, time.monotonic()):
            answers.append(run_within_budget(lambda: "done"))

    waiting = [threading.Thread(target=request) for _ in range(16)]
    with at_the_database(held, requests=4) as leave:
        for thread in waiting:
            thread.start()
        leave.set()
        for thread in waiting:
            thread.join(LONG / 2)
    assert len(answers) == len(waiting)


def test_whoever_gets_no_slot_is_told_so_as_the_database_would_tell():
    held = Bulkhead(0)
    with RequestBudget(held, LONG, time.monotonic() - LONG), pytest.raises(PyMongoError) as refused:
        run_within_budget(lambda: "done")
    assert isinstance(refused.value, Unavailable)
    assert explain(refused.value) is None


def test_waiting_for_a_slot_is_part_of_the_time_of_a_request():
    held, seen = Bulkhead(1, LONG), []

    def request():
        with RequestBudget(held, LONG, time.monotonic()):
            run_within_budget(lambda: seen.append(_csot.remaining()))

    with at_the_database(held) as leave:
        waiting = threading.Thread(target=request)
        waiting.start()
        time.sleep(0.3)
        leave.set()
        waiting.join()
    assert seen[0] < LONG - 0.3
