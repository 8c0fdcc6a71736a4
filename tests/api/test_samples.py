"""Samples: every worker adds what it has answered, and one counts levels and changes for all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

import config
from app.core import metrics
from app.game.samples import INTERVAL, KEPT, Samples, interval_of
from app.history.store import History
from app.players.store import Players
from app.storage.client import Storage
from app.storage.errors import DatabaseError
from tests.applications import service
from tests.factories import make_entry, make_player

# The present interval, for samples expire. In its middle, all entries of the former have moved.
# Not the last interval of an hour, in which active players are counted, too.
BEGIN = interval_of(datetime.now(timezone.utc).replace(minute=10))
MOMENT = BEGIN + INTERVAL / 2


@pytest.fixture
def settings(real_db, mongodb_uri):
    """On MongoDB alone: mongomock cannot delete a document whose id is a time."""
    return config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri)


@pytest.fixture
def make_samples(app):
    """Return a maker of what each worker has."""

    def make(now=MOMENT):
        samples = Samples(*(service(app, kind) for kind in (Storage, Players, History)))
        samples.now = lambda: now
        return samples

    return make


@pytest.fixture
def samples(make_samples):
    return make_samples()


@pytest.fixture
def sample(db):
    """Return the sample of the present interval, as it is stored."""
    return lambda: db.samples.find_one({"_id": BEGIN})


def answer(count, status=200, seconds=0.003, route="/api/v1/players"):
    for _ in range(count):
        metrics.record_request(route, "GET", status, seconds)


def test_a_sample_counts_what_was_answered_since_the_last_one(make_samples, sample):
    answer(5)  # before the worker begins
    sampler = make_samples()
    answer(3)
    answer(2, 503, 0.2)
    answer(1, 404, 99)
    sampler.take()
    found = sample()
    assert (found["Requests"], found["Failures"]) == (6, 2)
    within = [found["Within"][bound] for bound in ("2500", "5000", "250000", "10000000")]
    assert within == [0, 3, 5, 5]
    assert found["ExpiresAt"] == found["_id"] + KEPT
    answer(1)
    for _ in range(2):
        sampler.take()
    found = sample()
    counts = (
        found["Requests"],
        found["Failures"],
        found["Within"]["5000"],
        found["Within"]["250000"],
    )
    assert counts == (7, 2, 4, 6)


def test_several_workers_add_up(make_samples, sample, db):
    # In one process they see the same counters, so what one counts the other counts too.
    for sampler in [make_samples() for _ in range(3)]:
        answer(2)
        sampler.take()
    assert sample()["Requests"] == 2 + 4 + 6
    assert db.samples.count_documents({"Online": {"$exists": True}}) == 1


def test_probes_are_no_traffic():
    requests, failures, within = metrics.request_totals()
    for route in ("/healthz", "/readyz", "/metrics"):
        answer(2, route=route)
    answer(1, route=None)
    answer(1, 500, 20)
    since = metrics.request_totals()
    assert since[:2] == (requests + 2, failures + 1)
    # One took longer than the last bound.
    assert max(since[2].values()) == max(within.values()) + 1
    assert set(since[2]) == set(metrics.REQUEST_BUCKETS)


def test_a_sample_has_the_most_who_were_online_at_once(app, samples, sample, monkeypatch):
    for online in (3, 5, 4):
        monkeypatch.setattr(service(app, Players), "count_online", lambda online=online: online)
        samples.take()
    assert sample()["Online"] == 5


def test_levels_are_counted_once_in_an_interval(make_samples, sample, samples, world):
    for level in (0, 1, 7, 7):
        world.add_player(Level=level)
    for odd in ("x", None, 1.5):
        player = {**make_player(), "Level": odd}
        world.db.players.insert_one(player, bypass_document_validation=True)
    make_samples().take()
    world.add_player(Level=9)
    make_samples().take()
    assert sample()["Levels"] == {"0": 1, "1": 1, "7": 2}
    make_samples(MOMENT + INTERVAL).take()
    samples.complete(BEGIN + 9 * INTERVAL, "Active", lambda: 5)
    (found,) = samples.since(MOMENT)
    assert found["_id"] == BEGIN + INTERVAL
    assert found["Levels"] == {"0": 1, "1": 1, "7": 2, "9": 1}


def test_changes_are_counted_once_when_their_interval_is_over(make_samples, sample, db):
    player = make_player()
    times = [BEGIN - timedelta(milliseconds=1), BEGIN, BEGIN + INTERVAL / 3, BEGIN + INTERVAL]
    entries = [make_entry(player, Version=n, At=at) for n, at in enumerate(times, 2)]
    noted = make_entry(player, Version=9, At=BEGIN + INTERVAL / 3, Operation="note")
    db.history.insert_many([*entries, noted])
    # Soon after its end, transactions may still add to it.
    for now in (MOMENT, BEGIN + INTERVAL + timedelta(seconds=3)):
        make_samples(now).take()
        assert "Changes" not in sample()
    for _ in range(2):
        make_samples(MOMENT + INTERVAL).take()
        assert sample()["Changes"] == {"give": 2, "note": 1}
        db.history.insert_one(make_entry(make_player(), At=BEGIN))


def test_what_could_not_be_added_is_added_the_next_time(app, samples, sample, monkeypatch):
    answer(3)

    def fail(*_):
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr(service(app, Players), "count_online", fail)
        with pytest.raises(DatabaseError):
            samples.take()
    samples.take()
    assert sample()["Requests"] == 3


def test_a_sample_is_taken_once_a_minute(make_samples, sample):
    sampler = make_samples()
    for _ in range(3):
        answer(1)
        sampler.take_if_due()
    assert sample()["Requests"] == 1


def test_of_many_workers_that_begin_a_sample_at_once_none_is_lost(make_samples, samples):
    begin = threading.Barrier(8)
    workers = [[make_samples(BEGIN + n * INTERVAL) for _ in range(8)] for n in range(5)]
    answer(1)

    def take(samples):
        begin.wait(10)
        samples.take()

    with ThreadPoolExecutor(8) as pool:
        for at_once in workers:
            list(pool.map(take, at_once))
    found = samples.since(BEGIN)
    assert [(one["Requests"], one["Within"]["5000"]) for one in found] == [(8, 8)] * 5
