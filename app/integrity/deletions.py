"""Finds players that a dump has lost: they were deleted or restored while it was made.

A dump reads the collections one after another. A player that moves from one collection to the
other meanwhile may be in neither. Its history entry is then the only trace.
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
# The copy of a deleted player and the entry of its deletion expire within about a minute.
EXPIRE_TOGETHER = timedelta(hours=1)
# A game may delete a restored character itself, so it is only expected to exist for this long.
BROUGHT_BACK_WITHIN = timedelta(days=30)


def lost_players(storage: Storage) -> Iterator[Document]:
    """Yield the last entry of each player that should exist, itself or as a copy, but does not."""
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
    """Return the ids that are neither players nor deleted players, and were not erased."""
    players, deleted = (committed(storage.db[plan.name]) for plan in (PLAYERS, DELETED_PLAYERS))
    # Check the players twice: one may have been restored in between.
    for collection in (players, deleted, players):
        ids = ids - existing_ids(collection, ids)
    return ids - ErasureRecords(storage.db).erased_ids(ids)


def _is_expected(last: Document, now: datetime) -> bool:
    """Return whether the player of this last entry should still exist."""
    expires: Any = last.get("ExpiresAt")
    if last["Operation"] == DELETED["Operation"]:
        return not isinstance(expires, datetime) or expires > now + EXPIRE_TOGETHER
    paths = [change.get("Path") for change in last["Changes"] if isinstance(change, dict)]
    return DELETED_AT in paths and bool(last["At"] > now - BROUGHT_BACK_WITHIN)
