"""Lists: each is declared once, for its page and for its file with the same filters and columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from flask import Response, request

from app.auth import guard
from app.console.forms.declared import Field, Form, Target
from app.console.forms.places import Place
from app.console.forms.submissions import forms_on, query_text
from app.console.frame.pages import HEADERS, PAGE_SIZE, PREFIX, blp, render, required, with_query
from app.console.frame.times import iso
from app.core.errors import QuartermasterError
from app.core.naming import SEARCH_LENGTH, name_key
from app.core.paging import CursorPage, Page, Window
from app.core.permissions import Need
from app.core.texts import whole_text
from app.core.types import Document, value_at
from app.history.access import sees_users
from app.http.api import Schema
from app.http.cursors import cursors
from app.http.errors import status_of
from app.http.parser import load
from app.http.uploads import download

# Without it, some spreadsheets do not read UTF-8.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ROWS_AT_ONCE = 500
# Where a spreadsheet finds a formula, and anybody may have chosen the name in the cell. Some split
# lines at semicolons, too, or accept the full-width forms.
FORMULA = re.compile("(^|;)(?=[-=+@\t\r\n\uff1d\uff0b\uff0d\uff20])")

# By title, functions of a record.
Columns = Mapping[str, Callable[[Document], Any]]


def columns(names: str, **others: str | Callable[[Document], Any]) -> Columns:
    """Return columns that are fields of records, and others: paths in records, or functions."""
    known = {**{name: name for name in names.split()}, **others}
    return {
        title: partial(value_at, path=of) if isinstance(of, str) else of
        for title, of in known.items()
    }


class Listed(NamedTuple):
    """A page of a list, or why a filter was refused."""

    filters: tuple[Field, ...]
    # By name, the filters in the query.
    wanted: dict[str, str]
    values: Any = ()
    next: str | None = None
    total: int = 0
    error: QuartermasterError | None = None

    @property
    def status(self) -> int | None:
        return status_of(self.error) if self.error else None

    @property
    def used(self) -> int:
        return sum(map(bool, self.wanted.values()))

    def query(self, **more: str) -> str:
        """Return the query of a link that keeps the filters."""
        return with_query("", {**self.wanted, **more}.items())


@dataclass(frozen=True)
class ListPage:
    """A list with its page, and with a file if it has columns. A declaration adds the views."""

    path: str
    needs: tuple[Need, ...]
    # Called with the filters and the cursor in use, a size, and the variables of the path.
    read: Callable[..., Page | CursorPage]
    # The columns of the file; they may depend on what the caller may see.
    columns: Columns | Callable[[], Columns] | None = None
    filters: tuple[Field, ...] = ()
    # The template of its page, if that is of the list alone.
    template: str = ""
    # Returns what else its page shows; called with the page of the list and the variables.
    about: Callable[..., Document] = lambda *_, **__: {}
    # The forms beside the list, and their target, by the path of the page.
    forms: tuple[Form, ...] = ()
    target: Callable[[str], Target] = Target
    # The schema of the filters, whose refusal its page shows. None: they are read as they were
    # typed, and a refusal gets an error page.
    schema: Schema | None = None
    # Returns the records of a page as the page and the file show them.
    cards: Callable[[Any], list[Any]] = list

    def __post_init__(self) -> None:
        if self.template:
            Place(self.path, {"": self.forms}, self.show, needs=self.needs)
        if self.columns:
            path = f"{self.path}.csv"
            view = required(*self.needs)(self.download)
            blp.add_url_rule(path, re.sub(r"\W+", "_", path), view)

    def wanted(self) -> dict[str, str]:
        """Return the filters in the query; one with a default ignores an unknown value."""
        found = {}
        for one in self.filters:
            text = query_text(one.name)
            found[one.name] = text if not one.value or text in one.options() else one.value
        return found

    def part(self, after: str | None, size: int, **place: Any) -> Page | CursorPage:
        typed = {**self.wanted(), "after": after}
        given: Document = {name: text for name, text in typed.items() if text}
        wanted = load(self.schema, given) if self.schema else given
        found = self.read(wanted, size, **place)
        return found._replace(values=self.cards(found.values))

    def find(self, **place: Any) -> Listed:
        """Return the page of the list that the query selects."""
        shown = tuple(one for one in self.filters if one.name != "user" or sees_users())
        wanted = self.wanted()
        try:
            part = self.part(query_text("after"), PAGE_SIZE, **place)
        except QuartermasterError as error:
            if not self.schema:
                raise
            return Listed(shown, wanted, error=error)
        total = part.total if isinstance(part, Page) else 0
        return Listed(shown, wanted, part.values, cursors.write(part.next), total)

    def show(self, **place: Any) -> Response:
        found, forms = self.find(**place), forms_on(self.forms, self.target(f"{PREFIX}{self.path}"))
        about = self.about(found, **place)
        return render(self.template, found.status, found=found, forms=forms, **about)

    def download(self, **place: Any) -> Response:
        shown: Columns = self.columns() if callable(self.columns) else self.columns or {}
        name = request.path.rpartition("/")[2]
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}

        def begin() -> tuple[Iterable[bytes], Mapping[str, str]]:
            # The first part is read before the answer begins: a refused filter gets its own page,
            # and so does a path that names nothing.
            return pieces(self.part("", ROWS_AT_ONCE, **place)), headers

        def pieces(part: Page | CursorPage) -> Iterator[bytes]:
            yield BYTE_ORDER_MARK + csv_lines([shown])
            while True:
                yield csv_lines([cell(one) for cell in shown.values()] for one in part.values)
                if part.next is None:
                    return
                part = self.part(cursors.write(part.next), ROWS_AT_ONCE, **place)

        return download(begin, guard.caller().id, content_type="text/csv; charset=utf-8")


def search_text(wanted: Document) -> str | None:
    """Return the text to search names for; None if it is too short."""
    text = name_key(wanted.get("search", ""))
    return text if len(text) >= SEARCH_LENGTH else None


def window_of(wanted: Document, size: int) -> Window:
    return Window(0, size, size, cursors.read(wanted.get("after", "")))


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
