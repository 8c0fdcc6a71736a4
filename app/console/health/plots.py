"""Plots as numbers: the coordinates of bars and lines, and the labels of the axes. Pure.

A template draws them as SVG, stretched to the width of the page, so the labels are text outside of
it. Each plot also has rows for a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

WIDTH, HEIGHT = 1000, 200
GAP = 0.18
# The number of colours for series.
COLOURS = 8

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
    # Points of the SVG by series; a gap in time begins another line.
    lines: Sequence[tuple[int, Sequence[str]]] = ()
    top: float = 1
    # Texts, or times that a page shows as hours and minutes.
    labels: Sequence[str | datetime] = ()
    head: Sequence[str] = ()
    # Empty: there is nothing to draw.
    rows: Sequence[Sequence[str | datetime]] = ()

    def with_bars(
        self, head: str, categories: Sequence[str | datetime], series: Mapping[str, Sequence[int]]
    ) -> Plot:
        """Return a plot of stacked bars for each category, the first series lowest.

        Series without a colour of their own are drawn as others; the table lists each.
        """
        names, last = list(series), len(categories) - 1
        stacks = list(zip(*series.values(), strict=True))
        top, width = top_of([sum(values) for values in stacks]), WIDTH / max(1, len(categories))
        bars = []
        for place, values in enumerate(stacks):
            end = 0
            for number, value in enumerate(values):
                end += value
                x, y = (place + GAP / 2) * width, HEIGHT * (1 - end / top)
                colour, height = min(number, COLOURS - 1), HEIGHT * value / top
                if value:
                    bars.append(Bar(colour, x, y, width * (1 - GAP), height))
        spread = [categories[round(last * part / 4)] for part in range(5)] if last > 5 else ()
        rows = zip(categories, stacks, strict=True)
        return self._replace(
            series=names if len(names) <= COLOURS else [*names[: COLOURS - 1], "others"],
            bars=bars,
            top=top,
            labels=spread or categories,
            head=[head, *names],
            rows=[[name, *(f"{n:,}" for n in values)] for name, values in rows if any(values)],
        )

    def with_lines(
        self, begin: datetime, end: datetime, series: Mapping[str, Points], longest_gap: timedelta
    ) -> Plot:
        """Return a plot with a line for each series; gaps longer than longest_gap stay open."""
        by_time = [dict(points) for points in series.values()]
        top = top_of([value for values in by_time for value in values.values()])
        lines: list[tuple[int, list[str]]] = []
        for number, points in enumerate(series.values()):
            former = None
            for at, value in points:
                x, y = (at - begin) / (end - begin) * WIDTH, HEIGHT * (1 - value / top)
                if former is None or at - former > longest_gap:
                    # A point that stands alone is a short line.
                    lines.append((number, [f"{max(0.0, x - 4):.1f},{y:.1f}"]))
                lines[-1][1].append(f"{x:.1f},{y:.1f}")
                former = at
        return self._replace(
            series=list(series),
            lines=lines,
            top=top,
            labels=[begin + (end - begin) * part / 4 for part in range(5)],
            head=["Time", *series],
            rows=[
                [at, *(f"{values[at]:,.4g}" if at in values else "" for values in by_time)]
                for at in sorted({at for values in by_time for at in values})
            ],
        )


def top_of(values: Sequence[float]) -> float:
    """Return the maximum of an axis: the largest value and some room above it, as two digits."""
    return float(f"{1.1 * max(values, default=0):.1e}") or 1
