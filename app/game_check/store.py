"""Read-only database access of game check."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import pymongo
from pymongo.change_stream import DatabaseChangeStream
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_preferences import ReadPreference

from app.game.actions import store as actions
from app.game_check.report import MOST_EXAMPLES
from app.game_check.service_changes import Entry, Write
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.storage.bulk import batches
from app.storage.client import APP_NAME, LONG_WORK_SECONDS, Storage
from app.storage.journal import NAME as HISTORY
from app.types import Document
from app.users.store import USERS

WATCHED = ("players", "bags", "users")
ACTIONS, GAMES = actions.ACTIONS.name, actions.GAMES.name
BATCH = 500
# How many online players, and how many others, are compared at two times.
LOOKED_AT = 500
MOST_GAMES = 1000
# How long the server waits for the next write before it returns an empty batch.
AWAIT_MILLISECONDS = 100
# The rest between two calls of $currentOp, as a multiple of the duration of a call.
REST_SECONDS, REST_SHARE = 0.005, 4
# How long writes from before the end may take to arrive.
DRAIN_SECONDS = 5
MOST_CAUGHT = 1000
_EVENTS: list[Document] = [
    {
        "$match": {
            "ns.coll": {"$in": list(WATCHED)},
            "operationType": {"$in": ["insert", "update", "replace", "delete"]},
        }
    },
    {
        "$project": {
            **{"operationType": 1, "ns": 1, "documentKey": 1, "clusterTime": 1},
            **{"updateDescription": 1, "fullDocument": 1},
        }
    },
]


class GameDatabase:
    """A database that a game shares, read from the primary: a secondary may lag behind."""

    def __init__(self, storage: Storage) -> None:
        # Not through the storage, which is not available in the sampler's thread.
        self._admin = storage.client.admin
        self._db = storage.db.with_options(read_preference=ReadPreference.PRIMARY)

    @staticmethod
    def patiently() -> AbstractContextManager[None]:
        """Return a context with a long time limit for operations, for large collections."""
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
        """Return the newest entry of each document in history, by the repr of the document's id."""
        known = [id_ for id_ in ids if isinstance(id_, str)]
        stages: list[Document] = [
            {"$match": {"Subject.Id": {"$in": known}}},
            # In the order of the index, so that only one entry of each document is read.
            {"$sort": {"Subject.Id": -1, "At": -1}},
            {"$group": {"_id": "$Subject.Id", "Newest": {"$first": "$$ROOT"}}},
        ]
        found = self._db[HISTORY].aggregate(stages)
        return {repr(group["_id"]): group["Newest"] for group in found}

    def online(self, seen: Document, most: int = MOST_EXAMPLES) -> tuple[int, list[Document]]:
        """Return how many players are Online with a LastSeen that matches, and some of them."""
        where = {"Online": True, "LastSeen": seen}
        some = self._db[PLAYERS.name].find(where, ["Name"]).limit(most)
        return self._db[PLAYERS.name].count_documents(where), list(some)

    def count_online(self, since: datetime | None) -> int:
        where = {"Online": True, **({"LastSeen": {"$gte": since}} if since else {})}
        return self._db[PLAYERS.name].count_documents(where)

    def online_with_banned(self, since: datetime | None) -> Iterator[tuple[Document, Document]]:
        """Yield each online player whose account has the ban flag, and the account."""
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
        marked = {"DeletedAt": {"$exists": True}}
        yield from self._db[PLAYERS.name].find(marked, ["Name", "Version", "LastVersion"])

    def stored_with_deleted(self) -> Iterator[tuple[Document, Document]]:
        """Yield each player that also has a copy in deleted_players, and the copy."""
        found = self._db[DELETED_PLAYERS.name].find({}, ["Player.LastVersion"])
        for batch in batches(found, BATCH):
            kept = {repr(one["_id"]): one.get("Player") for one in batch}
            fields = ("Name", "LastVersion", "DeletedAt")
            for player in self.read(PLAYERS.name, [one["_id"] for one in batch], *fields):
                former = kept[repr(player["_id"])]
                yield player, former if isinstance(former, dict) else {}

    def actions(self, since: datetime) -> Iterator[Document]:
        """Yield recent actions without their arguments, except those that staff withdrew."""
        names = ("Kind", "At", "TakeBefore", "Taken", "TakenBy", "Done", "Error", "Result")
        where = {"At": {"$gte": since}, "Withdrawn": None}
        yield from self._db[ACTIONS].find(where, list(names)).batch_size(BATCH)

    def games(self) -> list[Document]:
        """Return the game servers, the one that polled last first."""
        latest = self._db[GAMES].find({}, ["LookedAt"], sort=[("LookedAt", -1)])
        return list(latest.limit(MOST_GAMES))

    def stream(self) -> DatabaseChangeStream[Document] | None:
        """Return a change stream; None if it is unavailable, as without a replica set."""
        try:
            return self._db.watch(_EVENTS, max_await_time_ms=AWAIT_MILLISECONDS)
        except OperationFailure:
            return None

    @staticmethod
    def writes(
        stream: DatabaseChangeStream[Document], seconds: float, at_end: Callable[[], None]
    ) -> Iterator[Write | None]:
        """Yield the writes of some seconds as they happen, and None while there are none.

        After the call of at_end, yield the writes that happened before it.
        """
        end = time.monotonic() + seconds
        with stream:
            while time.monotonic() < end:
                event = stream.try_next()
                yield _write_of(event) if event else None
            at_end()
            last = time.monotonic() + DRAIN_SECONDS
            while time.monotonic() < last and (event := stream.try_next()):
                yield _write_of(event)

    def running(self) -> list[Document]:
        """Return the writes that MongoDB is executing now, except those of the service.

        Leaves out transactions, whose writes need no filter on Version: MongoDB detects conflicts.
        """
        names = [f"{self._db.name}.{name}" for name in WATCHED]
        of_others = {
            "ns": {"$in": names},
            "appName": {"$ne": APP_NAME},
            "transaction.parameters.autocommit": {"$exists": False},
            "$or": [{"op": "update"}, {"command.findAndModify": {"$exists": True}}],
        }
        return list(
            self._admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": of_others}])
        )

    def write_count(self) -> int | None:
        """Return how many writes MongoDB has received, effective or not; None if unknown."""
        stats: list[Document] = [{"$collStats": {"latencyStats": {}}}]
        try:
            found = [one for name in WATCHED for one in self._db[name].aggregate(stats)]
            return sum(one["latencyStats"]["writes"]["ops"] for one in found)
        except (OperationFailure, KeyError):
            return None

    def lost(self, entries: list[Entry]) -> Iterator[Entry]:
        """Yield the entries that are neither in their documents nor in history."""
        for some in batches(entries, BATCH):
            # In this order, because an entry is in history before it leaves its document.
            held = self._stamps_held(some)
            ids = [id_ for entry in some for id_ in (entry.id, f"{entry.id}:{entry.stamp}")]
            found = self._db[HISTORY].find({"_id": {"$in": ids}}, ["Stamp"])
            moved = {repr(entry.get("Stamp")) for entry in found}
            gone = [e for e in some if repr(e.stamp) not in moved | held.get(e.holder(), set())]
            # Erasing or deleting a document also removes its entries.
            left = self._stamps_held(gone)
            yield from (entry for entry in gone if entry.holder() in left)

    def _stamps_held(self, entries: list[Entry]) -> dict[tuple[str, str], set[str]]:
        """Return the reprs of the stamps in the Journal of each document."""
        held: dict[tuple[str, str], set[str]] = {}
        for name in {entry.collection for entry in entries}:
            ids = [entry.subject_id for entry in entries if entry.collection == name]
            for document in self.read(name, ids, "Journal.Stamp"):
                journal = document.get("Journal")
                stamps = [e.get("Stamp") for e in journal or () if isinstance(e, dict)]
                held[name, repr(document["_id"])] = set(map(repr, stamps))
        return held

    def players_to_compare(self) -> Iterator[Document]:
        """Yield some players, online ones first; some of them twice."""
        players = self._db[PLAYERS.name]
        yield from players.find({"Online": True}, sort=[("LastSeen", -1)]).limit(LOOKED_AT)
        yield from players.aggregate([{"$sample": {"size": LOOKED_AT}}])


class Sampler(threading.Thread):
    """Polls the writes that MongoDB is executing, in parallel to the change stream."""

    def __init__(self, database: GameDatabase) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._caught: deque[Document] = deque(maxlen=MOST_CAUGHT)
        self._ending = threading.Event()
        # Whether the database account may see operations of others.
        self.is_allowed = True

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        rest = 0.0
        while not self._ending.wait(rest):
            began = time.monotonic()
            try:
                with self._database.patiently():
                    self._caught.extend(self._database.running())
            except OperationFailure:
                self.is_allowed = False
                return
            except PyMongoError:
                return  # The main thread reports that the database is unavailable.
            rest = max(REST_SECONDS, REST_SHARE * (time.monotonic() - began))

    def take(self) -> Iterator[Document]:
        """Yield the writes that were found since the last call."""
        while self._caught:
            yield self._caught.popleft()


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
        event["clusterTime"].time,
    )
