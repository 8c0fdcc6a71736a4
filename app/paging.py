"""What a part of a list is, to those who ask for it and those who read it. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple


class Window(NamedTuple):
    """Which part of a list is wanted: page * size records are skipped, limit are served.

    A walk goes on after the place where the part before ended, and begins after none (b"").
    """

    page: int
    size: int
    limit: int
    after: bytes | None = None

    @property
    def start(self) -> int:
        """How many records come before."""
        return self.page * self.size


class Page(NamedTuple):
    """Some records of a list, how many there are in all, and in a walk where more of them begin."""

    total: int
    values: list[dict[str, Any]]
    next: bytes | None = None
