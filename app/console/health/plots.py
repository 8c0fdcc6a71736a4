"""Plots as numbers: the coordinates of bars and lines, and the labels of the axes. Pure.

A template draws them as SVG, stretched to the width of the page, so the labels are text outside of
it. Each plot also has rows for a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

WIDTH, HEIGHT = 1000, 200
GAP = 0.18
# The number of colours for series.
COLOURS = 8
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)

Points = Sequence[tuple[datetime, float]]


class Bar(NamedTuple):
    """A rectangle of a series, in the units of the SVG."""

    series: int
    x: float
    y: float
    width: float
    height: float


class Plot(NamedTuple):
    """A plot, its axis labels, and its table."""

    title: str
    unit: str
    # The text if there is nothing to draw.
    empty: str
    # The names of the series; the index is the colour.
    series: Sequence[str] = ()
    bars: Sequence[Bar] = ()
    # SVG points by series; a gap in time begins another line.
    lines: Sequence[tuple[int, str]] = ()
    top: float = 1
    # Texts, or times that a page shows as hours and minutes.
    labels: Sequence[str | datetime] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str | datetime]] = ()

    @property
    def is_empty(self) -> bool:
        return not self.rows

    def with_bars(
        self, head: str, categories: Sequence[str | datetime], series: Mapping[str, Sequence[int]]
    ) -> Plot:
        """Return a plot of stacked bars for each category, the first series lowest.

        Series without a colour are drawn together as others; the table lists each.
        """
        drawn = _with_others(series)
        top = top_of([sum(values) for values in zip(*series.values(), strict=True)])
        width = WIDTH / max(1, len(categories))
        stacks = enumerate(zip(*drawn.values(), strict=True))
        columns = zip(categories, zip(*series.values(), strict=True), strict=True)
        return self._replace(
            series=list(drawn),
            bars=[bar for place, values in stacks for bar in _stack(place, values, width, top)],
            top=top,
            labels=_spread(categories),
            head=[head, *series],
            rows=[[name, *(f"{n:,}" for n in values)] for name, values in columns if any(values)],
        )

    def with_lines(
        self, begin: datetime, end: datetime, series: Mapping[str, Points], longest_gap: timedelta
    ) -> Plot:
        """Return a plot with a line for each series; gaps longer than longest_gap stay open."""
        top = top_of([value for points in series.values() for _, value in points])

        def line(points: Points) -> str:
            places = [((at - begin) / (end - begin) * WIDTH, value) for at, value in points]
            if len(places) == 1:
                # A single point is drawn as a short line.
                places.insert(0, (max(0.0, places[0][0] - 4), places[0][1]))
            return " ".join(f"{x:.1f},{HEIGHT - value / top * HEIGHT:.1f}" for x, value in places)

        runs = [
            (n, run) for n, all_ in enumerate(series.values()) for run in _runs(all_, longest_gap)
        ]
        by_time = [dict(points) for points in series.values()]
        times = sorted({at for values in by_time for at in values})
        return self._replace(
            series=list(series),
            lines=[(number, line(run)) for number, run in runs],
            top=top,
            labels=[begin + (end - begin) * part / 4 for part in range(5)],
            head=["Time", *series],
            rows=[[at, *(_cell(values.get(at)) for values in by_time)] for at in times],
        )


def top_of(values: Sequence[float]) -> float:
    """Return the maximum of an axis for these values: a round number."""
    # Leave some room above the largest value.
    largest = 1.04 * max(values, default=0)
    if largest <= 0:
        return 1
    magnitude = 10.0 ** (len(str(int(largest))) - 1) if largest >= 1 else 0.001
    while magnitude * 10 < largest:
        magnitude *= 10
    return next(magnitude * step for step in STEPS if magnitude * step >= largest)


def _stack(place: int, values: Sequence[int], width: float, top: float) -> list[Bar]:
    """Return the bars of one category."""
    x = place * width + width * GAP / 2
    ends = zip(values, accumulate(values), strict=True)
    return [
        Bar(number, x, HEIGHT * (1 - end / top), width * (1 - GAP), HEIGHT * value / top)
        for number, (value, end) in enumerate(ends)
        if value
    ]


def _with_others(series: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
    """Return as many series as there are colours; the last one is the sum of the rest."""
    if len(series) <= COLOURS:
        return series
    names = list(series)
    rest = [series[name] for name in names[COLOURS - 1 :]]
    others = [sum(values) for values in zip(*rest, strict=True)]
    return {**{name: series[name] for name in names[: COLOURS - 1]}, "others": others}


def _runs(points: Points, longest_gap: timedelta) -> list[list[tuple[datetime, float]]]:
    """Return the points, divided at gaps that are too long."""
    runs: list[list[tuple[datetime, float]]] = []
    for point in points:
        if not runs or point[0] - runs[-1][-1][0] > longest_gap:
            runs.append([])
        runs[-1].append(point)
    return runs


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _spread(categories: Sequence[str | datetime]) -> list[str | datetime]:
    """Return a few of the categories, evenly spread, as labels of the axis."""
    if len(categories) <= 6:
        return list(categories)
    last = len(categories) - 1
    return [categories[round(last * part / 4)] for part in range(5)]
