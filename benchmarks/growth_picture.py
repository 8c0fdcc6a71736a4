"""The picture of growth: flat cells, the walk through all pages, and many clients at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.crowd import CLIENTS
from benchmarks.growth_report import FLAT, WALK, Growth, is_flat
from benchmarks.themes import Theme, bare, bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Bars longer than this, relative to the smallest world, are cut; a number shows the true length.
LONGEST = 3.0
# All in inches.
BAR, GAP, HEAD, FOOT, WIDTH = 0.17, 0.12, 1.4, 0.25, 10.0
# The beginning and end of the bars, and the beginning of the right half, as fractions of the width.
LEFT, SPLIT, RIGHT = 0.165, 0.56, 0.725


def draw(growth: Growth, theme: Theme) -> Figure:
    """Return the picture of a run."""
    from matplotlib.figure import Figure

    cells, each = growth.cells, len(growth.sizes) * BAR
    height = HEAD + FOOT + len(cells) * (each + GAP)
    figure = Figure(figsize=(WIDTH, height))
    _head(figure, growth.sizes, theme)
    space = {"left": LEFT, "right": SPLIT, "top": 1 - HEAD / height, "bottom": FOOT / height}
    grid = figure.add_gridspec(len(cells), hspace=GAP / each, **space)
    for row, cell in enumerate(cells):
        axes = figure.add_subplot(grid[row, 0])
        _group(axes, growth, cell, theme)
        if row == 0:
            axes.text(FLAT, -0.7, f" target: at most {FLAT}", **theme.goal_text)
    _walk(figure.add_axes((RIGHT, 0.45, 0.25, 0.55 - HEAD / height)), growth, theme)
    _crowds(figure, growth, theme)
    return figure


def _colours(count: int, theme: Theme) -> list[str]:
    """Return the colour of each size; the largest has the service's own colour."""
    return [*[theme.other, *[theme.floor] * count][: count - 1], theme.ours]


def _head(figure: Figure, sizes: list[int], theme: Theme) -> None:
    inch = 1 / figure.get_figheight()
    figure.text(0.02, 1 - 0.38 * inch, "As the world grows", **theme.title)
    told = f"Worlds of {', '.join(f'{size:,}' for size in sizes)} players, the smallest is 1."
    figure.text(0.02, 1 - 0.6 * inch, told, size=9.5, color=theme.faint)
    y = 1 - 0.95 * inch
    figure.text(LEFT, y, "Time per request", **theme.head)
    told = "relative to the smallest world. Shorter is better"
    figure.text(LEFT, y - 0.18 * inch, told, **theme.hint)
    for place, (size, colour) in enumerate(zip(sizes, _colours(len(sizes), theme), strict=True)):
        x = LEFT + 0.19 + 0.085 * place
        figure.text(x, y, "\u25a0", color=colour, size=11)
        figure.text(x + 0.016, y, f"{size:,}", **theme.hint)


def _group(axes: Axes, growth: Growth, cell: str, theme: Theme) -> None:
    """Draw a bar for each size."""
    found = growth.of(cell)
    ratios = [timing.median_ms / found[0].median_ms for timing in found]
    bars(axes, theme, ratios, _colours(len(found), theme), LONGEST)
    axes.set_yticks([(len(found) - 1) / 2], [cell], weight="bold", color=theme.text)
    right = {"va": "center", "ha": "right", "size": 8}
    for row, (ratio, timing) in enumerate(zip(ratios, found, strict=True)):
        told = f"{timing.median_ms:.2f} ms"
        axes.text(LONGEST * 1.1, row, f"{ratio:.2f}", color=theme.text, weight="bold", **right)
        axes.text(LONGEST * 1.28, row, told, color=theme.faint, **right)
    if is_flat(cell):
        axes.axvline(FLAT, color=theme.goal, linewidth=1.6)


def _walk(axes: Axes, growth: Growth, theme: Theme) -> None:
    """Draw the cost of a page along the walk through all players."""
    bare(axes, theme)
    axes.set_yticks([])
    beside = {"transform": axes.transAxes}
    axes.text(0, 1.165, "Walking all players", **beside, **theme.head)
    walked = growth.walk
    if not walked or not walked.seconds:
        return
    axes.text(0, 1.05, "ms per page of 100, first page to last", **beside, **theme.hint)
    parts = walked.parts_ms
    goal = WALK * parts[0]
    reach = max(1, -(-walked.pages // walked.part) - 1)
    axes.set(xlim=(0, reach), ylim=(0, 1.15 * max([*parts, goal])))
    axes.spines["bottom"].set(visible=True, color=theme.faint)
    axes.axhline(goal, color=theme.goal, linewidth=1.6)
    axes.text(0, goal * 1.02, f"target: at most {WALK:g} times", **theme.goal_text)
    axes.plot(range(len(parts)), parts, color=theme.ours, linewidth=2.2)
    ends = {0: "left", len(parts) - 1: "right"} if len(parts) > 1 else {0: "left"}
    for part, side in ends.items():
        told = f"{parts[part]:.1f} ms"
        axes.text(part, parts[part] * 0.93, told, color=theme.text, size=8.5, va="top", ha=side)
    told = f"{len(walked.seconds):,} pages, {sum(walked.seconds):.0f} s"
    told += "" if walked.is_whole else ": given up"
    axes.text(0, -0.1, told, **beside, **theme.hint)


def _crowds(figure: Figure, growth: Growth, theme: Theme) -> None:
    """Write the results of many clients that give at once."""
    y, line = 0.31, 0.19 / figure.get_figheight()
    figure.text(RIGHT, y, f"{CLIENTS} clients give at once", **theme.head)
    for crowd in growth.crowds:
        noun = "player" if crowd.players == 1 else "players"
        told = f"{crowd.load.per_second:,.0f} per second, {crowd.retries_each:.2f} retries each"
        told += f", {crowd.load.refused} refused" if crowd.load.refused else ""
        y -= 1.35 * line
        figure.text(RIGHT, y, f"to {crowd.players:,} {noun}", **{**theme.head, "size": 9.5})
        y -= line
        figure.text(RIGHT, y, told, **theme.hint)
