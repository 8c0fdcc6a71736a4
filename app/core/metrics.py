"""Prometheus metrics.

Labels never contain client input: they are routes instead of paths, known methods, statuses. This
limits their cardinality, and keeps personal data out of the metrics.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.metadata import version
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

log = logging.getLogger("quartermaster")

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# Several times the files of a worker: writing to a mapped file on a full disk is a SIGBUS.
LEAST_ROOM = 1 << 22
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PROBES = ("/healthz", "/readyz", "/metrics")
NONE, OTHER = "(none)", "(other)"

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# The bound of the last bucket, which has all requests.
ENDLESS = float("inf")
MONGODB_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

# In memory, even if PROMETHEUS_MULTIPROC_DIR is set: only share(), in a worker, uses files.
values.ValueClass = values.MutexValue
disable_created_metrics()


REGISTRY = CollectorRegistry()
# Read at import: later, the files on disk may be those of a newer release.
RUNNING = {"version": version("quartermaster"), "python": platform.python_version()}
# The same in all workers, and so kept in none of their files.
BUILD = Info("quartermaster_build", "What runs.", registry=REGISTRY)
Metric = TypeVar("Metric", Counter, Gauge, Histogram)
# By metric, the labels that are exposed as 0 from the start: rate() misses the first increment of a
# new series.
_METRICS: dict[Any, tuple[str, ...]] = {}


def _metric(
    kind: Callable[..., Metric],
    name: str,
    help_: str,
    *labels: str,
    initial: tuple[str, ...] = (),
    **options: Any,
) -> Metric:
    metric = kind(f"quartermaster_{name}", help_, labels, registry=REGISTRY, **options)
    _METRICS[metric] = initial
    return metric


_counter = partial(_metric, Counter)
_gauge = partial(_metric, Gauge, multiprocess_mode="livemostrecent")

REQUESTS = _counter("http_requests", "Answers.", "route", "method", "status")
REQUEST_SECONDS = _metric(
    Histogram,
    "http_request_duration_seconds",
    "Latency of requests.",
    "route",
    "method",
    buckets=REQUEST_BUCKETS,
)
MONGODB_SECONDS = _metric(
    Histogram,
    "mongodb_operation_duration_seconds",
    "MongoDB operations, failed ones included.",
    "operation",
    "collection",
    buckets=MONGODB_BUCKETS,
)
MONGODB_FAILURES = _counter(
    "mongodb_operation_failures", "MongoDB operations that failed.", "operation", "collection"
)
TRANSACTION_RETRIES = _counter(
    "transaction_retries",
    "Transactions that ran again, most because of another change at the same time.",
    "kind",
    initial=("player", "user"),
)
ERASURES = _gauge(
    "erasures",
    "People whose erasure has begun and is not finished.",
    "state",
    initial=("unfinished",),
)
BATCH_ROWS = _counter(
    "batch_rows", "Rows of batches, by outcome.", "verdict", initial=("done", "refused")
)
BUDGET_REFUSALS = _counter(
    "budget_refusals",
    "Requests that the budget of a key did not allow.",
    "limit",
    initial=("LargestQuantity", "ItemsPerDay", "Items", "Budget"),
)
MAILS = _counter("mails", "Mails, sent or failed.", "outcome", initial=("sent", "failed"))
RATE_LIMITED = _counter(
    "rate_limited",
    "Requests refused by a limit.",
    "limit",
    initial=("account", "address", "caller"),
)

_exposed = REGISTRY


def record_request(route: str | None, method: str, status: int, seconds: float) -> None:
    count, observe = _request_meters(route or NONE, method if method in METHODS else OTHER, status)
    count()
    observe(seconds)


@cache  # looking up a labelled child costs more than incrementing it
def _request_meters(
    route: str, method: str, status: int
) -> tuple[Callable[[], None], Callable[[float], None]]:
    count = REQUESTS.labels(route, method, status).inc
    return count, REQUEST_SECONDS.labels(route, method).observe


def request_totals() -> tuple[int, int, dict[float, int]]:
    """Return this worker's request counts: all, those answered with 5xx, and within each time.

    Requests to the probes do not count.
    """
    answers = _samples_of(REQUESTS, "_total")
    failures = sum(int(one.value) for one in answers if one.labels["status"] >= "500")
    within = dict.fromkeys((*REQUEST_BUCKETS, ENDLESS), 0)
    for sample in _samples_of(REQUEST_SECONDS, "_bucket"):
        within[float(sample.labels["le"])] += int(sample.value)
    requests = within.pop(ENDLESS)
    return requests, failures, within


def _samples_of(metric: Counter | Histogram, suffix: str) -> Iterator[Any]:
    for family in metric.collect():
        for sample in family.samples:
            if sample.name.endswith(suffix) and sample.labels["route"] not in PROBES:
                yield sample


@cache
def operation_observer(operation: str, collection: str) -> Callable[[float], None]:
    return MONGODB_SECONDS.labels(operation, collection).observe


def exposition() -> bytes:
    """Return the metrics of all workers in Prometheus' text format."""
    return generate_latest(_exposed)


def share(folder: str | None) -> None:
    """Keep the metrics of this worker in a folder, so that any worker can expose those of all.

    Without a folder, each worker exposes its own.
    """
    global _exposed
    os.environ.pop(FOLDER_VARIABLE, None)
    # Drop the values that the fork copied from the master.
    for metric in _METRICS:
        metric.clear()
    _request_meters.cache_clear()
    operation_observer.cache_clear()
    if folder and _has_room(folder):
        os.environ[FOLDER_VARIABLE] = folder
        values.ValueClass = values.MultiProcessValue()
        _exposed = CollectorRegistry()
        _exposed.register(BUILD)
        MultiProcessCollector(_exposed, folder)
        Gauge(
            "quartermaster_workers", "Running workers.", registry=None, multiprocess_mode="livesum"
        ).set(1)
        Counter("quartermaster_worker_starts", "Workers that were started.", registry=None).inc()
    _expose_zeros()


def _has_room(folder: str) -> bool:
    try:
        has_room = shutil.disk_usage(folder).free >= LEAST_ROOM
    except OSError:  # somebody has removed the folder
        has_room = False
    if not has_room:
        log.warning("This worker shows only its own metrics: there is no room in %s.", folder)
    return has_room


def _expose_zeros() -> None:
    for metric, labels in _METRICS.items():
        for label in labels:
            metric.labels(label)


_expose_zeros()
