"""The page of health: requests, errors, latencies, changes and the database, with plots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from flask import Response

from app import metrics
from app.console.frame.pages import blp, render, required
from app.console.health.plots import Plot, bar_plot, line_plot
from app.history.store import History
from app.http.context import current
from app.players.store import Players
from app.samples.domain import INTERVAL, interval_of, quantile, traffic_of
from app.samples.store import Samples
from app.storage.client import Storage
from app.types import Document

DAY = timedelta(days=1)
HOURS = 24
# A worker that is replaced may miss an interval.
LONGEST_GAP = 3 * INTERVAL.total_seconds()
# What was not counted yet is counted for the page, if it is not too much.
MOST_UNCOUNTED = timedelta(minutes=15)
QUIET = "No samples yet. The first ones come within five minutes."

history = current(History)
players = current(Players)
samples = current(Samples)
storage = current(Storage)


@blp.get("/health")
@required()
def show_health() -> Response:
    now = samples.now()
    taken = samples.since(interval_of(now) - DAY)
    day = traffic_of(taken)
    hour = traffic_of(sample for sample in taken if sample["_id"] >= now - timedelta(hours=1))
    began = time.perf_counter()
    storage.ping()
    answer_ms = (time.perf_counter() - began) * 1000
    return render(
        "health/health.html",
        page="health",
        day=day,
        hour=hour,
        p50=quantile(hour, 0.5),
        p99=quantile(hour, 0.99),
        plots=[
            online_plot(taken, now),
            levels_plot(),
            changes_plot(taken, now),
            requests_plot(taken, now),
            latency_plot(taken, now),
        ],
        database=storage.describe(),
        answer_ms=answer_ms,
        build=metrics.BUILD.labels,
        online=players.count_online(),
    )


def day_plots() -> Sequence[Plot]:
    """Return the plots of the first page."""
    now = samples.now()
    return [online_plot(samples.since(interval_of(now) - DAY), now), levels_plot()]


def online_plot(taken: Sequence[Document], now: datetime) -> Plot:
    points = [(sample["_id"], sample["Online"]) for sample in taken if "Online" in sample]
    series = {"online": points}
    title = "Players online over the last day"
    return line_plot(title, "players", (now - DAY, now), series, LONGEST_GAP, QUIET)


def levels_plot() -> Plot:
    levels = samples.levels()
    last = max(levels, default=0)
    span = range(1, last + 1) if last <= 200 else sorted(levels)
    counts = [levels.get(level, 0) for level in span]
    labels = [str(level) for level in span]
    return bar_plot("Players by level", "players", labels, {"players": counts}, "Level", QUIET)


def changes_plot(taken: Sequence[Document], now: datetime) -> Plot:
    """Return how many changes there were in each hour, by operation."""
    begin = (now - DAY + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    by_operation: dict[str, list[int]] = {}
    counted_until = begin
    for sample in taken:
        if "Changes" in sample:
            add_changes(by_operation, sample["_id"], sample["Changes"], begin)
            counted_until = max(counted_until, sample["_id"] + INTERVAL)
    fresh = max(counted_until, now - MOST_UNCOUNTED)
    add_changes(by_operation, now, history.count_changes(fresh, now + INTERVAL), begin)
    hours = [begin + timedelta(hours=hour) for hour in range(HOURS)]
    most_first = sorted(by_operation, key=lambda name: -sum(by_operation[name]))
    series = {name: by_operation[name] for name in most_first}
    empty = "Nothing was changed in the last day."
    if not series:
        series = {"changes": [0] * HOURS}
    return bar_plot("Changes per hour", "changes", hours, series, "Hour", empty)


def add_changes(
    by_operation: dict[str, list[int]], at: datetime, counts: Document, begin: datetime
) -> None:
    hour = int((at - begin).total_seconds() // 3600)
    if 0 <= hour < HOURS:
        for operation, count in counts.items():
            by_operation.setdefault(operation, [0] * HOURS)[hour] += count


def requests_plot(taken: Sequence[Document], now: datetime) -> Plot:
    per_minute = INTERVAL.total_seconds() / 60
    series = {
        "requests": [(sample["_id"], sample.get("Requests", 0) / per_minute) for sample in taken],
        "failures": [(sample["_id"], sample.get("Failures", 0) / per_minute) for sample in taken],
    }
    title = "Requests per minute, and failures (5xx)"
    return line_plot(title, "a minute", (now - DAY, now), series, LONGEST_GAP, QUIET)


def latency_plot(taken: Sequence[Document], now: datetime) -> Plot:
    series: dict[str, list[tuple[datetime, float]]] = {"median": [], "p95": []}
    for sample in taken:
        traffic = traffic_of([sample])
        for name, share in (("median", 0.5), ("p95", 0.95)):
            bound = quantile(traffic, share)
            if bound is not None:
                series[name].append((sample["_id"], bound * 1000))
    title = "Latency: the time within which requests were answered"
    return line_plot(title, "ms", (now - DAY, now), series, LONGEST_GAP, QUIET)
