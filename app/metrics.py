"""What is counted and timed, for Prometheus.

Labels hold words of this program and numbers only: routes, never paths, and nothing that a client
wrote. So there is a bounded number of them, and none tells of a person.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

log = logging.getLogger("quartermaster")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NONE, OTHER, REFUSED = "(none)", "(other)", "(refused)"
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
FILE_KINDS = ("counter", "histogram", "gauge_livesum")
# Several times what all labels need. Files that had to grow on a full disk would kill the worker.
FILE_SIZE = 1 << 20

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MONGODB_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

# Only the workers of a run write files, whatever the environment of a command says.
values.ValueClass = values.MutexValue
disable_created_metrics()


def _version() -> str:
    try:
        return version("quartermaster")
    except PackageNotFoundError:  # run from its folder, without an installation
        return "unknown"


class Build(Collector):
    """What runs. It is the same in all workers, so it is in none of their files."""

    def __init__(self) -> None:
        # Read once, with the code: what is on the disk later may be another release.
        self.labels = {"version": _version(), "python": platform.python_version()}

    def collect(self) -> Iterator[InfoMetricFamily]:
        yield InfoMetricFamily("quartermaster_build", "What runs.", value=self.labels)


BUILD = Build()
OWN = CollectorRegistry()
OWN.register(BUILD)
REQUESTS = Counter(
    "quartermaster_http_requests", "Answers.", ["route", "method", "status"], registry=OWN
)
REQUEST_SECONDS = Histogram(
    "quartermaster_http_request_duration_seconds",
    "From a request to its answer.",
    ["route", "method"],
    buckets=REQUEST_BUCKETS,
    registry=OWN,
)
MONGODB_SECONDS = Histogram(
    "quartermaster_mongodb_operation_duration_seconds",
    "MongoDB operations, failed ones included.",
    ["operation", "collection"],
    buckets=MONGODB_BUCKETS,
    registry=OWN,
)
MONGODB_FAILURES = Counter(
    "quartermaster_mongodb_operation_failures",
    "MongoDB operations that failed.",
    ["operation", "collection"],
    registry=OWN,
)
SWAP_RETRIES = Counter(
    "quartermaster_swap_retries",
    "Compare-and-swaps that another was faster than.",
    ["collection"],
    registry=OWN,
)
SWAP_REPLAYS = Counter(
    "quartermaster_swap_replays",
    "Repeated requests that got their first answer again.",
    ["collection"],
    registry=OWN,
)
MAILS = Counter("quartermaster_mails", "Mails, sent or failed.", ["outcome"], registry=OWN)
RATE_LIMITED = Counter(
    "quartermaster_rate_limited", "Requests refused by a limit.", ["limit"], registry=OWN
)
LABELLED = (
    *(REQUESTS, REQUEST_SECONDS, MONGODB_SECONDS, MONGODB_FAILURES),
    *(SWAP_RETRIES, SWAP_REPLAYS, MAILS, RATE_LIMITED),
)

_shown = OWN
# Finding what to count costs more than counting it, so it is found once for each set of labels.
_of_requests: dict[tuple[str, str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}
_of_operations: dict[tuple[str, str], Callable[[float], None]] = {}


def request_ended(route: str | None, method: str, status: int, seconds: float) -> None:
    key = (route or NONE, method if method in METHODS else OTHER, status)
    meters = _of_requests.get(key)
    if meters is None:
        count, observe = REQUESTS.labels(*key).inc, REQUEST_SECONDS.labels(*key[:2]).observe
        meters = _of_requests[key] = (count, observe)
    meters[0]()
    meters[1](seconds)


def operation_ended(operation: str, collection: str, seconds: float) -> None:
    key = (operation, collection)
    observe = _of_operations.get(key)
    if observe is None:
        observe = _of_operations[key] = MONGODB_SECONDS.labels(*key).observe
    observe(seconds)


def exposition() -> bytes:
    """Return all that was counted, in Prometheus' text format."""
    return generate_latest(_shown)


def share(folder: str, place: int) -> None:
    """Count in files beside those of the other workers, so that any of them can show all.

    A worker takes the place of one that ended, and counts on in its files: nothing that was
    counted is lost, and there are never more files than workers that lived at a time.
    """
    global _shown
    os.environ.pop(FOLDER_VARIABLE, None)
    _forget()
    try:
        _make_files(Path(folder), place)
    except OSError as error:  # a full disk is no reason not to serve
        log.warning("This worker shows its own metrics alone: %s", error)
        _start_at_zero()
        return
    os.environ[FOLDER_VARIABLE] = folder
    values.ValueClass = values.MultiProcessValue(lambda: place)
    _shown = CollectorRegistry()
    _shown.register(BUILD)
    MultiProcessCollector(_shown, folder)
    Gauge(
        "quartermaster_workers", "Living workers.", registry=None, multiprocess_mode="livesum"
    ).set(1)
    Counter("quartermaster_worker_starts", "Workers that were started.", registry=None).inc()
    _start_at_zero()


def _forget() -> None:
    """Drop what the master counted before it made this worker, and did so in its own memory."""
    for metric in LABELLED:
        metric.clear()
    _of_requests.clear()
    _of_operations.clear()


def _make_files(folder: Path, place: int) -> None:
    """Make the files whole before they are seen; the library's, still empty, fail who reads them.

    It opens a file first and gives it a size then, and another worker may look in between.
    """
    for kind in FILE_KINDS:
        file = folder / f"{kind}_{place}.db"
        if not file.exists():
            unseen = file.with_suffix(".new")
            unseen.write_bytes(bytes(FILE_SIZE))
            unseen.rename(file)


def _start_at_zero() -> None:
    """Show the few that may never happen as 0: a rate needs to see the first."""
    for collection in ("players", "users"):
        SWAP_RETRIES.labels(collection)
        SWAP_REPLAYS.labels(collection)
    for outcome in ("sent", "failed"):
        MAILS.labels(outcome)
    for limit in ("account", "address", "caller"):
        RATE_LIMITED.labels(limit)


_start_at_zero()
