"""Lists as CSV files, each declared by csv_list: filters and permissions are those of its page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Need
from app.batches.result_file import FORMULAS
from app.console.frame.pages import HEADERS, blp, required
from app.console.frame.times import iso
from app.http.uploads import download
from app.texts import whole_text
from app.types import Document

CSV = "text/csv"
# Without it, some spreadsheets do not read UTF-8.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ROWS_AT_ONCE = 500
# Where a formula may begin: some spreadsheets split lines at semicolons, too.
FORMULA = re.compile(rf"(^|;)(?=[{re.escape(''.join(FORMULAS))}])")

# Some records of a list, and the cursor of the next ones; None at the end.
Part = tuple[Iterable[Document], str | None]
# By title, functions of a record.
Columns = Mapping[str, Callable[[Document], Any]]


def columns(names: str, **others: Callable[[Document], Any]) -> Columns:
    """Return columns that are fields of records, and others."""
    return {**{name: itemgetter(name) for name in names.split()}, **others}


def csv_list(
    path: str,
    needs: Iterable[Need],
    read: Callable[..., Part],
    declared: Columns | Callable[[], Columns],
) -> None:
    """Add the file of the list at a path; columns may depend on what the caller may see."""

    def download_csv(**place: Any) -> Response:
        shown = declared() if callable(declared) else declared
        name = re.sub(r"\W+", "-", request.path.rpartition("/")[2].removesuffix(".csv"))
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}.csv"'}

        def begin() -> tuple[Iterable[bytes], Mapping[str, str]]:
            # The first part is read before the answer begins: a refused filter gets its own page.
            is_read = request.method != "HEAD"  # Flask routes HEAD to GET views
            part: Part = read("", ROWS_AT_ONCE, **place) if is_read else ((), None)
            return pieces(part), headers

        def pieces(part: Part) -> Iterator[bytes]:
            yield BYTE_ORDER_MARK + csv_lines([shown]) + rows(part[0])
            while part[1] is not None:
                part = read(part[1], ROWS_AT_ONCE, **place)
                yield rows(part[0])

        def rows(records: Iterable[Document]) -> bytes:
            return csv_lines([cell(record) for cell in shown.values()] for record in records)

        return download(begin, guard.caller().id, content_type=f"{CSV}; charset=utf-8")

    endpoint = re.sub(r"\W+", "_", f"csv{path}")
    blp.add_url_rule(f"{path}.csv", endpoint, required(*needs)(download_csv))


def csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([map(cell_text, row) for row in rows])
    return text.getvalue().encode("utf-8", "replace")


def cell_text(value: Any) -> Any:
    """Return a time or an author as text, and with an apostrophe what looks like a formula."""
    if isinstance(value, dict):
        value = value.get("Name") or value.get("UserId") or value.get("Id")
    if value is None or isinstance(value, int | float):
        return value
    text = iso(value) if isinstance(value, datetime) else whole_text(value)
    return FORMULA.sub(r"\1'", text)


def marks_text(record: Document) -> str:
    return ", ".join(word for word, _ in record["Marks"])
