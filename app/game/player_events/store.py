"""Events of the game in MongoDB: the game writes them there, or sends them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from app.core.errors import NotFound
from app.core.paging import CursorPage, map_page
from app.core.services import current
from app.core.types import Document
from app.game.player_events.domain import SHAPE
from app.storage.client import Storage
from app.storage.fence import ERASURES, erased_people
from app.storage.paging import newest_first
from app.storage.paging.newest_first import NEWEST_FIRST
from app.storage.schema.plan import CollectionPlan, expiry, index

GAME_EVENTS = CollectionPlan(
    "game_events", SHAPE, (index("player", "Player", "At", "_id"), expiry())
)


class GameEvents:
    def __init__(self, storage: Storage, days: int, history_days: int) -> None:
        self._events = storage.db[GAME_EVENTS.name]
        self._players = storage.db["players"]
        self._erasures = storage.db[ERASURES.name]
        self._transactions = storage.transactions
        self.now = storage.clock.now
        # History tells what was given back, so an event must not outlive it.
        kept = (timedelta(days=number) for number in (days, history_days) if number)
        self._kept = min(kept, default=None)

    def add(self, events: Sequence[Document]) -> Document:
        """Store events of players, and return how many were new or known, and unknown players."""

        def step() -> Document:
            ids = [*dict.fromkeys(event["Player"] for event in events)]
            players = self._players.find({"_id": {"$in": ids}}, ["UserId"])
            owners = {player["_id"]: str(player.get("UserId")) for player in players}
            erased = erased_people(self._erasures, owners.values())
            unknown = [id_ for id_ in ids if id_ not in owners or owners[id_] in erased]
            kept = [event for event in events if event["Player"] not in unknown]
            new = {event["_id"]: event for event in reversed(kept)}
            for known in self._events.find({"_id": {"$in": [*new]}}, ["_id"]):
                del new[known["_id"]]
            expires = {"ExpiresAt": self.now() + self._kept if self._kept else None}
            if new:
                self._events.insert_many([{**event, **expires} for event in new.values()])
            return {"New": len(new), "Known": len(kept) - len(new), "Unknown": unknown}

        return self._transactions.run(step, "event", has_key=True)

    def get(self, event_id: str, player_id: str) -> Document:
        where = {"_id": event_id, **self._of(player_id)}
        found = self._transactions.find(lambda: self._events.find_one(where))
        if found is None:
            raise NotFound("event", event_id, "No event of this player has that id.")
        return GAME_EVENTS.readable(found)

    def list(self, player_id: str, size: int, after: bytes) -> CursorPage:
        """Return a page of the events of a player, the newest first."""
        page = newest_first.read(self._events, self._of(player_id), player_id, size, after)
        return map_page(GAME_EVENTS.readable, page)

    def of_players(self, player_ids: Sequence[str]) -> Iterator[Document]:
        found = self._events.find({"Player": {"$in": list(player_ids)}}, sort=NEWEST_FIRST)
        yield from map(GAME_EVENTS.readable, found)

    def _of(self, player_id: str) -> Document:
        where: Document = {"Player": player_id}
        return {**where, "At": {"$gt": self.now() - self._kept}} if self._kept else where


events = current(GameEvents)
