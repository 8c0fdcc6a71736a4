"""The arguments of lists, and the two envelopes that their answers come in."""

from __future__ import annotations

from typing import Any

from app.http.api import Schema
from app.http.fields import INT64, Integer, QueryInteger
from app.paging import Page, Window

PAGE_MAX = 2**31 - 1
PAGE_SIZE = 5


class PagedListArgs(Schema):
    """The query of a paged list."""

    page = QueryInteger(0, PAGE_MAX, load_default=0, metadata={"description": "From 0."})
    pageSize = QueryInteger(  # noqa: N815 (the contract's spelling)
        1, INT64 - 1, load_default=PAGE_SIZE, metadata={"description": "At most 100 are served."}
    )
    limit = QueryInteger(1, INT64 - 1, metadata={"description": "Cuts the page; default pageSize."})


class LegacyListArgs(Schema):
    """The body of a deprecated list."""

    page = Integer(0, PAGE_MAX, load_default=0)
    count = Integer(1, load_default=PAGE_SIZE, metadata={"description": "At most 100 are served."})


def paged_window(args: dict[str, Any], largest: int) -> Window:
    """Return the part that a paged list asks for; limit cuts the page, not the offset."""
    size = min(args["pageSize"], largest)
    return Window(args["page"], size, min(args.get("limit", size), size))


def legacy_window(args: dict[str, Any], largest: int) -> Window:
    size = min(args["count"], largest)
    return Window(args["page"], size, size)


def paged_envelope(window: Window, page: Page) -> dict[str, Any]:
    return {
        "Total": page.total,
        "Page": window.page,
        "PageSize": window.size,
        "Count": len(page.values),
        "Values": page.values,
    }


def legacy_envelope(window: Window, page: Page) -> dict[str, Any]:
    return {
        "total": page.total,
        "Page": window.page,
        "count": len(page.values),
        "entries": page.values,
    }
