"""Time per request, one request after another, on worlds of several sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle, islice
from statistics import median
from typing import NamedTuple
from urllib.parse import quote

from benchmarks import expected
from benchmarks.cells import CELLS, PLAYERS, Cell
from benchmarks.checks import WrongAnswer, check_answers
from benchmarks.history_cells import HISTORY_CELLS
from benchmarks.load import Request
from benchmarks.meters import Meter
from benchmarks.servers import Running, exchange, read
from benchmarks.worlds import World

CHUNKS = 5
WARM_UP = 50
SEARCHES = 100
COMMON_TEXT = "dra"


class Timing(NamedTuple):
    """The cost of one request of a cell in a world of some size, in milliseconds."""

    cell: str
    players: int
    median_ms: float
    mongod_ms: float


def search_path(text: str) -> str:
    return f"{PLAYERS}?search={quote(text)}"


def search_of(key: str, name: str, texts: list[str]) -> Cell:
    return Cell(
        key,
        name,
        lambda _: [Request("GET", search_path(text)) for text in texts],
        lambda world, place: expected.players_found(world, texts[place]),
    )


def rare_names(served: Running, count: int) -> list[str]:
    """Return names that no other name contains, by the server's search; the checks verify it."""
    last = served.world.read_names[::-1]
    found = (
        name for name in last if served.ask(Request("GET", search_path(name)))[1]["Total"] == 1
    )
    return list(islice(found, count))


def timings(started: list[Running], requests: int) -> Iterator[list[Timing]]:
    """Yield the timings of each cell, for all sizes."""
    rare = {served.world.players: rare_names(served, min(SEARCHES, requests)) for served in started}
    named = {cell.key: cell for cell in CELLS}
    for key in "adebh":
        yield measure(dict.fromkeys(started, named[key]), requests)
    for cell in HISTORY_CELLS:
        yield measure(dict.fromkeys(started, cell), requests)
    one = "search, one found"
    yield measure({s: search_of("s", one, rare[s.world.players]) for s in started}, requests)
    many = search_of("t", f"search, '{COMMON_TEXT}'", [COMMON_TEXT])
    # For information only: this cell is expected to be slow.
    yield measure(dict.fromkeys(started, many), max(CHUNKS, requests // 10))


def measure(asked: dict[Running, Cell], requests: int) -> list[Timing]:
    """Measure a cell in chunks, the sizes in turn, so that other load affects all sizes."""
    meters = {
        served: Stopwatch(served, cell, min(WARM_UP, requests)) for served, cell in asked.items()
    }
    for _ in range(CHUNKS):
        for stopwatch in meters.values():
            stopwatch.run(max(1, requests // CHUNKS))
    return [stopwatch.finish() for stopwatch in meters.values()]


class Stopwatch:
    """Sends the requests of one cell to one server, over one connection."""

    def __init__(self, served: Running, cell: Cell, warm_up: int) -> None:
        self._served = served
        self._cell = cell
        requests = cell.requests(served.world)
        check_answers(cell, served, requests)
        self._requests = cycle(requests)
        self._connection = served.connect()
        self._seconds: list[float] = []
        self._mongod = 0.0
        for _ in range(warm_up):
            self._ask()

    def run(self, count: int) -> None:
        mongod = Meter([self._served.world.mongod])
        self._seconds += [self._ask() for _ in range(count)]
        self._mongod += mongod.seconds()

    def finish(self) -> Timing:
        self._connection.close()
        world: World = self._served.world
        if self._cell.effects:
            world.reset()
        each = 1000 * self._mongod / len(self._seconds)
        return Timing(self._cell.name, world.players, 1000 * median(self._seconds), each)

    def _ask(self) -> float:
        request = next(self._requests)
        begun = time.perf_counter()
        status, body = exchange(self._connection, request, self._served.token)
        seconds = time.perf_counter() - begun
        if status != 200:
            raise WrongAnswer(f"{request.path} is answered with {status}: {read(body)}")
        return seconds
