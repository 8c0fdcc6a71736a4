"""A slow database, or other slow work, holds neither all threads nor any request for long."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pymongo
import pytest
from flask import Flask
from pymongo.errors import PyMongoError

from app.core.limits import (
    LONGEST_RETRY,
    DatabasePlaces,
    Limiter,
    RequestScope,
    TooManyAtOnce,
    at_database,
    renew_time_limit,
    working,
)
from app.http.tracing import RequestTracing
from app.storage.errors import explain
from app.users import mail
from tests.applications import service
from tests.mongod import on_mongodb
from tests.system.programs import wait_until

LONG = 60.0


def request(places, age=0.0):
    return RequestScope(places, time.monotonic() - age)


@contextmanager
def held(limiter, holders=("",)):
    """Let others hold or wait for places until the block ends."""
    leave = threading.Event()

    def hold(holder):
        with limiter.place(holder):
            leave.wait(LONG)

    threads = [threading.Thread(target=hold, args=[holder]) for holder in holders]
    before = limiter.in_use
    for thread in threads:
        thread.start()
    wait_until(lambda: limiter.in_use == min(limiter.places, before + len(holders)))
    try:
        yield leave
    finally:
        leave.set()
        for thread in threads:
            thread.join()


def is_refused(limiter, holder=""):
    try:
        with limiter.place(holder):
            return False
    except TooManyAtOnce:
        return True


def test_a_place_is_free_again_when_the_work_has_ended_or_failed():
    limiter = Limiter("Others try", 1)
    for _ in range(2):
        with limiter.place():
            assert is_refused(limiter)
        with pytest.raises(ZeroDivisionError), limiter.place():
            raise ZeroDivisionError
    assert limiter.in_use == 0


def test_one_holder_leaves_places_for_others():
    limiter = Limiter("Others try", 3, own=("You try", 2))
    with held(limiter, ["a", "a"]):
        with pytest.raises(TooManyAtOnce, match=r"^You try at the moment; please try again\.$"):
            limiter.enter("a")
        assert not is_refused(limiter, "b")
        with held(limiter, ["b"]), pytest.raises(TooManyAtOnce, match=r"^Others try at"):
            limiter.enter("c")


def test_everybody_who_waits_gets_one_of_the_places_that_are_freed_together():
    limiter = Limiter("Others try", 4, queue=16, patience=LONG)
    waiting = [threading.Thread(target=is_refused, args=[limiter]) for _ in range(16)]
    with held(limiter, [""] * 4) as leave:
        for thread in waiting:
            thread.start()
        wait_until(lambda: limiter._waiting == 16)
        # A full queue refuses at once.
        assert is_refused(limiter)
        leave.set()
        for thread in waiting:
            thread.join(LONG / 2)
    assert not any(thread.is_alive() for thread in waiting)


def test_waiting_counts_from_the_arrival_of_a_request():
    limiter = Limiter("Others try", 1, queue=9, patience=LONG)
    with held(limiter), request(DatabasePlaces(1), age=LONG), pytest.raises(TooManyAtOnce):
        working(limiter).__enter__()


def test_a_crowd_that_is_refused_does_not_come_back_all_at_once():
    limiter, told = Limiter("Others try", 0), set()
    for _ in range(100):
        with pytest.raises(TooManyAtOnce) as refused:
            limiter.enter()
        told.add(refused.value.retry_after)
    assert told == {*range(1, LONGEST_RETRY + 1)}


def test_other_work_takes_no_place_at_the_database():
    places, work = DatabasePlaces(1), Limiter("Others try", 1)
    with request(places), at_database():
        assert places.in_use == 1
        with working(work), working(work):
            assert (places.in_use, work.in_use) == (0, 1)
        assert (places.in_use, work.in_use) == (1, 0)
    assert places.in_use == 0


def test_a_response_that_outlasts_its_request_leaves_no_place_taken():
    places, work = DatabasePlaces(1), Limiter("Others try", 1)
    with request(places), at_database():
        sending = working(work)
        sending.__enter__()
    sending.__exit__(None, None, None)
    assert (places.in_use, work.in_use) == (0, 0)


def test_commands_wait_for_nobody():
    limiter = Limiter("Others try", 1)
    with held(limiter), working(limiter), at_database():
        assert limiter.in_use == 1


@pytest.fixture
def places():
    return DatabasePlaces(1, partial(pymongo.timeout, 0.2))


def test_all_operations_of_a_request_share_its_time(places, real_db):
    with request(places), at_database():
        time.sleep(0.3)
        with pytest.raises(PyMongoError) as late:
            real_db["players"].find_one({})
        assert explain(late.value)
        renew_time_limit()
        assert real_db["players"].find_one({}) is None


@on_mongodb
def test_the_time_of_other_work_and_of_mails_does_not_count(app, places, real_db, monkeypatch):
    """Within the place, so that the outcome of a password that took long to hash is stored."""
    work = Limiter("Others try", 1)
    with request(places), working(work):
        with working(work):
            time.sleep(0.3)
        assert real_db["players"].find_one({}) is None

    @contextmanager
    def slow_mail_server(_):
        time.sleep(0.3)
        yield SimpleNamespace(send=lambda _: None)

    monkeypatch.setattr(mail, "TimedConnection", slow_mail_server)
    with request(places), at_database():
        service(app, mail.Mailer)._send("a mail")
        assert real_db["players"].find_one({}) is None


def test_the_database_knows_how_much_time_is_left(places, real_db):
    """Without a limit, this operation would take for ever."""
    real_db["players"].insert_one({"_id": "somebody"}, bypass_document_validation=True)
    with request(places), at_database(), pytest.raises(PyMongoError, match="time"):
        real_db["players"].find_one({"$where": "while (true) {}"}, {})


def test_what_needs_no_database_is_served_while_it_hangs(app, client, as_role, monkeypatch):
    places, headers = DatabasePlaces(1), as_role()
    places.patience = 0.0
    inner = partial(Flask.wsgi_app, app)
    traced = RequestTracing(inner, lambda at, _: RequestScope(places, at))
    monkeypatch.setattr(app, "wsgi_app", traced)
    with held(places):
        served = {path: client.get(path).status_code for path in ("/healthz", "/metrics", "/api")}
        assert set(served.values()) <= {200, 302, 404}, served
        refused = client.get("/api/v1/players", headers=headers)
        assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
        assert refused.json["Message"].startswith("The database is slow at the moment; ")
