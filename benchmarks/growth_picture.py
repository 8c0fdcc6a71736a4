"""Growth as a picture: what stays flat, the walk, and the crowd."""

from __future__ import annotations

from benchmarks.crowd import CLIENTS
from benchmarks.growth_report import FLAT, WALK, Growth, is_flat
from benchmarks.svg import Drawing

WIDTH = 960
LEFT, SPAN = 190, 380
RIGHT = 660
BAR, STEP = 12, 15
CURVE_WIDTH, CURVE_HEIGHT = 260, 170
# Bars longer than this many times the smallest world's are cut, and say so in their figure.
LONGEST = 3.0


def draw(growth: Growth) -> str:
    """Return the picture of a run."""
    drawing = Drawing(WIDTH, "What a request costs as the world grows")
    sizes = ", ".join(f"{size:,}" for size in growth.sizes)
    drawing.text(24, 36, "As the world grows", "title")
    drawing.text(24, 56, f"Worlds of {sizes} players, the smallest is 1.", "faint")
    _legend(drawing, growth.sizes)
    drawing.text(LEFT, 92, "Time per request", "head")
    drawing.text(LEFT, 109, "to that in the smallest world. Shorter is better", "faint small")
    drawing.text(_place(FLAT) + 4, 124, f"target: at most {FLAT}", "goal-text small")
    y = 132.0
    for cell in growth.cells:
        y = _group(drawing, growth, cell, y)
    bottom = _walk(drawing, growth, 92)
    return drawing.finish(max(y, _crowds(drawing, growth, bottom)) + 20)


def _legend(drawing: Drawing, sizes: list[int]) -> None:
    for place, size in enumerate(sizes):
        x = LEFT + 215 + 90.0 * place
        drawing.bar(x, 82, BAR, BAR, _kind(place, len(sizes)))
        drawing.text(x + 18, 92, f"{size:,}", "faint small")


def _kind(place: int, count: int) -> str:
    """Return the colour of a size; the largest has ours."""
    return "ours" if place == count - 1 else ("other", "floor")[min(place, 1)]


def _group(drawing: Drawing, growth: Growth, cell: str, y: float) -> float:
    """Draw a bar for each size, and return where the next group may begin."""
    found = growth.of(cell)
    bottom = y + STEP * len(found)
    drawing.text(LEFT - 12, y + STEP * len(found) / 2 + 3, cell, "strong", "end")
    for place, timing in enumerate(found):
        top = y + STEP * place
        ratio = timing.median_ms / found[0].median_ms
        drawing.bar(LEFT, top, SPAN, BAR, "track")
        drawing.bar(LEFT, top, _place(ratio) - LEFT, BAR, _kind(place, len(found)))
        drawing.text(LEFT + SPAN + 42, top + 10, f"{ratio:.2f}", "strong small", "end")
        drawing.text(
            LEFT + SPAN + 108, top + 10, f"{timing.median_ms:.2f} ms", "faint small", "end"
        )
    if is_flat(cell):
        drawing.line(_place(FLAT), y - 3, _place(FLAT), bottom, "goal")
    return bottom + 14


def _place(ratio: float) -> float:
    return LEFT + SPAN * min(ratio / LONGEST, 1)


def _walk(drawing: Drawing, growth: Growth, y: float) -> float:
    """Draw what a page costs along the walk through all players."""
    walked = growth.walk
    left = RIGHT + 60
    drawing.text(left, y, "Walking all players", "head")
    if not walked or not walked.seconds:
        return y
    parts = walked.parts_ms
    drawing.text(left, y + 17, "ms per page of 100, first page to last", "faint small")
    bottom = y + 34 + CURVE_HEIGHT
    highest = max([*parts, WALK * parts[0]]) * 1.1
    reach = max(1, -(-walked.pages // walked.part) - 1)

    def at(place: float, ms: float) -> tuple[float, float]:
        return left + CURVE_WIDTH * 0.85 * place / reach, bottom - CURVE_HEIGHT * ms / highest

    drawing.line(left, bottom, left + CURVE_WIDTH * 0.85, bottom, "rule")
    drawing.line(*at(0, WALK * parts[0]), *at(reach, WALK * parts[0]), "goal")
    drawing.text(
        left, at(0, WALK * parts[0])[1] - 5, f"target: at most {WALK:g} times", "goal-text small"
    )
    drawing.curve([at(place, ms) for place, ms in enumerate(parts)])
    drawing.text(left, at(0, parts[0])[1] + 16, f"{parts[0]:.1f} ms", "small")
    if len(parts) > 1:
        drawing.text(
            at(len(parts) - 1, 0)[0], at(0, parts[-1])[1] - 6, f"{parts[-1]:.1f} ms", "small", "end"
        )
    told = f"{len(walked.seconds):,} pages, {sum(walked.seconds):.0f} s"
    drawing.text(left, bottom + 17, told if walked.is_whole else f"{told}: given up", "faint small")
    return bottom + 50


def _crowds(drawing: Drawing, growth: Growth, y: float) -> float:
    """Name what came of gives by many clients at once."""
    left = RIGHT + 60
    drawing.text(left, y, f"{CLIENTS} clients give at once", "head")
    for crowd in growth.crowds:
        y += 24
        noun = "player" if crowd.players == 1 else "players"
        drawing.text(left, y, f"to {crowd.players:,} {noun}", "strong")
        y += 16
        told = f"{crowd.load.per_second:,.0f} per second, {crowd.retries_each:.2f} retries each"
        told += f", {crowd.load.refused} refused" if crowd.load.refused else ""
        drawing.text(left, y, told, "faint small")
    return y
