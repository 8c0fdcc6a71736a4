"""Walking through all players by cursor, as export tools do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import click

from benchmarks.cells import PLAYERS
from benchmarks.checks import WrongAnswer
from benchmarks.load import Request
from benchmarks.servers import Running, exchange, read

PAGE_SIZE = 100
# The walk is reported in parts of so many pages.
PART = 1000


@dataclass
class Walk:
    """The durations of the pages, in order; incomplete if the time limit was reached."""

    players: int
    is_whole: bool = False
    seconds: list[float] = field(default_factory=list)

    @property
    def pages(self) -> int:
        return -(-self.players // PAGE_SIZE)

    @property
    def part(self) -> int:
        """Return the number of pages in a part, which is smaller in a small world."""
        return min(PART, max(1, self.pages // 10))

    def page_ms(self, first: int, count: int) -> float:
        """Return the average duration of some pages."""
        part = self.seconds[first : first + count]
        return 1000 * sum(part) / len(part)

    @property
    def parts_ms(self) -> list[float]:
        return [self.page_ms(page, self.part) for page in range(0, len(self.seconds), self.part)]

    @property
    def last_to_first(self) -> float:
        return self.page_ms(self.pages - self.part, self.part) / self.page_ms(0, self.part)

    @property
    def all_to_first(self) -> float:
        return self.page_ms(0, self.pages) / self.page_ms(0, self.part)


def walk(served: Running, patience: float) -> Walk:
    """Read page after page, and check that every player comes exactly once."""
    walked = Walk(served.world.players)
    connection = served.connect()
    seen: set[str] = set()
    deadline = time.monotonic() + patience
    after: str | None = ""
    with click.progressbar(range(walked.pages), label="Walking all pages") as pages:
        for page in pages:
            if time.monotonic() > deadline:
                return walked
            request = Request("GET", f"{PLAYERS}?after={after}&pageSize={PAGE_SIZE}")
            begun = time.perf_counter()
            status, body = exchange(connection, request, served.token)
            walked.seconds.append(time.perf_counter() - begun)
            after = _next(page, status, read(body), served, seen)
    if after or len(seen) != walked.players:
        raise WrongAnswer(f"The walk saw {len(seen)} of {walked.players} players.")
    connection.close()
    walked.is_whole = True
    return walked


def _next(page: int, status: int, answer: Any, served: Running, seen: set[str]) -> str | None:
    """Add the ids of a page to those seen, and return the cursor of the next one."""
    if status != 200:
        raise WrongAnswer(f"Page {page} is answered with {status}: {answer}")
    ids = {player["Id"] for player in answer["Values"]}
    rest = served.world.players - page * PAGE_SIZE
    if len(ids) != min(PAGE_SIZE, rest) or not seen.isdisjoint(ids):
        raise WrongAnswer(f"Page {page} has {len(ids)} players, of whom some were seen before.")
    seen |= ids
    following: str | None = answer["Next"]
    return following
