"""Lists as CSV files: the same filters and permissions as the page of the list.

A list is declared once, by csv_list, with its columns and a function that reads it page by page.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Permission, SignedIn
from app.batches.result_file import FORMULAS
from app.console.frame.pages import HEADERS, blp, required
from app.console.frame.times import iso
from app.http.uploads import download
from app.types import Document

CSV = "text/csv"
# Without it, some spreadsheets do not read UTF-8.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ROWS_AT_ONCE = 500

# Returns some records of a list from a cursor on, and the next cursor; None at the end.
Read = Callable[..., tuple[Iterable[Document], str | None]]
# The columns by title: the field of a record, or a function of the record.
Columns = Mapping[str, str | Callable[[Document], Any]]


def csv_list(
    path: str,
    needs: Iterable[Permission | SignedIn],
    read: Read,
    columns: Columns | Callable[[], Columns],
) -> None:
    """Add the file of the list at a path; columns may depend on what the caller may see."""
    name = path.rpartition("/")[2].strip("<>")

    def download_csv(**place: Any) -> Response:
        """Stream a list as a CSV file for a spreadsheet."""
        shown = columns() if callable(columns) else columns
        disposition = f'attachment; filename="{place.get(name, name)}.csv"'

        def begin() -> tuple[Iterable[bytes], Mapping[str, str]]:
            # The first part is read before the answer begins: a refused filter gets its own page.
            is_read = request.method != "HEAD"  # Flask routes HEAD to GET views
            first = read("", ROWS_AT_ONCE, **place) if is_read else ((), None)
            pieces = csv_pieces(shown, first, lambda after: read(after, ROWS_AT_ONCE, **place))
            return pieces, {**HEADERS, "Content-Disposition": disposition}

        kind = f"{CSV}; charset=utf-8"
        return download(begin, guard.caller().id, content_type=kind)

    endpoint = re.sub(r"\W+", "_", f"csv{path}")
    blp.add_url_rule(f"{path}.csv", endpoint, required(*needs)(download_csv))


def csv_pieces(
    columns: Columns,
    first: tuple[Iterable[Document], str | None],
    read: Callable[[str], tuple[Iterable[Document], str | None]],
) -> Iterator[bytes]:
    """Yield the header and the rows of a list, page by page."""
    records, following = first
    yield BYTE_ORDER_MARK + csv_lines(chain([columns], rows_of(columns, records)))
    while following is not None:
        records, following = read(following)
        yield csv_lines(rows_of(columns, records))


def rows_of(columns: Columns, records: Iterable[Document]) -> Iterator[list[Any]]:
    for record in records:
        values = [of(record) if callable(of) else record[of] for of in columns.values()]
        yield [iso(value) if isinstance(value, datetime) else value for value in values]


def csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([map(escape_formula, row) for row in rows])
    return text.getvalue().encode("utf-8", "replace")


def escape_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell


def marks_text(record: Document) -> str:
    return ", ".join(word for word, _ in record["Marks"])


def lines_text(record: Document) -> str:
    """Return what came of a change, on one line."""
    return ", ".join(f"{line.sign} {line.text}".strip() for line in record["Lines"])


def author_text(record: Document) -> str:
    """Return who has made a change; of somebody who was erased, the id is left."""
    return str(record["By"].get("Name") or record["By"].get("UserId") or "unknown")
