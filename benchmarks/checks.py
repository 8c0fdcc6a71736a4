"""Checks of the benches: a wrong answer or a lost write aborts them."""

from __future__ import annotations

from typing import Any

from benchmarks.cells import Cell
from benchmarks.expected import with_times
from benchmarks.load import CONNECTIONS, Load, Request
from benchmarks.servers import Running
from benchmarks.worlds import World

CHECKED = 3


class WrongAnswer(Exception):
    """A server gave an unexpected answer."""


def check_answers(cell: Cell, served: Running, requests: list[Request]) -> None:
    """Raise unless the answers to a sample of the requests are right in every field."""
    for place in {len(requests) * part // CHECKED for part in range(CHECKED)}:
        request = requests[place]
        right = with_times(cell.answer(served.world, place))
        status, answer = served.ask(request)
        given = with_times(answer)
        if (status, given) != (200, right):
            raise WrongAnswer(
                f"{served.server.name} answers {request.method} {request.path} wrongly, with "
                f"status {status}: {first_difference(given, right)}."
            )


def first_difference(given: Any, right: Any, path: str = "the answer") -> str:
    """Return the first difference between two answers."""
    if isinstance(given, dict) and isinstance(right, dict) and given.keys() == right.keys():
        pairs = [(f"{path}.{key}", given[key], right[key]) for key in right]
    elif isinstance(given, list) and isinstance(right, list) and len(given) == len(right):
        pairs = [(f"{path}[{i}]", *both) for i, both in enumerate(zip(given, right, strict=True))]
    else:
        return f"{path} is {str(given)[:300]}, right is {str(right)[:300]}"
    wrong = [pair for pair in pairs if pair[1] != pair[2]]
    return first_difference(wrong[0][1], wrong[0][2], wrong[0][0]) if wrong else "its status"


def check_load(cell: Cell, served: Running, counted: Load) -> None:
    """Raise unless all requests succeeded and had their effects."""
    if counted.refused or counted.broken:
        raise WrongAnswer(
            f"{served.server.name} refused {counted.refused} of {counted.requests} requests to "
            f"{cell.name}, and {counted.broken} broke."
        )
    try:
        check_effects(cell, served.world, counted, CONNECTIONS)
        check_entries(cell, served)
    except WrongAnswer as wrong:
        raise WrongAnswer(f"{served.server.name}: {wrong}") from wrong


def check_effects(cell: Cell, world: World, load: Load, connections: int) -> None:
    """Raise unless the effects match the requests that wrk counted or left in flight."""
    if cell.effects is None:
        return
    effects = cell.effects(world)
    if not load.served <= effects <= load.served + connections:
        raise WrongAnswer(
            f"{load.served} requests to {cell.name} were served (and up to {connections} were "
            f"under way at the end), but the database holds the effects of {effects}."
        )


def check_entries(cell: Cell, served: Running) -> None:
    """Raise unless history has one entry per change, or none for a server without history."""
    if cell.effects is None:
        return
    effects, entries = cell.effects(served.world), served.world.entries()
    if entries != (effects if served.server.has_history else 0):
        raise WrongAnswer(f"{effects} changes by {cell.name} left {entries} entries in history.")
