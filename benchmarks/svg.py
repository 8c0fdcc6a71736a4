"""Drawing: the few shapes that the pictures are made of, readable on light and on dark."""

from __future__ import annotations

from html import escape

# A card of its own makes the picture readable wherever it is shown; where the page tells us that
# it is dark, the card is dark as well.
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
         fill: #1f2933; }
  .card { fill: #ffffff; stroke: #d5dbe1; }
  .title { font-size: 19px; font-weight: 700; }
  .head { font-size: 14px; font-weight: 600; }
  .faint { fill: #616e7c; }
  .small { font-size: 11.5px; }
  .strong { font-weight: 700; }
  .inside { fill: #ffffff; font-weight: 700; }
  .track { fill: #eef1f4; }
  .rule { stroke: #616e7c; stroke-width: 1.2; }
  .goal { stroke: #c2410c; stroke-width: 2; }
  .goal-text { fill: #c2410c; }
  .ours { fill: #0f766e; }
  .floor { fill: #64748b; }
  .other { fill: #a9b4c0; }
  .curve { fill: none; stroke: #0f766e; stroke-width: 2.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaee; }
    .card { fill: #161b22; stroke: #3a434d; }
    .faint { fill: #9aa7b4; }
    .track { fill: #232a33; }
    .rule { stroke: #9aa7b4; }
    .goal { stroke: #fb923c; }
    .goal-text { fill: #fb923c; }
    .ours { fill: #2a9d8f; }
    .floor { fill: #7d8b9b; }
    .other { fill: #515c68; }
    .curve { stroke: #2dd4bf; }
  }
"""


class Drawing:
    """A picture in the making."""

    def __init__(self, width: int, label: str) -> None:
        self._width = width
        self._label = label
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, classes: str = "", anchor: str = "start") -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}" text-anchor="{anchor}">'
            f"{escape(text)}</text>"
        )

    def bar(self, x: float, y: float, width: float, height: float, classes: str) -> None:
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" '
            f'rx="3" class="{classes}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str) -> None:
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"/>'
        )

    def curve(self, points: list[tuple[float, float]]) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" class="curve"/>')

    def finish(self, height: float) -> str:
        """Return the picture, on a card of this height."""
        card = f'<rect x="0.5" y="0.5" width="{self._width - 1}" height="{height - 1:.0f}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self._width}" '
                f'height="{height:.0f}" viewBox="0 0 {self._width} {height:.0f}" role="img" '
                f'aria-label="{escape(self._label)}">',
                f"<style>{STYLE}</style>",
                f'{card} rx="10" class="card"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
