"""Samples for plots: players online, and counts and latencies of requests, per five minutes.

There is one document for each interval, to which every worker adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.core.metrics import request_totals
from app.core.services import current
from app.core.types import Document
from app.history.store import History
from app.players.store import Players
from app.storage.client import Storage
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import MOMENT, object_shape

INTERVAL = timedelta(minutes=5)
MICROSECONDS = 1_000_000


class Traffic(NamedTuple):
    """Counts of requests, of failures, and a histogram of latencies.

    A request that is slower than the last bound is in no bucket.
    """

    requests: int = 0
    # Answers with a status of 500 or more.
    failures: int = 0
    # By upper bound, in seconds; each request is in one bucket.
    buckets: Mapping[float, int] = {}

    def since(self, earlier: Traffic) -> Traffic:
        """Return the difference from an earlier count."""
        return Traffic(
            self.requests - earlier.requests,
            self.failures - earlier.failures,
            {bound: count - earlier.buckets.get(bound, 0) for bound, count in self.buckets.items()},
        )


def interval_of(moment: datetime) -> datetime:
    """Return the beginning of the interval that contains a moment."""
    minute = moment - timedelta(seconds=moment.second, microseconds=moment.microsecond)
    return minute - timedelta(minutes=moment.minute % 5)


def increments(traffic: Traffic) -> Document:
    """Return by path the increments of a sample. Bounds are stored in microseconds.

    In seconds they would contain a dot, which separates the parts of a path.
    """
    buckets = {
        f"Buckets.{round(bound * MICROSECONDS)}": count
        for bound, count in traffic.buckets.items()
        if count
    }
    return {"Requests": traffic.requests, "Failures": traffic.failures, **buckets}


def traffic_of(samples: Iterable[Document]) -> Traffic:
    requests = failures = 0
    buckets: dict[float, int] = {}
    for sample in samples:
        requests += sample.get("Requests", 0)
        failures += sample.get("Failures", 0)
        for bound, count in sample.get("Buckets", {}).items():
            seconds = int(bound) / MICROSECONDS
            buckets[seconds] = buckets.get(seconds, 0) + count
    return Traffic(requests, failures, buckets)


def quantile(traffic: Traffic, share: float) -> float | None:
    """Return the bound, in seconds, below which this share of the requests was answered."""
    wanted = share * traffic.requests
    seen = 0
    for bound in sorted(traffic.buckets):
        seen += traffic.buckets[bound]
        if traffic.requests and seen >= wanted:
            return bound
    return None


SAMPLES = CollectionPlan("samples", object_shape({"_id": MOMENT, "ExpiresAt": MOMENT}), (expiry(),))
KEPT = timedelta(days=8)
DAY, AGES = timedelta(days=1), timedelta(days=36_500)
Count = Callable[[], Mapping[Any, int]]


class Samples:
    def __init__(self, storage: Storage) -> None:
        self._samples = storage.db[SAMPLES.name]
        self.now = storage.clock.now
        self._expiry_of = storage.entries.expiry_of

    def add(self, interval: datetime, online: int, traffic: Traffic) -> None:
        """Add to the sample of an interval; other workers add to the same sample."""
        update = {
            # All workers count the same players, at slightly different times.
            "$max": {"Online": online},
            "$inc": increments(traffic),
            "$setOnInsert": {"ExpiresAt": interval + KEPT},
        }
        self._samples.update_one({"_id": interval}, update, upsert=True)

    def complete(self, interval: datetime, field: str, count: Count) -> None:
        """Add counts that one worker makes for all, unless another worker was faster."""
        lacks = {"_id": interval, field: {"$exists": False}}
        if self._samples.find_one(lacks, ["_id"]) is not None:
            counts = {str(name): number for name, number in count().items()}
            self._samples.update_one(lacks, {"$set": {field: counts}})

    def note_active(self, hour: datetime, count: Callable[[datetime], int]) -> None:
        """Add how many players were active in the 24 hours before; kept as long as history."""
        known = {"_id": hour, "Active": {"$exists": True}}
        if self._samples.find_one(known, ["_id"]) is None:
            fields = {
                "Active": count(hour - DAY),
                "ExpiresAt": hour + AGES,
                **self._expiry_of(hour),
            }
            self._samples.update_one({"_id": hour}, {"$set": fields}, upsert=True)

    def active(self, begin: datetime, end: datetime) -> dict[datetime, int]:
        """Return how many players were active in the 24 hours before each full hour."""
        within = {"_id": {"$gte": begin, "$lte": end}, "Active": {"$exists": True}}
        return {found["_id"]: found["Active"] for found in self._samples.find(within, ["Active"])}

    def since(self, begin: datetime) -> Sequence[Document]:
        """Return all samples since a time, the oldest first."""
        # The count of active players is there before the first sample of its hour.
        taken = {"_id": {"$gte": begin}, "Online": {"$exists": True}}
        return list(self._samples.find(taken, {"Levels": 0}, sort=[("_id", 1)]))

    def levels(self) -> dict[int, int]:
        """Return how many players have each level, from the latest count."""
        found = self._samples.find_one(
            {"Levels": {"$exists": True}}, ["Levels"], sort=[("_id", -1)]
        )
        counts = found["Levels"] if found else {}
        return {int(level): count for level, count in counts.items()}


samples = current(Samples)


EVERY_SECONDS = 60.0
# By then, the transactions of an interval have ended.
ENDED = timedelta(seconds=20)


class Sampler:
    """Counts the answers of its worker, and the players online, once a minute.

    Counts since the last sample are lost when the worker ends; the metrics keep them.
    """

    def __init__(self, samples: Samples, players: Players, history: History) -> None:
        self._samples, self._players, self._history = samples, players, history
        # A worker inherits the counters of the worker that it replaces.
        self._before = Traffic(*request_totals())
        self._due = 0.0

    def take_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.take()
            self._due = time.monotonic() + EVERY_SECONDS

    def take(self) -> None:
        """Add the counts since the last sample to the current interval."""
        now, traffic = self._samples.now(), Traffic(*request_totals())
        interval = interval_of(now)
        self._samples.add(interval, self._players.count_online(), traffic.since(self._before))
        self._before = traffic
        self._samples.complete(interval, "Levels", self._players.count_by_level)
        if (following := interval + INTERVAL).minute == 0:
            self._samples.note_active(following, self._players.count_active)
        end = interval_of(now - ENDED)
        begin = end - INTERVAL
        self._samples.complete(begin, "Changes", lambda: self._history.count_changes(begin, end))
