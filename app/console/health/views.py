"""The health page: requests, errors, latencies, changes and the database, with plots."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from flask import Response

from app.console.frame.pages import blp, render, required
from app.console.health.plots import Plot, Points
from app.console.stores import players, samples, storage
from app.core import metrics
from app.core.permissions import Permission
from app.core.types import Document, whole
from app.game.samples.domain import INTERVAL, interval_of, quantile, traffic_of
from app.users.openid.sign_ins import unknown_roles

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
HOURS = 24
# A worker that is replaced may miss an interval.
LONGEST_GAP = 3 * INTERVAL
QUIET = "No data yet. The first samples appear within five minutes."


@blp.get("/health")
@required(Permission.HEALTH_READ)
def show_health() -> Response:
    taken, hour_ago = samples_of_day(), samples.now() - HOUR
    hour = traffic_of(sample for sample in taken if sample["_id"] >= hour_ago)
    began = time.perf_counter()
    storage.ping()
    answer_ms = (time.perf_counter() - began) * 1000
    makers = (changes_plot, requests_plot, latency_plot)
    return render(
        "health/health.html",
        hour=hour,
        p50=quantile(hour, 0.5),
        p99=quantile(hour, 0.99),
        plots=[online_plot(taken), levels_plot(), *(make(taken) for make in makers)],
        database=storage.describe(),
        answer_ms=answer_ms,
        build=metrics.BUILD.labels,
        online=players.count_online(),
        unknown_roles=unknown_roles(),
        lifetime_faults=storage.lifetime.faults,
    )


def samples_of_day() -> Sequence[Document]:
    return samples.since(interval_of(samples.now()) - DAY)


def lines_of_day(title: str, unit: str, series: Mapping[str, Points]) -> Plot:
    now = samples.now()
    return Plot(title, unit, QUIET).with_lines(now - DAY, now, series, LONGEST_GAP)


def online_plot(taken: Sequence[Document]) -> Plot:
    points = [(sample["_id"], whole(sample["Online"]) or 0) for sample in taken]
    return lines_of_day("Players online over the last day", "players", {"online": points})


def levels_plot() -> Plot:
    levels = samples.levels()
    last = max(levels, default=0)
    span = range(1, last + 1) if last <= 200 else sorted(levels)
    counts = [levels.get(level, 0) for level in span]
    plot = Plot("Players by level", "players", QUIET)
    return plot.with_bars("Level", [str(level) for level in span], {"players": counts})


def changes_plot(taken: Sequence[Document]) -> Plot:
    """Return how many changes there were in each hour, by operation, up to the last sample."""
    begin = (samples.now() - DAY + HOUR).replace(minute=0, second=0, microsecond=0)
    counts: dict[str, list[int]] = {}
    for sample in taken:
        hour = (sample["_id"] - begin) // HOUR
        for operation, count in sample.get("Changes", {}).items() if hour >= 0 else ():
            counts.setdefault(operation, [0] * HOURS)[hour] += count
    most_first = dict(sorted(counts.items(), key=lambda item: -sum(item[1])))
    hours = [begin + HOUR * number for number in range(HOURS)]
    plot = Plot("Changes per hour", "changes", "No changes in the last day.")
    return plot.with_bars("Hour", hours, most_first or {"changes": [0] * HOURS})


def requests_plot(taken: Sequence[Document]) -> Plot:
    minutes = INTERVAL.total_seconds() / 60
    series = {
        field.lower(): [(one["_id"], (whole(one.get(field)) or 0) / minutes) for one in taken]
        for field in ("Requests", "Failures")
    }
    return lines_of_day("Requests per minute, and failures (5xx)", "a minute", series)


def latency_plot(taken: Sequence[Document]) -> Plot:
    series: dict[str, list[tuple[datetime, float]]] = {"median": [], "p95": []}
    for sample in taken:
        traffic = traffic_of([sample])
        for name, share in (("median", 0.5), ("p95", 0.95)):
            if (bound := quantile(traffic, share)) is not None:
                series[name].append((sample["_id"], bound * 1000))
    return lines_of_day("Latency of requests", "ms", series)
