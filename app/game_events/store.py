"""Events of the game in MongoDB: the game writes them there, or sends them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from pymongo.database import Database
from pymongo.errors import BulkWriteError

from app.errors import NotFound
from app.game_events.domain import SHAPE
from app.paging import CursorPage
from app.storage.bulk import FreeTexts
from app.storage.client import Storage
from app.storage.erasure_records import ErasureRecords
from app.storage.errors import has_only_duplicate_keys
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST, Position
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.types import Document

GAME_EVENTS = CollectionPlan(
    "game_events", SHAPE, (index("player", "Player", "At", "_id"), expiry())
)


class GameEvents:
    def __init__(self, storage: Storage, days: int, history_days: int) -> None:
        self._events = storage.db[GAME_EVENTS.name]
        self._erasures = ErasureRecords(storage.db)
        self.now = storage.clock.now
        # History tells what was given back, so an event must not outlive it.
        kept = [timedelta(days=number) for number in (days, history_days) if number]
        self._kept = min(kept) if kept else None

    def add(self, events: Sequence[Document]) -> int:
        """Store events, and return how many are new; those whose ids are known change nothing."""
        expires = {"ExpiresAt": self.now() + self._kept if self._kept else None}
        known = 0
        try:
            self._events.insert_many([{**event, **expires} for event in events], ordered=False)
        except BulkWriteError as error:
            if not has_only_duplicate_keys(error):
                raise
            known = len(error.details["writeErrors"])
        named = dict.fromkeys(event["Player"] for event in events)
        self._erasures.reopen_named(named, lambda: (event.get("Text") for event in events))
        return len(events) - known

    def get(self, event_id: str, player_id: str) -> Document:
        found = self._events.find_one({"_id": event_id, **self._of(player_id)})
        if found is None:
            raise NotFound("event", event_id, "No event of this player has that id.")
        return found

    def list(self, player_id: str, size: int, after: Position | None = None) -> Sequence[Document]:
        """Return events of a player, the newest first."""
        where = self._of(player_id)
        if after:
            where = {"$and": [where, newest_first.after(after)]}
        return list(self._events.find(where, sort=NEWEST_FIRST).limit(size))

    def page(self, player_id: str, size: int, after: bytes) -> CursorPage:
        """Return a page of the events of a player, the newest first."""
        place = newest_first.parse(player_id, after) if after else None
        found = self.list(player_id, size + 1, place)
        following = newest_first.position(player_id, found[size - 1]) if found[size:] else None
        return CursorPage(found[:size], following)

    def of_players(self, player_ids: Sequence[str]) -> Iterator[Document]:
        yield from self._events.find({"Player": {"$in": list(player_ids)}}, sort=NEWEST_FIRST)

    def _of(self, player_id: str) -> Document:
        where: Document = {"Player": player_id}
        return {**where, "At": {"$gt": self.now() - self._kept}} if self._kept else where


class EventTraces(FreeTexts):
    """Personal data in the events of one database, for erasures."""

    def __init__(self, db: Database[Document]) -> None:
        self._events = db[GAME_EVENTS.name]
        super().__init__(self._events, "Text")

    def erase(self, ids: Sequence[str]) -> int:
        return self._events.delete_many({"Player": {"$in": list(ids)}}).deleted_count
