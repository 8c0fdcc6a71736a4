"""The health page: requests, errors, latencies, changes and the database, with plots.

A plot is numbers: the coordinates of bars and lines, and the labels of the axes. A template draws
them as SVG, stretched to the width of the page, so the labels are text outside of it. Each plot
also has rows for a table; without rows, there is nothing to draw but its text for that. The index
of a series is its colour. A label that is a time is shown as hours and minutes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from flask import Response

from app.console.frame.pages import blp, render, required
from app.core import metrics
from app.core.permissions import Permission
from app.core.types import Document
from app.game.samples import INTERVAL, interval_of, quantile, samples, sum_of
from app.players.store import players
from app.storage.client import storage
from app.users.openid.sign_ins import unknown_roles

WIDTH, HEIGHT = 1000, 200
GAP = 0.18
# The number of colours for series.
COLOURS = 8
# An axis ends at one of these times a power of ten; the last one makes up for rounding.
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
HOURS = 24
# A worker that is replaced may miss an interval.
LONGEST_GAP = 3 * INTERVAL
QUIET = "No data yet. The first samples appear within five minutes."

Points = Sequence[tuple[datetime, float]]


def bar_plot(
    title: str,
    unit: str,
    empty: str,
    head: str,
    categories: Sequence[str | datetime],
    series: Mapping[str, Sequence[int]],
) -> Document:
    """Return a plot of stacked bars for each category, the first series lowest.

    Series without a colour of their own are drawn as others; the table lists each.
    """
    names, last = list(series), len(categories) - 1
    stacks = list(zip(*series.values(), strict=True))
    top, width = top_of([sum(values) for values in stacks]), WIDTH / max(1, len(categories))
    bars = []
    for place, values in enumerate(stacks):
        left, right = (place + GAP / 2) * width, (place + 1 - GAP / 2) * width
        bottom: float = HEIGHT
        for number, value in enumerate(values):
            y = bottom - HEIGHT * value / top
            sides = [f"{left:.1f},{bottom:.1f}", f"{left:.1f},{y:.1f}"]
            sides += [f"{right:.1f},{y:.1f}", f"{right:.1f},{bottom:.1f}"]
            if value:
                bars.append((min(number, COLOURS - 1), sides))
            bottom = y
    # Without any series, there are no stacks.
    rows = zip(categories, stacks, strict=False)
    return {
        "title": title,
        "unit": unit,
        "empty": empty,
        "series": names if len(names) <= COLOURS else [*names[: COLOURS - 1], "others"],
        "element": "polygon",
        "shapes": bars,
        "top": top,
        "labels": [categories[round(last * n / 4)] for n in range(5)] if last > 5 else categories,
        "head": [head, *names],
        "rows": [[name, *(f"{n:,}" for n in values)] for name, values in rows if any(values)],
    }


def line_plot(title: str, unit: str, series: Mapping[str, Points], end: datetime) -> Document:
    """Return a plot of a day with a line for each series; longer gaps stay open."""
    begin = end - DAY
    by_time = [dict(points) for points in series.values()]
    top = top_of([value for values in by_time for value in values.values()])
    lines: list[tuple[int, list[str]]] = []
    for number, points in enumerate(series.values()):
        former = None
        for at, value in points:
            x, y = (at - begin) / DAY * WIDTH, HEIGHT * (1 - value / top)
            if former is None or at - former > LONGEST_GAP:
                # A point that stands alone is a short line.
                lines.append((number, [f"{max(0.0, x - 4):.1f},{y:.1f}"]))
            lines[-1][1].append(f"{x:.1f},{y:.1f}")
            former = at
    return {
        "title": title,
        "unit": unit,
        "empty": QUIET,
        "series": list(series),
        "element": "polyline",
        "shapes": lines,
        "top": top,
        "labels": [begin + DAY * part / 4 for part in range(5)],
        "head": ["Time", *series],
        "rows": [
            [at, *(f"{values[at]:,.4g}" if at in values else "" for values in by_time)]
            for at in sorted({at for values in by_time for at in values})
        ],
    }


def top_of(values: Sequence[float]) -> float:
    """Return the maximum of an axis: a round number, with some room above the largest value."""
    largest = 1.04 * max(values, default=0)
    if largest <= 0:
        return 1
    magnitude = 10.0 ** math.floor(math.log10(largest))
    return next(step * magnitude for step in STEPS if step * magnitude >= largest)


@blp.get("/health")
@required(Permission.HEALTH_READ)
def show_health() -> Response:
    taken, hour_ago = samples_of_day(), samples.now() - HOUR
    hour = sum_of([sample for sample in taken if sample["_id"] >= hour_ago])
    began = time.perf_counter()
    storage.ping()
    answer_ms = (time.perf_counter() - began) * 1000
    drawn = (online_plot, levels_plot, changes_plot, requests_plot, latency_plot)
    return render(
        "health/health.html",
        hour=hour,
        p50=quantile(hour, 0.5),
        p99=quantile(hour, 0.99),
        plots=[plot(taken) for plot in drawn],
        database=storage.describe(),
        answer_ms=answer_ms,
        build=metrics.RUNNING,
        online=players.count_online(),
        unknown_roles=unknown_roles(),
        lifetime_faults=storage.lifetime.faults,
    )


def samples_of_day() -> Sequence[Document]:
    return samples.since(interval_of(samples.now()) - DAY)


def online_plot(taken: Sequence[Document]) -> Document:
    points = [(sample["_id"], sample["Online"]) for sample in taken]
    series = {"online": points}
    return line_plot("Players online over the last day", "players", series, samples.now())


def levels_plot(taken: Sequence[Document]) -> Document:
    """Return how many players have each level, from the latest sample that has counted them."""
    counted = [sample["Levels"] for sample in taken if "Levels" in sample]
    levels = {int(level): count for level, count in counted[-1].items()} if counted else {}
    last = max(levels, default=0)
    span = range(1, last + 1) if last <= 200 else sorted(levels)
    counts = [levels.get(level, 0) for level in span]
    names = [str(level) for level in span]
    return bar_plot("Players by level", "players", QUIET, "Level", names, {"players": counts})


def changes_plot(taken: Sequence[Document]) -> Document:
    """Return how many changes there were in each hour, by operation, up to the last sample."""
    begin = (samples.now() - DAY + HOUR).replace(minute=0, second=0, microsecond=0)
    counts: dict[str, list[int]] = {}
    for sample in taken:
        hour = (sample["_id"] - begin) // HOUR
        for operation, count in sample.get("Changes", {}).items() if hour >= 0 else ():
            counts.setdefault(operation, [0] * HOURS)[hour] += count
    series = dict(sorted(counts.items(), key=lambda item: -sum(item[1])))
    hours = [begin + HOUR * number for number in range(HOURS)]
    empty = "No changes in the last day."
    return bar_plot("Changes per hour", "changes", empty, "Hour", hours, series)


def requests_plot(taken: Sequence[Document]) -> Document:
    minutes = INTERVAL.total_seconds() / 60
    series = {
        field.lower(): [(one["_id"], one.get(field, 0) / minutes) for one in taken]
        for field in ("Requests", "Failures")
    }
    return line_plot("Requests per minute, and failures (5xx)", "a minute", series, samples.now())


def latency_plot(taken: Sequence[Document]) -> Document:
    series: dict[str, list[tuple[datetime, float]]] = {"median": [], "p95": []}
    for sample in taken:
        for name, share in (("median", 0.5), ("p95", 0.95)):
            if (bound := quantile(sample, share)) is not None:
                series[name].append((sample["_id"], bound * 1000))
    return line_plot("Latency of requests", "ms", series, samples.now())
