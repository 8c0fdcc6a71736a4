"""Tables of commands."""

from __future__ import annotations

from collections.abc import Iterable

import click

from app.core.naming import printable


def print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = [columns, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
