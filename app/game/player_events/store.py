"""Events of the game in MongoDB: the game writes them there, or sends them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from app.core.errors import NotFound
from app.core.paging import CursorPage
from app.core.types import Document
from app.game.player_events.domain import SHAPE
from app.storage.client import Storage
from app.storage.fence import ERASURES, erased_people
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST, Position
from app.storage.schema.plan import CollectionPlan, expiry, index

GAME_EVENTS = CollectionPlan(
    "game_events", SHAPE, (index("player", "Player", "At", "_id"), expiry())
)


class Reported(NamedTuple):
    """How many reported events were new or known, and the players that there are not."""

    new: int
    known: int
    unknown: list[str]


class GameEvents:
    def __init__(self, storage: Storage, days: int, history_days: int) -> None:
        self._events = storage.db[GAME_EVENTS.name]
        self._players = storage.db["players"]
        self._erasures = storage.db[ERASURES.name]
        self.in_transaction = storage.transactions.run
        self.now = storage.clock.now
        # History tells what was given back, so an event must not outlive it.
        kept = [timedelta(days=number) for number in (days, history_days) if number]
        self._kept = min(kept) if kept else None

    def add(self, events: Sequence[Document]) -> Reported:
        """Store events of players; those whose ids are known change nothing."""
        return self.in_transaction(partial(self._add, events), "event", has_key=True)

    def _add(self, events: Sequence[Document]) -> Reported:
        ids = list({event["Player"]: None for event in events})
        found = {p["_id"]: p for p in self._players.find({"_id": {"$in": ids}}, ["UserId"])}
        owners = [player.get("UserId") for player in found.values()]
        erased = erased_people(self._erasures, owners)
        unknown = [
            id_ for id_ in ids if id_ not in found or str(found[id_].get("UserId")) in erased
        ]
        kept = {event["_id"]: event for event in reversed(events) if event["Player"] not in unknown}
        known = {e["_id"] for e in self._events.find({"_id": {"$in": [*kept]}}, ["_id"])}
        expires = {"ExpiresAt": self.now() + self._kept if self._kept else None}
        if new := [{**event, **expires} for id_, event in kept.items() if id_ not in known]:
            self._events.insert_many(new)
        many = sum(event["Player"] not in unknown for event in events)
        return Reported(len(new), many - len(new), unknown)

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
