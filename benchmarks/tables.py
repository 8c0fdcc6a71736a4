"""Tables, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

Row = Sequence[str]

FINDINGS = "\n## Findings\n"


def aligned(head: Row, rows: Sequence[Row]) -> str:
    """Return a table for a terminal; all columns but the first are right-aligned."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    return "\n".join(_line(row, widths) for row in (head, ["-" * width for width in widths], *rows))


def _line(row: Row, widths: list[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    cells = [f"{first[0]:<{first[1]}}", *(f"{text:>{width}}" for text, width in others)]
    return "  ".join(cells).rstrip()


def markdown_table(head: Row, rows: Sequence[Row]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def write_report(file: Path, text: str) -> None:
    """Write a report; the findings at the end of the former one, written by hand, stay."""
    former = file.read_text() if file.exists() else ""
    _, heading, findings = former.partition(FINDINGS)
    file.write_text(f"{text}{heading}{findings}")
