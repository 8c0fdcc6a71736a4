"""The result of a batch as CSV. Pure."""

from __future__ import annotations

from typing import Any

from app.core.operations import batch_operations
from app.core.types import Document

# A spreadsheet takes a cell that begins with one of these for a formula, and anybody may have
# chosen the name in it. Some spreadsheets also accept the full-width forms.
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def columns() -> list[str]:
    """Return the columns of a result file: what was done, and all arguments of rows."""
    operations = batch_operations().values()
    arguments = [name for one in operations for name in one.history_arguments(one.arguments.fields)]
    about = ("Row", "Player", "PlayerId", "Operation", "What", "Verdict", "Why", "Entry", "Batch")
    return list(dict.fromkeys([*about, *arguments]))


def result_cells(batch_id: str, row: Document) -> list[Any]:
    """Return the cells of a public row; its Text says what it does."""
    subject = row["Subject"] or {}
    player = {"Player": subject.get("Name") or row["Player"], "PlayerId": subject.get("Id")}
    values = {**row, **row["Arguments"], **player, "What": row["Text"], "Batch": batch_id}
    return [values.get(name) for name in columns()]
