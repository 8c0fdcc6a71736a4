"""The arguments of lists, and the formats of their responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import marshmallow
from flask import Response, after_this_request, current_app, request
from marshmallow import ValidationError, validates_schema

from app.core.naming import NAME_LENGTH, SEARCH_LENGTH, name_key
from app.core.paging import CursorPage, Page, Window
from app.http.api import Schema
from app.http.cursors import cursors
from app.http.fields import Integer, List, Nested, PlainText, QueryInteger, Text
from app.http.json import json_response

# The largest page number whose offset still fits MongoDB's skip.
PAGE_MAX = 2**53
PAGE_SIZE = 5
CURSOR_PAGE_SIZE = 50
# URL-safe base64, a dot, and a signature in the same alphabet.
CURSOR = r"^([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?$"
SIZE = (
    "Records per page. Higher values are reduced to the configured maximum (100), with a header "
    "`Warning`."
)
ASCENDING, DESCENDING = "Ascending", "Descending"


class PageSchema(Schema):
    """The envelope of a paged list; subclasses add its Values."""

    Total = Integer(0, example=1, description="The number of all records, not only of this page.")
    Page = Integer(0, example=0)
    PageSize = Integer(1, example=5, description="The page size that was used.")
    Count = Integer(0, example=1, description="The number of records in this answer.")
    Next = Text(
        allow_none=True,
        x_optional=True,
        example=None,
        description="Only if `after` was given: the `after` of the next page; null at the end.",
    )


class LegacyPageSchema(Schema):
    """The envelope of a deprecated list; subclasses add its entries."""

    total = Integer(0, example=1)
    Page = Integer(0, example=0)
    count = Integer(0, example=1)


def page_of(
    record: type[Schema], envelope: type[Schema] = PageSchema, name: str | None = None
) -> type[marshmallow.Schema]:
    """Return the schema of a page of records; it is named after them unless a name is given."""
    is_legacy = envelope is LegacyPageSchema
    name = name or f"{'Legacy' if is_legacy else ''}{record.__name__[: -len('Schema')]}PageSchema"
    values = List(Nested(record))
    return envelope.from_dict({"entries" if is_legacy else "Values": values}, name=name)


class PageNumberArgs(Schema):
    """The query of a list that comes by page numbers alone."""

    page = QueryInteger(0, PAGE_MAX, load_default=0, description="The number of the page, from 0.")
    pageSize = QueryInteger(1, load_default=PAGE_SIZE, description=SIZE)


class PagedListArgs(PageNumberArgs):
    """The query of a paged list."""

    limit = QueryInteger(
        1,
        description="Shortens the page; its offset stays page x pageSize. Default: pageSize.",
    )
    after = Text(
        pattern=CURSOR,
        description=(
            "The Next of the previous answer, with the same order and search; empty to begin. The "
            "cost does not depend on the depth. While others make changes, a record that keeps its "
            "position is neither missed nor repeated."
        ),
    )

    @validates_schema
    def require_one_way(self, values: dict[str, Any], **_: Any) -> None:
        if "after" in values and values.get("page"):
            raise ValidationError("Must be 0 where 'after' is given.", "page")


class CursorPageSchema(Schema):
    """The envelope of a list that is walked by cursors; subclasses add its Values."""

    Next = Text(
        allow_none=True,
        x_optional=True,
        example=None,
        description="The `after` of the next page; null at the end.",
    )


class CursorListArgs(Schema):
    """The query of a list that is walked by cursors."""

    pageSize = QueryInteger(1, load_default=CURSOR_PAGE_SIZE, description=SIZE)
    after = Text(
        pattern=CURSOR,
        description="The Next of the previous answer, with the same filters.",
    )


class Choices:
    """The words that a field accepts, as the OpenAPI document lists them; the field checks them."""

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words

    @property
    def choices(self) -> list[str]:
        return list(self._words())

    def __call__(self, value: str) -> str:
        return value


class OneOf(Text):
    """One of a few words, in any case; those of a function are read at each request."""

    default_error_messages = {"choice": "Must be one of {words}."}

    def __init__(
        self, *words: str, read: Callable[[], Iterable[str]] | None = None, **kwargs: Any
    ) -> None:
        self._choices = Choices(read or (lambda: words))
        super().__init__(validate=self._choices, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        for word in self._choices.choices:
            if word.lower() == text.lower():
                return word
        raise self.make_error("choice", words=", ".join(self._choices.choices))


class SearchText(PlainText):
    """A substring of a name, long enough to use the index."""

    def __init__(self) -> None:
        super().__init__(
            NAME_LENGTH,
            shortest=SEARCH_LENGTH,
            description=f"{SEARCH_LENGTH} or more characters, anywhere in the name, in any case. "
            "A letter and its combining accent count as one character.",
        )

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        key = name_key(super()._deserialize(value, attr, data, **kwargs))
        if len(key) < SEARCH_LENGTH:
            raise self.make_error("size", shortest=SEARCH_LENGTH, longest=NAME_LENGTH)
        return key


def sort_direction(default: str) -> OneOf:
    return OneOf(ASCENDING, DESCENDING, load_default=default, description="In any case.")


class LegacyListArgs(Schema):
    """The body of a deprecated list."""

    page = Integer(0, PAGE_MAX, load_default=0, example=0)
    count = Integer(1, load_default=PAGE_SIZE, example=PAGE_SIZE, description=SIZE)


def page_size(args: dict[str, Any], name: str = "pageSize") -> int:
    """Return the page size: the requested one, up to the configured maximum, with a warning."""
    size: int = args[name]
    most: int = current_app.config["PAGE_SIZE_MAX"]
    if size > most:
        warn(f"{name} was reduced to {most}.")
    return min(size, most)


def warn(text: str) -> None:
    """Add a header to the answer of this request that says what was not done as requested."""

    @after_this_request
    def add(response: Response) -> Response:
        response.headers.add("Warning", f'299 quartermaster "{text}"')
        return response


def paged_list(args: dict[str, Any], read: Callable[[Window], Page]) -> dict[str, Any]:
    """Return the body of a paged list; limit shortens the page without changing the offset."""
    size = page_size(args)
    after = cursors.read(args["after"]) if "after" in args else None
    page = read(Window(args["page"], size, min(args.get("limit", size), size), after))
    return {
        "Total": page.total,
        "Page": args["page"],
        "PageSize": size,
        "Count": len(page.values),
        "Values": page.values,
        **({} if after is None else {"Next": cursors.write(page.next)}),
    }


def legacy_list(args: dict[str, Any], read: Callable[[Window], Page]) -> dict[str, Any]:
    """Return the body of a list in the deprecated envelope."""
    if request.method == "POST" and request.args:
        warn("The query was ignored: send page and count in the body.")
    number, size = args["page"], page_size(args, "count")
    page = read(Window(number, size, size))
    count = len(page.values)
    return {"total": page.total, "Page": number, "count": count, "entries": page.values}


def cursor_list(
    args: dict[str, Any], read: Callable[[int, bytes], CursorPage | Page]
) -> dict[str, Any]:
    """Return the body of a list that is read with cursors."""
    return cursor_body(read(page_size(args), cursors.read(args.get("after", ""))))


def cursor_body(page: CursorPage | Page) -> dict[str, Any]:
    return {"Values": page.values, "Next": cursors.write(page.next)}


def cursor_response(page: CursorPage) -> Response:
    return json_response(cursor_body(page))
