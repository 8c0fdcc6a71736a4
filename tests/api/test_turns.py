"""Turns at the database: a slow one holds neither all threads nor any request for long."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
from pymongo import _csot
from pymongo.errors import PyMongoError

from app.errors import Unavailable
from app.storage import turns
from app.storage.faults import explain
from app.storage.turns import Turns, Visit, in_turn

LONG = 60.0


@contextmanager
def at_the_database(held, requests=1):
    """Hold so many turns of other requests until the block ends."""
    leave, inside = threading.Event(), threading.Semaphore(0)

    def operation():
        inside.release()
        leave.wait(LONG)

    def request():
        with Visit(held, LONG, time.monotonic()):
            in_turn(operation)

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


def test_an_operation_runs_while_a_turn_is_free():
    held = Turns(2)
    with at_the_database(held), Visit(held, LONG, time.monotonic()):
        assert in_turn(lambda word: word, "done") == "done"


def test_a_young_request_waits_for_the_next_turn(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", LONG)
    held, answers = Turns(1), []

    def request():
        with Visit(held, LONG, time.monotonic()):
            answers.append(in_turn(lambda: "done"))

    with at_the_database(held) as leave:
        waiting = threading.Thread(target=request)
        waiting.start()
        assert not answers
        leave.set()
        waiting.join()
    assert answers == ["done"]


def test_a_request_that_has_waited_enough_elsewhere_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", LONG)
    held = Turns(1)
    old = Visit(held, LONG, time.monotonic() - LONG)
    with at_the_database(held), old, pytest.raises(Unavailable, match="The database is slow"):
        in_turn(lambda: "done")


def test_nobody_waits_where_nobody_comes_back(monkeypatch):
    held = Turns(1)
    with at_the_database(held):
        monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.0)
        with Visit(held, LONG, time.monotonic() + LONG), pytest.raises(Unavailable):
            in_turn(lambda: "done")


def test_a_turn_comes_back_from_an_operation_that_fails():
    held = Turns(1)
    for _ in range(3):
        with Visit(held, LONG, time.monotonic()), pytest.raises(ZeroDivisionError):
            in_turn(lambda: 1 / 0)


def test_all_operations_of_a_request_share_its_time():
    with Visit(Turns(1), 0.01, time.monotonic()):
        in_turn(time.sleep, 0.02)
        with pytest.raises(Unavailable):
            in_turn(lambda: "too late")


def test_the_database_is_told_how_much_time_is_left(real_db):
    """Without a limit, this operation would take for ever."""
    real_db["players"].insert_one({"_id": "somebody"}, bypass_document_validation=True)
    forever = {"$where": "while (true) {}"}
    with Visit(Turns(1), 0.2, time.monotonic()), pytest.raises(Exception, match="time"):
        real_db["players"].find_one(forever, {})


def test_outside_of_a_request_nobody_waits():
    with at_the_database(Turns(1)):
        assert in_turn(lambda: "done") == "done"


def test_requests_get_their_turns_from_the_application(app, client, monkeypatch):
    seen = []

    def visit(arrived_at):
        seen.append(arrived_at)
        return Visit(Turns(1), LONG, arrived_at)

    monkeypatch.setattr(app, "within", visit)
    assert client.get("/healthz").status_code == 200
    assert len(seen) == 1


def test_everybody_who_waits_gets_a_turn_of_those_that_come_back_together(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", LONG)
    held, answers = Turns(4), []

    def request():
        with Visit(held, LONG, time.monotonic()):
            answers.append(in_turn(lambda: "done"))

    waiting = [threading.Thread(target=request) for _ in range(16)]
    with at_the_database(held, requests=4) as leave:
        for thread in waiting:
            thread.start()
        leave.set()
        for thread in waiting:
            thread.join(LONG / 2)
    assert len(answers) == len(waiting)


def test_whoever_gets_no_turn_is_told_so_as_the_database_would_tell():
    held = Turns(0)
    with Visit(held, LONG, time.monotonic() - LONG), pytest.raises(PyMongoError) as refused:
        in_turn(lambda: "done")
    assert isinstance(refused.value, Unavailable)
    assert explain(refused.value) is None


def test_waiting_for_a_turn_is_part_of_the_time_of_a_request(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", LONG)
    held, seen = Turns(1), []

    def request():
        with Visit(held, LONG, time.monotonic()):
            in_turn(lambda: seen.append(_csot.remaining()))

    with at_the_database(held) as leave:
        waiting = threading.Thread(target=request)
        waiting.start()
        time.sleep(0.3)
        leave.set()
        waiting.join()
    assert seen[0] < LONG - 0.3
