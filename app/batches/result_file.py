"""The result of a batch as CSV, which can be sent again as a new batch. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.batches.domain import VERDICTS, row_id
from app.naming import parse_guid
from app.operations import batch_operations
from app.types import Document, decimal

FIRST = ("Row", "Player", "PlayerId", "Operation", "What", "Verdict", "Why")
LAST = ("Entry", "Batch")
# Those of FIRST that a row has when it is sent.
FIELDS = ("Player", "Operation")
# A spreadsheet takes a cell that begins with one of these for a formula, and anybody may have
# chosen the name in it. Some spreadsheets also accept the full-width forms.
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


class SentCells(NamedTuple):
    """The cells of a row; from a result file, also its row there, and whether that was done."""

    cells: dict[str, str]
    earlier_id: str = ""
    is_done: bool = False


def columns() -> list[str]:
    """Return the columns of a result file; those between FIRST and LAST are arguments of rows."""
    operations = batch_operations().values()
    arguments = [name for one in operations for name in one.history_arguments(one.arguments.fields)]
    return list(dict.fromkeys([*FIRST, *arguments, *LAST]))


def result_cells(batch_id: str, row: Document) -> list[Any]:
    """Return the cells of a public row; its Text says what it does."""
    subject = row["Subject"] or {}
    player = {"Player": subject.get("Name") or row["Player"], "PlayerId": subject.get("Id")}
    values = {**row, **row["Arguments"], **player, "What": row["Text"], "Batch": batch_id}
    return [_escape_formula(values.get(name)) for name in columns()]


def _escape_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


def without_result(cells: dict[str, str]) -> SentCells:
    """Return the cells of a row as they were first sent, if they are from a result file."""
    sent = {name.lower(): cell for name, cell in cells.items()}
    if sent.get("verdict") not in VERDICTS:
        return SentCells(cells)
    added = {name: sent.pop(name.lower(), "") for name in (*FIRST, *LAST) if name not in FIELDS}
    for name, cell in sent.items():
        if cell.startswith("'") and cell[1:].startswith(FORMULAS):
            sent[name] = cell[1:]
    # The subject of an undo is that of its entry. A player may have another name by now.
    operation = batch_operations().get(sent.get("operation", ""))
    if operation and operation.is_undo:
        sent.pop("player", None)
    elif added["PlayerId"]:
        sent["player"] = added["PlayerId"]
    batch_id, number = parse_guid(added["Batch"]), decimal(added["Row"])
    earlier_id = row_id(batch_id, number) if batch_id and number else ""
    return SentCells(sent, earlier_id, added["Verdict"] == "done")
