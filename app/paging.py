"""The requested window of a list, and the page that answers it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.types import Document


class Window(NamedTuple):
    """The requested part of a list: page * size records are skipped, limit are served.

    With after, the part begins behind that position instead; b"" is the beginning of the list.
    """

    page: int
    size: int
    limit: int
    after: bytes | None = None

    @property
    def start(self) -> int:
        return self.page * self.size


class Page(NamedTuple):
    """Some records of a list, the total, and with after the position to continue from."""

    total: int
    values: list[Document]
    next: bytes | None = None


class CursorPage(NamedTuple):
    """Some records of a list that is walked by cursors, and where it goes on; None at the end."""

    values: Sequence[Any]
    next: bytes | None
