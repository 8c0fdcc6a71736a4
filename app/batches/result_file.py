"""The result of a batch as CSV, which can be sent again as a new batch. Pure."""

from __future__ import annotations

from typing import Any

from app.batches.domain import VERDICTS, row_id
from app.naming import parse_guid
from app.operations import batch_operations
from app.types import Document, decimal

# The columns that a row does not have when it is first sent.
ADDED = ("Row", "PlayerId", "What", "Verdict", "Why", "Entry", "Batch")
# A spreadsheet takes a cell that begins with one of these for a formula, and anybody may have
# chosen the name in it. Some spreadsheets also accept the full-width forms.
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def columns() -> list[str]:
    """Return the columns of a result file: what was done, and all arguments of rows."""
    operations = batch_operations().values()
    arguments = [name for one in operations for name in one.history_arguments(one.arguments.fields)]
    return list(dict.fromkeys(["Row", "Player", "PlayerId", "Operation", *ADDED, *arguments]))


def result_cells(batch_id: str, row: Document) -> list[Any]:
    """Return the cells of a public row; its Text says what it does."""
    subject = row["Subject"] or {}
    player = {"Player": subject.get("Name") or row["Player"], "PlayerId": subject.get("Id")}
    values = {**row, **row["Arguments"], **player, "What": row["Text"], "Batch": batch_id}
    return [values.get(name) for name in columns()]


def without_result(cells: dict[str, str]) -> tuple[dict[str, str], Document]:
    """Return the cells of a row as they were first sent, if they are from a result file.

    Also return fields of its Row: which row it was, and whether that was done.
    """
    sent = {name.lower(): cell for name, cell in cells.items()}
    if sent.get("verdict") not in VERDICTS:
        return cells, {}
    added = {name: sent.pop(name.lower(), "") for name in ADDED}
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
    return sent, {"earlier_id": earlier_id, "is_done": added["Verdict"] == "done"}
