"""Samples: players online, and counts and latencies of requests, per five minutes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from app.core.types import Document

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
