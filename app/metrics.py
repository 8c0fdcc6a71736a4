"""Prometheus metrics.

Labels never hold input of a client: routes instead of paths, known methods, statuses. That bounds
their cardinality, and keeps personal data out of the metrics.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.core import InfoMetricFamily
from prometheus_client.registry import Collector

from app.metrics_files import FOLDER_VARIABLE, LivingWorkers, take_number

log = logging.getLogger("quartermaster")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
PROBES = ("/healthz", "/readyz", "/metrics")
NONE, OTHER = "(none)", "(other)"

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MONGODB_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

# In memory, even if PROMETHEUS_MULTIPROC_DIR is set: only share(), in a worker, uses files.
values.ValueClass = values.MutexValue
disable_created_metrics()


def _version() -> str:
    try:
        return version("quartermaster")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


class Build(Collector):
    """The build info, which is equal in all workers and so in none of their files."""

    def __init__(self) -> None:
        # Read at import: the files on disk may be those of a newer release later.
        self.labels = {"version": _version(), "python": platform.python_version()}

    def collect(self) -> Iterator[InfoMetricFamily]:
        yield InfoMetricFamily("quartermaster_build", "What runs.", value=self.labels)


BUILD = Build()
REGISTRY = CollectorRegistry()
REGISTRY.register(BUILD)
REQUESTS = Counter(
    "quartermaster_http_requests", "Answers.", ["route", "method", "status"], registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "quartermaster_http_request_duration_seconds",
    "From a request to its answer.",
    ["route", "method"],
    buckets=REQUEST_BUCKETS,
    registry=REGISTRY,
)
MONGODB_SECONDS = Histogram(
    "quartermaster_mongodb_operation_duration_seconds",
    "MongoDB operations, failed ones included.",
    ["operation", "collection"],
    buckets=MONGODB_BUCKETS,
    registry=REGISTRY,
)
MONGODB_FAILURES = Counter(
    "quartermaster_mongodb_operation_failures",
    "MongoDB operations that failed.",
    ["operation", "collection"],
    registry=REGISTRY,
)
SWAP_RETRIES = Counter(
    "quartermaster_swap_retries",
    "Compare-and-swaps that another was faster than.",
    ["collection"],
    registry=REGISTRY,
)
SWAP_REPLAYS = Counter(
    "quartermaster_swap_replays",
    "Repeated requests that got their first answer again.",
    ["collection"],
    registry=REGISTRY,
)
HISTORY_ENTRIES = Counter(
    "quartermaster_history_entries",
    "Changes that left an entry of history.",
    ["operation"],
    registry=REGISTRY,
)
HISTORY_MOVED = Counter(
    "quartermaster_history_moved",
    "Entries that moved from a document to the collection history.",
    ["collection"],
    registry=REGISTRY,
)
HISTORY_LAG = Gauge(
    "quartermaster_history_lag_seconds",
    "The age of the oldest entry that has not moved to the collection history.",
    ["collection"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
UNFINISHED = Gauge(
    "quartermaster_unfinished",
    "Changes of several documents, such as deletions and erasures, that are not finished.",
    ["kind"],
    registry=REGISTRY,
    multiprocess_mode="livemostrecent",
)
ACTIONS = Counter(
    "quartermaster_actions",
    "What the game was asked to do, by how far it was when the request was answered.",
    ["kind", "state"],
    registry=REGISTRY,
)
BATCH_ROWS = Counter(
    "quartermaster_batch_rows",
    "Rows of batches that were carried out, by what came of them.",
    ["verdict"],
    registry=REGISTRY,
)
BUDGET_REFUSALS = Counter(
    "quartermaster_budget_refusals",
    "Requests that the budget of a key did not allow.",
    ["limit"],
    registry=REGISTRY,
)
MAILS = Counter("quartermaster_mails", "Mails, sent or failed.", ["outcome"], registry=REGISTRY)
RATE_LIMITED = Counter(
    "quartermaster_rate_limited", "Requests refused by a limit.", ["limit"], registry=REGISTRY
)
LABELLED = (
    REQUESTS,
    REQUEST_SECONDS,
    MONGODB_SECONDS,
    MONGODB_FAILURES,
    SWAP_RETRIES,
    SWAP_REPLAYS,
    HISTORY_ENTRIES,
    HISTORY_MOVED,
    HISTORY_LAG,
    UNFINISHED,
    ACTIONS,
    BATCH_ROWS,
    BUDGET_REFUSALS,
    MAILS,
    RATE_LIMITED,
)

_exposed = REGISTRY
# Caches: looking up a labelled child costs more than incrementing it.
_request_meters: dict[tuple[str, str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}
_operation_observers: dict[tuple[str, str], Callable[[float], None]] = {}


def request_ended(route: str | None, method: str, status: int, seconds: float) -> None:
    key = (route or NONE, method if method in METHODS else OTHER, status)
    meters = _request_meters.get(key)
    if meters is None:
        count, observe = REQUESTS.labels(*key).inc, REQUEST_SECONDS.labels(*key[:2]).observe
        meters = _request_meters[key] = (count, observe)
    meters[0]()
    meters[1](seconds)


def request_totals() -> tuple[int, int, dict[float, int]]:
    """Return this worker's counts: all requests, those answered with 5xx, and by latency bucket.

    The probes do not count.
    """
    requests = failures = 0
    for sample in _samples_of(REQUESTS, "_total"):
        requests += int(sample.value)
        failures += int(sample.value) if sample.labels["status"] >= "500" else 0
    below: dict[float, int] = {}
    for sample in _samples_of(REQUEST_SECONDS, "_bucket"):
        bound = float(sample.labels["le"])
        below[bound] = below.get(bound, 0) + int(sample.value)
    bounds = sorted(below)
    # Prometheus' buckets are cumulative: each holds the faster ones as well.
    slower = zip(bounds, [0, *(below[bound] for bound in bounds)], strict=False)
    counts = {bound: below[bound] - faster for bound, faster in slower if bound < float("inf")}
    return requests, failures, counts


def _samples_of(metric: Counter | Histogram, suffix: str) -> Iterator[Any]:
    for family in metric.collect():
        for sample in family.samples:
            if sample.name.endswith(suffix) and sample.labels["route"] not in PROBES:
                yield sample


def operation_ended(operation: str, collection: str, seconds: float) -> None:
    key = (operation, collection)
    observe = _operation_observers.get(key)
    if observe is None:
        observe = _operation_observers[key] = MONGODB_SECONDS.labels(*key).observe
    observe(seconds)


def exposition() -> bytes:
    """Return the metrics of all workers in Prometheus' text format."""
    return generate_latest(_exposed)


def share(folder: str | None) -> None:
    """Keep the metrics of this worker in a folder, so that any worker can show those of all.

    Without a folder, each shows its own.
    """
    global _exposed
    os.environ.pop(FOLDER_VARIABLE, None)
    _clear()
    if folder and (number := _number_in(Path(folder))) is not None:
        os.environ[FOLDER_VARIABLE] = folder
        values.ValueClass = values.MultiProcessValue(lambda: number)
        _exposed = CollectorRegistry()
        _exposed.register(BUILD)
        LivingWorkers(_exposed, Path(folder))
        Gauge(
            "quartermaster_workers", "Living workers.", registry=None, multiprocess_mode="livesum"
        ).set(1)
        Counter("quartermaster_worker_starts", "Workers that were started.", registry=None).inc()
    _initialize_to_zero()


def _number_in(folder: Path) -> int | None:
    try:
        return take_number(folder)
    except OSError as error:  # serve without shared metrics if the disk is full
        log.warning("This worker shows its own metrics alone: %s", error)
        return None


def _clear() -> None:
    """Drop the values that were inherited from the master by the fork."""
    for metric in LABELLED:
        metric.clear()
    _request_meters.clear()
    _operation_observers.clear()


def _initialize_to_zero() -> None:
    """Expose rare counters as 0: rate() misses the first increment of a new series."""
    for collection in ("players", "users"):
        SWAP_RETRIES.labels(collection)
        SWAP_REPLAYS.labels(collection)
        HISTORY_MOVED.labels(collection)
        HISTORY_LAG.labels(collection)
    for outcome in ("sent", "failed"):
        MAILS.labels(outcome)
    for limit in ("account", "address", "caller"):
        RATE_LIMITED.labels(limit)
    for limit in ("LargestQuantity", "ItemsPerDay", "Items", "Budget"):
        BUDGET_REFUSALS.labels(limit)
    for kind in ("kick", "kill", "warp", "chat"):
        ACTIONS.labels(kind, "done")
    for verdict in ("done", "refused"):
        BATCH_ROWS.labels(verdict)
    for kind in ("deletion", "restoration", "erasure", "plan of a batch", "cancelled batch"):
        UNFINISHED.labels(kind)


_initialize_to_zero()
