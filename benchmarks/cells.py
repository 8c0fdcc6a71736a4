"""The cells of the bench: the requests, the expected answers and the effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from benchmarks import expected
from benchmarks.load import Request
from benchmarks.worlds import GIVEN_ITEM, World

PLAYERS = "/api/v1/players"
# After this time, the feed of events has seen the last changes.
FEED_SECONDS = 1.5
GIVE_BODY = f'{{"itemid":"{GIVEN_ITEM}","quantity":1}}'


class Cell(NamedTuple):
    """One kind of request."""

    key: str
    name: str
    requests: Callable[[World], list[Request]]
    # Returns the expected answer to a request; called before the request is sent.
    answer: Callable[[World, int], Any]
    # Counts the requests that took effect in the database, if they change it.
    effects: Callable[[World], int] | None = None
    # The function that measures it, if it is not one request after another.
    measure: Callable[..., Any] | None = None


def player_path(name: str) -> str:
    return f"{PLAYERS}/{quote(name, safe='')}"


def lookups(world: World) -> list[Request]:
    return [Request("GET", player_path(name)) for name in world.read_names]


def lookup(world: World, place: int) -> Any:
    return expected.player(world, world.read_names[place])


def inventories(world: World) -> list[Request]:
    return [Request("GET", f"{player_path(n)}/items/inventory") for n in world.read_names]


def gives_to(names: Sequence[str]) -> list[Request]:
    return [Request("POST", f"{player_path(name)}/items/give", GIVE_BODY) for name in names]


def always(path: str) -> Callable[[World], list[Request]]:
    return lambda _: [Request("GET", path)]


def given_in_all(world: World) -> int:
    """Return how many items were given to the players reserved for writes."""
    before = world.db["bench_written"].find({}, ["Inventory"])
    after = _written(world, "Inventory")
    now, then = (sum(expected.held_of(p["Inventory"]) for p in found) for found in (after, before))
    return now - then


def _written(world: World, *fields: str) -> Any:
    ids = [player["_id"] for player in world.db["bench_written"].find({}, ["_id"])]
    return world.db["players"].find({"_id": {"$in": ids}}, list(fields))


CELLS = (
    Cell("a", "lookup by name", lookups, lookup),
    Cell("b", "list, page 0", always(PLAYERS), lambda w, _: expected.players_by_name(w)),
    Cell("c", "inventory", inventories, lambda w, i: expected.inventory(w, w.read_names[i])),
    Cell(
        "d",
        "give one stack",
        lambda world: gives_to(world.written_names),
        lambda w, i: expected.given(w, w.written_names[i]),
        given_in_all,
    ),
    Cell("e", "rank, page 0", always(f"{PLAYERS}/rank"), lambda w, _: expected.players_by_rank(w)),
    Cell(
        "h",
        "online count",
        always(f"{PLAYERS}/online/count"),
        lambda w, _: expected.online_count(w),
    ),
)
