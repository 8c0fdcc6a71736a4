"""Samples for plots: players online, and counts and latencies of requests, per five minutes.

There is one document for each interval, to which every worker adds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

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


def interval_of(moment: datetime) -> datetime:
    """Return the beginning of the interval that contains a moment."""
    return moment.replace(minute=moment.minute // 5 * 5, second=0, microsecond=0)


def request_counts() -> dict[str, int]:
    """Return this worker's counts by their path in a sample. Bounds are stored in microseconds.

    In seconds they would contain a dot, which separates the parts of a path.
    """
    requests, failures, within = request_totals()
    paths = {f"Within.{round(bound * MICROSECONDS)}": count for bound, count in within.items()}
    return {"Requests": requests, "Failures": failures, **paths}


def sum_of(samples: Sequence[Document]) -> Document:
    """Return the requests, the failures, and how many were answered within each time."""
    within: Counter[str] = Counter()
    for sample in samples:
        within.update(sample.get("Within", {}))
    return {
        "Requests": sum(sample.get("Requests", 0) for sample in samples),
        "Failures": sum(sample.get("Failures", 0) for sample in samples),
        "Within": within,
    }


def quantile(sample: Document, share: float) -> float | None:
    """Return the seconds within which this share of the requests was answered; None: unknown."""
    wanted = share * sample.get("Requests", 0)
    within = sample.get("Within", {})
    for bound in sorted(within, key=int):
        if within[bound] >= wanted > 0:
            return int(bound) / MICROSECONDS
    return None


SAMPLES = CollectionPlan("samples", object_shape({"_id": MOMENT, "ExpiresAt": MOMENT}), (expiry(),))
KEPT = timedelta(days=8)
DAY, AGES = timedelta(days=1), timedelta(days=36_500)
EVERY_SECONDS = 60.0
# By then, the transactions of an interval have ended.
ENDED = timedelta(seconds=20)


class Samples:
    """Counts the answers of its worker, and the players online, once a minute.

    Counts since the last sample are lost when the worker ends; the metrics keep them.
    """

    def __init__(self, storage: Storage, players: Players, history: History) -> None:
        self._samples = storage.db[SAMPLES.name]
        self._players, self._history = players, history
        self.now = storage.clock.now
        self._expiry_of = storage.entries.expiry_of
        # A worker inherits the counters of the worker that it replaces.
        self._before = request_counts()
        self._due = 0.0

    def take_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.take()
            self._due = time.monotonic() + EVERY_SECONDS

    def take(self) -> None:
        """Add the counts since the last sample to that of the current interval."""
        now, counts = self.now(), request_counts()
        interval = interval_of(now)
        update = {
            # All workers count the same players, at slightly different times.
            "$max": {"Online": self._players.count_online()},
            "$inc": {path: count - self._before[path] for path, count in counts.items()},
            "$setOnInsert": {"ExpiresAt": interval + KEPT},
        }
        self._samples.update_one({"_id": interval}, update, upsert=True)
        self._before = counts
        levels = self._players.count_by_level
        self.complete(interval, "Levels", lambda: {str(level): n for level, n in levels().items()})
        if (hour := interval + INTERVAL).minute == 0:
            # Before the first sample of the hour. It is kept as long as history.
            kept = {"ExpiresAt": hour + AGES, **self._expiry_of(hour)}
            self.complete(hour, "Active", lambda: self._players.count_active(hour - DAY), kept)
        end = interval_of(now - ENDED)
        begin = end - INTERVAL
        self.complete(begin, "Changes", lambda: self._history.count_changes(begin, end))

    def complete(
        self, at: datetime, field: str, count: Callable[[], Any], kept: Document | None = None
    ) -> None:
        """Add what one worker counts for all, unless another worker was faster."""
        if self._samples.find_one({"_id": at, field: {"$exists": True}}, ["_id"]) is None:
            expiry = kept or {"ExpiresAt": at + KEPT}
            update = {"$set": {field: count()}, "$setOnInsert": expiry}
            self._samples.update_one({"_id": at}, update, upsert=True)

    def active(self, begin: datetime, end: datetime) -> dict[datetime, int]:
        """Return how many players were active in the 24 hours before each full hour."""
        within = {"_id": {"$gte": begin, "$lte": end}, "Active": {"$exists": True}}
        return {found["_id"]: found["Active"] for found in self._samples.find(within, ["Active"])}

    def since(self, begin: datetime) -> Sequence[Document]:
        """Return all samples since a time, the oldest first."""
        taken = {"_id": {"$gte": begin}, "Online": {"$exists": True}}
        return list(self._samples.find(taken, sort=[("_id", 1)]))


samples = current(Samples)
