"""Database access of game check: it reads, and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pymongo
from pymongo.change_stream import DatabaseChangeStream
from pymongo.errors import OperationFailure
from pymongo.read_preferences import ReadPreference

from app.actions import store as actions
from app.integrity.game.findings import MOST_EXAMPLES
from app.integrity.game.writes import Write
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.storage.bulk import batches
from app.storage.client import LONG_WORK_SECONDS, Storage
from app.storage.journal import NAME as HISTORY
from app.types import Document
from app.users.store import USERS

WATCHED = ("players", "bags", "users")
ACTIONS, GAMES = actions.ACTIONS.name, actions.GAMES.name
BATCH = 500
# Of the players that are looked at twice, as many online ones as others.
LOOKED_AT = 500
MOST_GAMES = 1000
# How long the server may wait for the next write before it answers that there is none.
AWAIT_MILLISECONDS = 100
_EVENTS: list[Document] = [
    {
        "$match": {
            "ns.coll": {"$in": list(WATCHED)},
            "operationType": {"$in": ["insert", "update", "replace", "delete"]},
        }
    },
    {"$project": dict.fromkeys(("operationType", "ns", "documentKey", "updateDescription"), 1)},
]
_EVENTS[1]["$project"]["fullDocument"] = 1


class GameDatabase:
    """A database that a game shares, as its primary has it: a secondary may lag behind."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._db = storage.db.with_options(read_preference=ReadPreference.PRIMARY)

    @staticmethod
    def patiently() -> AbstractContextManager[None]:
        """Return what lets operations take as long as a large collection needs."""
        return pymongo.timeout(LONG_WORK_SECONDS)

    def count(self, name: str) -> int:
        return self._db[name].estimated_document_count()

    def ids(self, name: str) -> Iterator[list[Any]]:
        """Yield the ids of all documents of a collection in batches."""
        found = self._db[name].find({}, ["_id"], sort=[("_id", 1)])
        for batch in batches(found, BATCH):
            yield [document["_id"] for document in batch]

    def read(self, name: str, ids: list[Any], *fields: str) -> Iterator[Document]:
        yield from self._db[name].find({"_id": {"$in": ids}}, list(fields) or None)

    def newest_entries(self, ids: list[Any]) -> dict[str, Document]:
        """Return by the repr of an id the newest entry of each document that has moved."""
        known = [id_ for id_ in ids if isinstance(id_, str)]
        stages: list[Document] = [
            {"$match": {"Subject.Id": {"$in": known}}},
            # As the index has it, so that one entry of each is read, however many there are.
            {"$sort": {"Subject.Id": -1, "At": -1}},
            {"$group": {"_id": "$Subject.Id", "Newest": {"$first": "$$ROOT"}}},
        ]
        found = self._db[HISTORY].aggregate(stages)
        return {repr(group["_id"]): group["Newest"] for group in found}

    def online(self, seen: Document, most: int = MOST_EXAMPLES) -> tuple[int, list[Document]]:
        """Return how many are Online with such a LastSeen, and some of them."""
        where = {"Online": True, "LastSeen": seen}
        some = self._db[PLAYERS.name].find(where, ["Name"]).limit(most)
        return self._db[PLAYERS.name].count_documents(where), list(some)

    def count_online(self, since: datetime | None) -> int:
        where = {"Online": True, **({"LastSeen": {"$gte": since}} if since else {})}
        return self._db[PLAYERS.name].count_documents(where)

    def online_with_banned(self, since: datetime | None) -> Iterator[tuple[Document, Document]]:
        """Yield each player who is online with an account that has the flag of a ban."""
        where = {"Online": True, **({"LastSeen": {"$gte": since}} if since else {})}
        found = self._db[PLAYERS.name].find(where, ["Name", "UserId", "LastSeen"])
        for batch in batches(found, BATCH):
            ids = [player.get("UserId") for player in batch]
            banned = {"_id": {"$in": ids}, "IsBanned": True}
            fields = ["IsBanned", "BannedUntil", "ChangedAt"]
            accounts = {repr(u["_id"]): u for u in self._db[USERS.name].find(banned, fields)}
            for player in batch:
                if account := accounts.get(repr(player.get("UserId"))):
                    yield player, account

    def being_deleted(self) -> Iterator[Document]:
        """Yield the players that are marked as deleted."""
        marked = {"DeletedAt": {"$exists": True}}
        yield from self._db[PLAYERS.name].find(marked, ["Name", "Version", "LastVersion"])

    def stored_with_deleted(self) -> Iterator[tuple[Document, Document]]:
        """Yield each player of whom a deleted one is kept under the same id, and that one."""
        found = self._db[DELETED_PLAYERS.name].find({}, ["Player.LastVersion"])
        for batch in batches(found, BATCH):
            kept = {repr(one["_id"]): one.get("Player") for one in batch}
            fields = ("Name", "LastVersion", "DeletedAt")
            for player in self.read(PLAYERS.name, [one["_id"] for one in batch], *fields):
                former = kept[repr(player["_id"])]
                yield player, former if isinstance(former, dict) else {}

    def actions(self, since: datetime) -> Iterator[Document]:
        """Yield the actions that were asked for since a time, without what they ask."""
        names = ("Kind", "At", "TakeBefore", "Taken", "TakenBy", "Done", "Error", "Result")
        yield from (self._db[ACTIONS].find({"At": {"$gte": since}}, list(names)).batch_size(BATCH))

    def games(self) -> list[Document]:
        """Return the game servers, those who looked last first."""
        latest = self._db[GAMES].find({}, ["LookedAt"], sort=[("LookedAt", -1)])
        return list(latest.limit(MOST_GAMES))

    def stream(self) -> DatabaseChangeStream[Document] | None:
        """Return a stream of writes; None where there is none: without a replica set, for one."""
        try:
            return self._db.watch(_EVENTS, max_await_time_ms=AWAIT_MILLISECONDS)
        except OperationFailure:
            return None

    @staticmethod
    def writes(stream: DatabaseChangeStream[Document], seconds: float) -> Iterator[Write | None]:
        """Yield the writes of some seconds as they happen, and None while there is none."""
        end = time.monotonic() + seconds
        with stream:
            while time.monotonic() < end:
                event = stream.try_next()
                yield _write_of(event) if event else None

    def players_to_compare(self) -> Iterator[Document]:
        """Yield some players, those who play first; some of them twice."""
        players = self._db[PLAYERS.name]
        yield from players.find({"Online": True}, sort=[("LastSeen", -1)]).limit(LOOKED_AT)
        yield from players.aggregate([{"$sample": {"size": LOOKED_AT}}])


def _write_of(event: Any) -> Write:
    told = event.get("updateDescription") or {}
    arrays = [array["field"] for array in told.get("truncatedArrays") or ()]
    return Write(
        event["operationType"],
        event["ns"]["coll"],
        event["documentKey"]["_id"],
        told.get("updatedFields") or {},
        (*(told.get("removedFields") or ()), *arrays),
        event.get("fullDocument") or {},
    )
