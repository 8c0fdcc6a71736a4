"""Plots as numbers: where bars and lines lie, and what the axis says. Pure.

A template draws them as SVG, which is stretched to the width of the page; so the axis is text
beside it. Each plot has its rows, for the table behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

WIDTH, HEIGHT = 1000, 200
GAP = 0.18
# How many colours there are for series.
COLOURS = 8
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Bar(NamedTuple):
    """A rectangle of a series, in the units of the picture."""

    series: int
    x: float
    y: float
    width: float
    height: float


class Plot(NamedTuple):
    """A picture, its axis, and the table behind it."""

    title: str
    unit: str
    # The names of the series; colours go by their place.
    series: Sequence[str]
    bars: Sequence[Bar]
    # Points of lines as SVG has them, by series; a gap in time begins another line.
    lines: Sequence[tuple[int, str]]
    top: float
    # Texts or times, of which a page shows the hours and minutes.
    labels: Sequence[str | datetime]
    head: Sequence[str]
    rows: Sequence[Sequence[str | datetime]]
    # What to say instead, where there is nothing to draw.
    empty: str

    @property
    def is_empty(self) -> bool:
        return not self.rows


def top_of(values: Sequence[float]) -> float:
    """Return the end of an axis for these values: a round number."""
    # Some room above the largest.
    largest = 1.04 * max(values, default=0)
    if largest <= 0:
        return 1
    magnitude = 10.0 ** (len(str(int(largest))) - 1) if largest >= 1 else 0.001
    while magnitude * 10 < largest:
        magnitude *= 10
    return next(magnitude * step for step in STEPS if magnitude * step >= largest)


def bar_plot(
    title: str,
    unit: str,
    categories: Sequence[str | datetime],
    series: Mapping[str, Sequence[int]],
    head: str,
    empty: str,
) -> Plot:
    """Return bars for each category, the series on top of each other, the first ones lowest.

    Those for which there is no colour are drawn together as others; the table has each.
    """
    totals = [sum(values) for values in zip(*series.values(), strict=True)]
    drawn = _with_others(series)
    top = top_of(totals)
    width = WIDTH / max(1, len(categories))
    bars = []
    for place in range(len(categories)):
        base = 0.0
        for number, values in enumerate(drawn.values()):
            height = values[place] / top * HEIGHT
            if height:
                x = place * width + width * GAP / 2
                bars.append(Bar(number, x, HEIGHT - base - height, width * (1 - GAP), height))
            base += height
    rows: list[list[str | datetime]] = [
        [category, *(f"{values[place]:,}" for values in series.values())]
        for place, category in enumerate(categories)
        if totals[place]
    ]
    return Plot(
        title,
        unit,
        list(drawn),
        bars,
        [],
        top,
        _spread(categories),
        [head, *series],
        rows,
        empty,
    )


def _with_others(series: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
    """Return as many series as there are colours, the last of them the sum of those left."""
    if len(series) <= COLOURS:
        return series
    names = list(series)
    rest = [series[name] for name in names[COLOURS - 1 :]]
    others = [sum(values) for values in zip(*rest, strict=True)]
    return {**{name: series[name] for name in names[: COLOURS - 1]}, "others": others}


def line_plot(
    title: str,
    unit: str,
    span: tuple[datetime, datetime],
    series: Mapping[str, Sequence[tuple[datetime, float]]],
    longest_gap: float,
    empty: str,
) -> Plot:
    """Return a line for each series over a span of time; longer gaps, in seconds, stay open."""
    begin, end = span
    seconds = (end - begin).total_seconds()
    top = top_of([value for points in series.values() for _, value in points])
    lines = []
    for number, points in enumerate(series.values()):
        run: list[str] = []
        last: datetime | None = None
        for at, value in points:
            if last is not None and (at - last).total_seconds() > longest_gap:
                lines.append((number, _line(run)))
                run = []
            x = (at - begin).total_seconds() / seconds * WIDTH
            run.append(f"{x:.1f},{HEIGHT - value / top * HEIGHT:.1f}")
            last = at
        if run:
            lines.append((number, _line(run)))
    times = sorted({at for points in series.values() for at, _ in points})
    by_time = [dict(points) for points in series.values()]
    rows: list[list[str | datetime]] = [
        [at, *(_cell(values.get(at)) for values in by_time)] for at in times
    ]
    labels = [begin + (end - begin) * part / 4 for part in range(5)]
    head = ["Time", *series]
    return Plot(title, unit, list(series), [], lines, top, labels, head, rows, empty)


def _line(points: list[str]) -> str:
    """Return the points of a line; one alone is drawn as a short one."""
    if len(points) > 1:
        return " ".join(points)
    x, y = points[0].split(",")
    return f"{max(0.0, float(x) - 4):.1f},{y} {points[0]}"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _spread(categories: Sequence[str | datetime]) -> list[str | datetime]:
    """Return a few of the categories, evenly spread, as labels of the axis."""
    if len(categories) <= 6:
        return list(categories)
    last = len(categories) - 1
    return [categories[round(last * part / 4)] for part in range(5)]
