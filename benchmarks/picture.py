"""The results as a picture: bars beside LIMIT's, which is 1."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.cells import CELLS
from benchmarks.samples import Run
from benchmarks.svg import Drawing
from benchmarks.targets import FLOOR, MEMORY_MB, OURS, SHARED_CELLS

WIDTH = 960
LABELS = 140
PANEL = 370
GAP = 40
BAR, STEP = 16, 21
NAMES = {
    **{OURS: "Quartermaster", FLOOR: "LIMIT", "fastapi": "FastAPI", "eve": "Eve"},
    **{"limit-our-worker": "LIMIT, our worker", "limit-whole-give": "LIMIT, whole give"},
}


class Panel(NamedTuple):
    """One column of bars: a figure of every server and cell, as a ratio to LIMIT's."""

    left: float
    largest: float
    goals: dict[str, float]

    def place(self, ratio: float) -> float:
        return self.left + PANEL * min(ratio / self.largest, 1)


def draw(run: Run) -> str:
    """Return the picture of a run."""
    drawing = Drawing(WIDTH, "Quartermaster beside its peers")
    drawing.text(24, 36, "Quartermaster beside its peers", "title")
    subtitle = f"{run.players:,} players, 2 workers each, the same data and the same run."
    drawing.text(24, 56, f"{subtitle} LIMIT, the bare floor of this stack, is 1.", "faint")
    columns = _columns(run)
    y = 92.0
    for panel, (title, hint) in zip(columns.values(), HEADS, strict=True):
        drawing.text(panel.left, y, title, "head")
        drawing.text(panel.left, y + 17, hint, "faint small")
    y += 40
    for cell in CELLS:
        if cell.key in SHARED_CELLS and run.of(OURS, cell.key):
            y = _group(drawing, run, columns, cell.key, cell.name, y)
    return drawing.finish(_footer(drawing, run, y))


HEADS = (
    ("CPU per request", "workers; for give, workers and MongoDB. Shorter is better"),
    ("Requests per second", "longer is better"),
)


def cost_of(cell: str) -> str:
    """Return the figure by which a cell is judged; a write is work for MongoDB above all."""
    return "all_ms" if cell == "d" else "worker_ms"


def _columns(run: Run) -> dict[str, Panel]:
    """Return the panels, wide enough for the largest of their bars."""
    cells = [cell for cell in SHARED_CELLS if run.of(OURS, cell)]

    def largest(figure: str) -> float:
        named = [
            (s, c, cost_of(c) if figure == "cost" else figure) for s in run.servers for c in cells
        ]
        return 1.05 * max((run.ratio(s, FLOOR, c, f) or 0 for s, c, f in named), default=1.3)

    goals = {"a": 1.2, "b": 1.0, "c": 1.2, "d": 1.0}
    right = LABELS + PANEL + GAP
    return {
        "cost": Panel(LABELS, max(1.3, largest("cost")), goals),
        "per_second": Panel(right, max(1.3, largest("per_second")), {}),
    }


def _group(
    drawing: Drawing, run: Run, columns: dict[str, Panel], cell: str, name: str, y: float
) -> float:
    """Draw the bars of one cell, and return where the next may begin."""
    drawing.text(24, y + 12, name.capitalize(), "head")
    y += 22
    servers = [server for server in run.servers if run.of(server, cell)]
    bottom = y + STEP * len(servers)
    for place, server in enumerate(servers):
        top = y + STEP * place
        drawing.text(LABELS - 8, top + 12.5, NAMES.get(server, server), _text_class(server), "end")
        for figure, panel in columns.items():
            chosen = cost_of(cell) if figure == "cost" else figure
            _bar(drawing, panel, run.ratio(server, FLOOR, cell, chosen), server, top)
    for panel in columns.values():
        drawing.line(panel.place(1), y - 4, panel.place(1), bottom, "rule")
        if goal := panel.goals.get(cell):
            drawing.line(panel.place(goal), y - 4, panel.place(goal), bottom, "goal")
            drawing.text(panel.place(goal) + 4, y - 6, f"target {goal:.2f}", "goal-text small")
    return bottom + 14


def _bar(drawing: Drawing, panel: Panel, ratio: float | None, server: str, top: float) -> None:
    if ratio is None:
        return
    kind = {OURS: "ours", FLOOR: "floor"}.get(server, "other")
    drawing.bar(panel.left, top, PANEL, BAR, "track")
    drawing.bar(panel.left, top, panel.place(ratio) - panel.left, BAR, kind)
    text = f"{ratio:.2f}"
    inside = "inside small" if kind != "other" else "strong small"
    drawing.text(panel.left + 8, top + 12, text, inside)


def _text_class(server: str) -> str:
    return "strong" if server == OURS else "faint"


def _footer(drawing: Drawing, run: Run, y: float) -> float:
    """Name what has no peer: memory, and the cells that only the service serves."""
    if OURS in run.servers:
        resident, _ = run.memory(OURS)
        drawing.text(24, y + 12, f"{resident:.0f} MB per worker", "head")
        drawing.text(24, y + 29, f"target: at most {MEMORY_MB} MB", "faint small")
    x = LABELS + 90.0
    for cell in CELLS:
        rate = run.mean(OURS, cell.key, "per_second")
        if rate and cell.key not in SHARED_CELLS:
            drawing.text(x, y + 12, f"{rate:,.0f} per second", "head")
            drawing.text(x, y + 29, cell.name, "faint small")
            x += 150
    return y + 50
