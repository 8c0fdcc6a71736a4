"""Players that a dump has lost: those that were deleted or brought back while it was made.

A dump reads the collections one after another. A player that moves from one to the other meanwhile
may be in neither, and history tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from app.integrity.store import existing_ids
from app.players.domain import DELETED_AT, SUBJECT
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.storage.bulk import batches
from app.storage.client import Storage
from app.storage.committed import committed
from app.storage.erasure_records import ErasureRecords
from app.storage.journal import HISTORY
from app.types import Document

DELETED: Document = {
    "Operation": "delete-player",
    "Subject.Id": {"$type": "string"},
    "IsErased": {"$ne": True},
}
# The copy of a player and the entry of its deletion expire together, within a minute or so.
EXPIRE_TOGETHER = timedelta(hours=1)
# A game may delete a character itself, also one that was brought back: for so long it is asked for.
BROUGHT_BACK_WITHIN = timedelta(days=30)


def lost_players(storage: Storage) -> Iterator[Document]:
    """Yield the last entries of players that should be kept, or back, and are not there."""
    history, now = storage.db[HISTORY.name], storage.clock.now()
    seen: set[str] = set()
    for deletions in batches(history.find(DELETED, ["Subject.Id"])):
        missing = _missing(storage, {entry["Subject"]["Id"] for entry in deletions}) - seen
        seen |= missing
        for id_ in sorted(missing):
            about = {"Subject.Id": id_, "Subject.Kind": SUBJECT.name, "At": {"$type": "date"}}
            last = history.find_one(about, sort=[("At", -1), ("_id", -1)])
            if last and _is_expected(last, now):
                yield last


def _missing(storage: Storage, ids: set[str]) -> set[str]:
    """Return who is among neither the players nor the deleted ones, and was not erased."""
    players, deleted = (committed(storage.db[plan.name]) for plan in (PLAYERS, DELETED_PLAYERS))
    # The players once more: one may have been brought back in between.
    for collection in (players, deleted, players):
        ids = ids - existing_ids(collection, ids)
    return ids - ErasureRecords(storage.db).erased(ids)


def _is_expected(last: Document, now: datetime) -> bool:
    """Tell whether a player should be there whose last entry this is."""
    expires: Any = last.get("ExpiresAt")
    if last["Operation"] == DELETED["Operation"]:
        return not isinstance(expires, datetime) or expires > now + EXPIRE_TOGETHER
    paths = [change.get("Path") for change in last["Changes"] if isinstance(change, dict)]
    return DELETED_AT in paths and bool(last["At"] > now - BROUGHT_BACK_WITHIN)
