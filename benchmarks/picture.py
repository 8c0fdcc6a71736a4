"""The results as a picture: bars relative to LIMIT's, which is 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.cells import CELLS, Cell
from benchmarks.samples import Run
from benchmarks.targets import (
    FLOOR,
    MEMORY_MB,
    OURS,
    SHARED_CELLS,
    UNDER_GRANIAN,
    WITH_A_KEY,
    WITHOUT_HISTORY,
)
from benchmarks.themes import Theme, bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    OURS: "Quartermaster",
    UNDER_GRANIAN: "under Granian",
    WITHOUT_HISTORY: "without history",
    WITH_A_KEY: "with a key",
    FLOOR: "LIMIT",
    "fastapi": "FastAPI",
    "eve": "Eve",
    "limit-whole-give": "LIMIT, whole give",
    "limit-granian": "LIMIT, Granian",
    "fastapi-granian": "FastAPI, Granian",
}
GOALS = {"a": 1.25, "b": 0.9, "c": 1.25}
COLUMNS = (
    ("CPU per request", "workers; for give, workers and MongoDB. Shorter is better"),
    ("Requests per second", "longer is better"),
)
# All in inches.
BAR, GAP, HEAD, FOOT, WIDTH = 0.2, 0.34, 1.5, 0.72, 10.0


def draw(run: Run, theme: Theme) -> Figure:
    """Return the picture of a run."""
    from matplotlib.figure import Figure

    cells = [cell for cell in CELLS if cell.key in SHARED_CELLS and run.of(OURS, cell.key)]
    counts = [len(_servers(run, cell)) for cell in cells] or [1]
    height = HEAD + FOOT + sum(count * BAR + GAP for count in counts)
    figure = Figure(figsize=(WIDTH, height))
    figure.text(0.02, 1 - 0.4 / height, "Quartermaster beside its peers", **theme.title)
    told = f"{run.players:,} players, 2 workers each, the same data and the same run. "
    told += "LIMIT, the bare floor of this stack, is 1."
    figure.text(0.02, 1 - 0.63 / height, told, size=9.5, color=theme.faint)
    space = {"left": 0.145, "right": 0.975, "top": 1 - HEAD / height, "bottom": FOOT / height}
    gap = GAP * len(counts) / (sum(counts) * BAR)
    grid = figure.add_gridspec(
        len(counts), len(COLUMNS), wspace=0.06, hspace=gap, height_ratios=counts, **space
    )
    for row, cell in enumerate(cells):
        for column in range(len(COLUMNS)):
            axes = figure.add_subplot(grid[row, column])
            _panel(axes, run, cell, column, theme)
            if row == 0:
                _column_head(axes, column, theme)
    _foot(figure, run, theme)
    return figure


def cost_of(cell: str) -> str:
    """Return the figure by which a cell is compared; the main cost of a write is in MongoDB."""
    return "all_ms" if cell == "d" else "worker_ms"


def _servers(run: Run, cell: Cell) -> list[str]:
    return [server for server in run.servers if run.of(server, cell.key)]


def _ratio(run: Run, server: str, cell: str, column: int) -> float:
    return run.ratio(server, FLOOR, cell, "per_second" if column else cost_of(cell)) or 0.0


def _panel(axes: Axes, run: Run, cell: Cell, column: int, theme: Theme) -> None:
    """Draw the bars of one cell in one column."""
    servers = _servers(run, cell)
    ratios = [_ratio(run, server, cell.key, column) for server in servers]
    every = [_ratio(run, s, c, column) for s in run.servers for c in SHARED_CELLS if run.of(s, c)]
    reach = max(1.3, 1.05 * max(every))
    kinds = {OURS: theme.ours, FLOOR: theme.floor}
    bars(axes, theme, ratios, [kinds.get(server, theme.other) for server in servers], reach)
    for row, (server, ratio) in enumerate(zip(servers, ratios, strict=True)):
        colour = "#ffffff" if server in kinds else theme.text
        told = f"{ratio:.2f}" if ratio else "-"
        axes.text(0.015 * reach, row, told, color=colour, weight="bold", size=8.5, va="center")
    axes.axvline(1, color=theme.faint, linewidth=1)
    names = [NAMES.get(server, server) for server in servers]
    axes.set_yticks(range(len(servers)), [""] * len(servers) if column else names)
    if column == 0:
        axes.get_yticklabels()[0].set(color=theme.text, weight="bold")
        title = cell.name.capitalize()
        axes.text(-0.31, 1.03, title, transform=axes.transAxes, **{**theme.head, "size": 9.5})
        # The target of a give is relative to another server.
        if goal := GOALS.get(cell.key):
            axes.axvline(goal, color=theme.goal, linewidth=1.6)
            axes.text(goal, -0.62, f" target {goal:.2f}", **theme.goal_text)


def _column_head(axes: Axes, column: int, theme: Theme) -> None:
    title, hint = COLUMNS[column]
    above = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(title, (0, 1), (0, 34), **above, **theme.head)
    axes.annotate(hint, (0, 1), (0, 21), **above, **theme.hint)


def _foot(figure: Figure, run: Run, theme: Theme) -> None:
    """Write the figures without a peer: memory, and the cells that only the service has."""
    told = []
    if OURS in run.servers:
        resident, _ = run.memory(OURS)
        told.append((f"{resident:.0f} MB per worker", f"target: at most {MEMORY_MB} MB"))
    for cell in CELLS:
        rate = run.mean(OURS, cell.key, "per_second")
        if rate and cell.key not in SHARED_CELLS:
            told.append((f"{rate:,.0f} per second", cell.name))
    for place, (text, hint) in enumerate(told):
        x = 0.02 + 0.19 * place
        figure.text(x, 0.33 / figure.get_figheight(), text, **theme.head)
        figure.text(x, 0.15 / figure.get_figheight(), hint, **theme.hint)
