"""Reads the rows of a batch from JSON or CSV, and checks the shape of each."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

from app.batches.domain import MOST_ROWS, Row
from app.core.errors import Invalid, InvalidField
from app.core.naming import NAME_LENGTH, NIL, parse_guid
from app.core.operations import Operation, batch_operations
from app.core.types import Document
from app.http.lenient import fields_by_name, respell
from app.http.masking import masked
from app.http.parser import MAX_FIELDS, json_object, load

CSV = "text/csv"
# The size of JSON. 100,000 usual rows have 14 MB, and take up to 90 MB of memory.
MOST_JSON = 16 * 2**20
# Twice of what rows need, names with commas and brackets included: as many small values as fit into
# the size would take 700 MB, and the interpreter for half a minute.
MOST_COMMAS, MOST_OBJECTS = 10 * MOST_ROWS, 2 * MOST_ROWS
DELIMITERS = (";", "\t")
# The longest row of CSV, in characters: more than any valid row needs.
LONGEST_LINE = 128 * 1024
# The number of lines in a spreadsheet.
MOST_LINES = 2**20
# Stands for the id of an object that a row names, while its other arguments are checked.
NAMED = NIL.replace("0", "1")


def json_body(file: BinaryIO, called: str = "The request body") -> Document:
    """Return the fields of a batch in JSON, with an iterator of its rows, if it has any.

    The document is read at once: keep its size within memory.
    """
    text = file.read(MOST_JSON + 1)
    if len(text) > MOST_JSON:
        size = f"{called} has more than {MOST_JSON // 2**20} MiB of JSON"
        raise Invalid(f"{size}: send CSV, or split it into several batches.")
    if text.count(b",") > MOST_COMMAS or text.count(b"{") + text.count(b"[") > MOST_OBJECTS:
        raise Invalid(f"{called} has too many values for {MOST_ROWS:,} rows.")
    body = json_object(text, called)
    if "Rows" in body:
        if not isinstance(body["Rows"], list):
            raise InvalidField("Rows", "Must be a list.")
        body["Rows"] = map(parse_row, body["Rows"])
    return body


def csv_body(file: BinaryIO) -> Document:
    """Return an iterator of the rows of a CSV file in UTF-8, whose first line names the columns."""
    return {"Rows": _csv_rows(file)}


def _csv_rows(file: BinaryIO) -> Iterator[Row]:
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    try:
        for values in _csv_values(text):
            yield parse_row(values, is_text=True)
    except UnicodeDecodeError:
        raise Invalid("The file is not UTF-8: save a spreadsheet as CSV (UTF-8).") from None
    except csv.Error as error:
        raise Invalid(f"The file is not CSV: {error}.") from None
    finally:
        text.detach()


def _lines_of_row(text: TextIO) -> Iterator[str]:
    """Yield the next lines for as long as a row goes on; refuse a long one before reading it."""
    left = LONGEST_LINE
    while line := text.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise Invalid(f"A line of the file has more than {LONGEST_LINE:,} characters.")
        yield line


def _csv_values(text: TextIO) -> Iterator[dict[str | None, str]]:
    """Yield the values of each row that is not empty by column; None has those beyond them."""
    first = next(_lines_of_row(text), "")
    # In many locales, spreadsheets separate columns by semicolons.
    delimiter = next((mark for mark in DELIMITERS if mark in first and "," not in first), ",")
    columns = next(csv.reader([first], delimiter=delimiter, strict=True), [])
    if len(columns) > MAX_FIELDS:
        raise Invalid(f"The first line of the file names more than {MAX_FIELDS} columns.")
    names = [cell.strip() for cell in columns]
    given = [name.lower() for name in names if name]
    if "verdict" in given:
        raise Invalid("The file is the result of a batch: plan the rest of that batch instead.")
    if len(set(given)) < len(given):
        raise Invalid("The first line of the file names a column twice.")
    for _ in range(MOST_LINES):
        cells = next(csv.reader(_lines_of_row(text), delimiter=delimiter, strict=True), None)
        if cells is None:
            return
        beyond = "".join(cells[len(names) :])
        by_column = [*zip(names, cells, strict=False), (None, beyond)]
        # Spreadsheets export empty rows after the last one.
        if values := {name: cell.strip() for name, cell in by_column if cell.strip()}:
            yield values
    raise Invalid(f"The file has more than {MOST_LINES:,} lines.")


def parse_row(values: Any, is_text: bool = False) -> Row:
    """Return a row, with a fault if its operation cannot load it.

    Field names are case-insensitive. With is_text, as in CSV, numbers are strings.
    """
    if not isinstance(values, dict) or len(values) > MAX_FIELDS:
        fault = f"A row must be an object with at most {MAX_FIELDS} named values."
        return Row(None, None, {}, fault)
    named = {str(name).lower(): value for name, value in values.items()}
    player, name = named.pop("player", None), named.pop("operation", None)
    operation = batch_operations().get(name.lower()) if isinstance(name, str) else None
    is_short = isinstance(player, str) and len(player) <= NAME_LENGTH
    row = Row(masked(player) if is_short else None, operation.name if operation else None, {})
    try:
        if None in values:
            raise Invalid("The line has more cells than there are columns.")
        if len({str(name).lower() for name in values}) < len(values):
            raise Invalid("A field of the row is given twice, in different case.")
        return row._replace(arguments=_arguments(operation, player, named, is_text))
    except Invalid as error:
        return row._replace(fault=masked(str(error)), sent=_values_to_show(operation, named))


def _values_to_show(operation: Operation | None, named: Document) -> Document:
    """Return the values of a malformed row, so that its page and the result file show them."""
    if operation is None or operation.is_undo:
        return {}
    return {
        name: masked(str(named[name.lower()])[:NAME_LENGTH])
        for name in operation.history_arguments(operation.arguments.fields)
        if isinstance(named.get(name.lower()), str | int | float)
    }


def _arguments(
    operation: Operation | None, player: Any, named: Document, is_text: bool
) -> Document:
    if operation is None:
        names = ", ".join(batch_operations())
        raise Invalid(f"The field 'Operation' must be one of {names}.")
    if operation.is_undo:
        if player is not None:
            raise Invalid("An undo has no field 'Player': its history entry names the player.")
    elif not isinstance(player, str) or not player:
        raise Invalid("The field 'Player' must be the name or the id of a player.")
    elif len(player) > NAME_LENGTH:
        raise Invalid(f"The field 'Player' must be at most {NAME_LENGTH} characters.")
    schema = operation.arguments
    spelling = {name.lower(): name for name in fields_by_name(schema)}
    named = {spelling.get(name, name): value for name, value in named.items()}
    if is_text:
        named = {**named, **respell(schema, named)}
    # Objects may be given by name: the plan finds their ids.
    objects = {}
    for name in operation.object_types:
        key = schema.fields[name].data_key or name
        text = named.get(key)
        if isinstance(text, str) and 0 < len(text) <= NAME_LENGTH and not parse_guid(text):
            objects[name], named = masked(text), {**named, key: NAMED}
    loaded: Document = load(schema, named)
    return {**loaded, **objects}
