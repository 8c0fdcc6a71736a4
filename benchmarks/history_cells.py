"""Cells for pages of history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pymongo

from app.history.store import filters_of
from app.http.cursors import Cursors
from app.storage.paging.newest_first import position as position_of
from benchmarks import entries
from benchmarks.cells import Cell
from benchmarks.load import Request
from benchmarks.worlds import LONG_SECONDS, SECRET, World

HISTORY = "/api/v1/history"
PAGE_SIZE, LARGEST_PAGE = 25, 100
NEWEST_FIRST = [("At", -1), ("_id", -1)]
# The kinds of subjects that the caller of the benches may see.
KINDS = ("player", "user", "bag", "object")
# The position of "far down" in the list of all entries.
FAR = 0.9
FIELDS = ("At", "Subject", "Operation", "Via", "RequestId", "Reason", "Arguments", "Changes")

Document = dict[str, Any]


def newest(_: World) -> list[Request]:
    return [Request("GET", f"{HISTORY}?pageSize={PAGE_SIZE}")]


def evening(_: World) -> list[Request]:
    """Return the request for all changes of one person in one evening."""
    begin, end = map(_zulu, _evening())
    by = quote(entries.author(entries.PERSON)["Name"])
    query = f"by={by}&from={begin}&to={end}&pageSize={LARGEST_PAGE}"
    return [Request("GET", f"{HISTORY}?{query}")]


def far_down(world: World) -> list[Request]:
    """Return the request for a page far down the list, by cursor."""
    (last,) = _stored(world, "player", 1, skip=_skipped(world) - 1)
    return [Request("GET", f"{HISTORY}?pageSize={PAGE_SIZE}&after={quote(_cursor(last))}")]


def newest_right(world: World, _: int) -> Document:
    found = [entry for kind in KINDS for entry in _stored(world, kind, PAGE_SIZE + 1)]
    return _page(sorted(found, key=lambda entry: (entry["At"], entry["_id"]), reverse=True))


def far_down_right(world: World, _: int) -> Document:
    """Return a page of entries of players: the few other entries are newer than all of these."""
    return _page(_stored(world, "player", PAGE_SIZE + 1, skip=_skipped(world)))


def evening_right(world: World, _: int) -> Document:
    begin, end = _evening()
    by = entries.author(entries.PERSON)["UserId"]
    at = {"At": {"$gte": begin, "$lt": end}}
    found = _stored(world, "player", LARGEST_PAGE, where={"By.UserId": by, **at})
    return {"Values": list(map(_served, found)), "Next": None}


def _evening() -> tuple[datetime, datetime]:
    return entries.EVENING, entries.EVENING + timedelta(hours=entries.EVENING_HOURS)


def _zulu(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _skipped(world: World) -> int:
    return int(world.players * FAR)


def _stored(
    world: World, kind: str, limit: int, skip: int = 0, where: Document | None = None
) -> list[Document]:
    wanted = {"Subject.Kind": kind, **(where or {})}
    with pymongo.timeout(LONG_SECONDS):
        return list(world.db["history"].find(wanted, sort=NEWEST_FIRST, skip=skip, limit=limit))


def _page(found: list[Document]) -> Document:
    page = found[:PAGE_SIZE]
    following = _cursor(page[-1]) if len(found) > PAGE_SIZE else None
    return {"Values": list(map(_served, page)), "Next": following}


def _cursor(entry: Document) -> str:
    return str(Cursors([SECRET]).write(position_of(filters_of({}, KINDS), entry)))


def _served(entry: Document) -> Document:
    by = {"Key": None, **entry["By"]}
    undo = {"ApprovedBy": None, "Batch": None, "Undoes": None, "UndoneBy": None, "Warning": None}
    return {"Id": entry["_id"], "By": by, **undo, **{name: entry[name] for name in FIELDS}}


EVENING = Cell("j", "history, a person's evening", evening, evening_right)
HISTORY_CELLS = (
    Cell("i", "history, the newest", newest, newest_right),
    EVENING,
    Cell("k", "history, far down the list", far_down, far_down_right),
)
