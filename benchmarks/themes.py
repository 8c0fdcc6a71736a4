"""The light and the dark theme of the pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# Imported lazily: it takes longer than all other imports of the bench tests together.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A fixed salt and no date: equal figures make equal files. Text stays text, not paths.
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "quartermaster",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
}
Style = dict[str, Any]


class Theme(NamedTuple):
    """The colours of a picture."""

    suffix: str
    page: str
    text: str
    faint: str
    track: str
    ours: str
    floor: str
    other: str
    goal: str

    @property
    def title(self) -> Style:
        return {"size": 14, "weight": "bold", "color": self.text}

    @property
    def head(self) -> Style:
        return {"size": 10.5, "weight": "bold", "color": self.text}

    @property
    def hint(self) -> Style:
        return {"size": 8.5, "color": self.faint}

    @property
    def goal_text(self) -> Style:
        return {"size": 8, "color": self.goal, "va": "bottom"}


LIGHT = Theme(
    "", "#ffffff", "#1f2933", "#616e7c", "#eef1f4", "#0f766e", "#64748b", "#b4bec9", "#c2410c"
)
DARK = Theme(
    "-dark", "#161b22", "#e6eaee", "#9aa7b4", "#232a33", "#2a9d8f", "#7d8b9b", "#515c68", "#fb923c"
)


def write(draw: Callable[[Theme], Figure], folder: Path, name: str) -> None:
    """Write a picture once for each theme."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        for theme in (LIGHT, DARK):
            path = folder / f"{name}{theme.suffix}.svg"
            draw(theme).savefig(path, facecolor=theme.page, metadata={"Date": None})


def embedded(name: str, text: str) -> str:
    """Return the markup that shows the picture in the theme of the page."""
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{name}{DARK.suffix}.svg">'
    return f'<picture>\n  {dark}\n  <img src="{name}.svg" alt="{text}">\n</picture>\n'


def bare(axes: Axes, theme: Theme) -> None:
    """Remove everything from the axes but the labels of the rows."""
    axes.set(facecolor=theme.page, xticks=[])
    axes.tick_params(length=0, colors=theme.faint, labelsize=9)
    axes.spines[:].set_visible(False)


def bars(axes: Axes, theme: Theme, values: list[float], colours: list[str], reach: float) -> None:
    """Draw bars from top to bottom, each on a track of the full length."""
    bare(axes, theme)
    rows = range(len(values))
    axes.barh(rows, [reach] * len(values), color=theme.track, height=0.74)
    axes.barh(rows, [min(value, reach) for value in values], color=colours, height=0.74)
    axes.set(xlim=(0, reach), ylim=(len(values) - 0.5, -0.5))
