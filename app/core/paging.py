"""The requested part of a list, and the page that is returned. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from app.core.types import Document


class Window(NamedTuple):
    """The requested part of a list: skip page * size records, return up to limit.

    With after, the part starts after that position instead; b"" is the beginning of the list.
    """

    page: int
    size: int
    limit: int
    after: bytes | None = None

    @property
    def start(self) -> int:
        return self.page * self.size


class Page(NamedTuple):
    """Records of a list, the total, and if after was set, the position to continue from."""

    total: int
    values: list[Document]
    next: bytes | None = None


class CursorPage(NamedTuple):
    """Records of a list with cursors, and the position of the next page; None on the last page."""

    values: Sequence[Any]
    next: bytes | None


AnyPage = TypeVar("AnyPage", Page, CursorPage)


def map_page(present: Callable[[Any], Any], page: AnyPage) -> AnyPage:
    """Return a page with its records as a function serves them."""
    return page._replace(values=[present(record) for record in page.values])
