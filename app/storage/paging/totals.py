"""How many documents a collection has, in all or of a kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from app.types import Document

DRIFT_SECONDS = 600
# A measure that writes disturbed is off by as many as they were, and is soon taken again.
ROUGH_SECONDS = 30
TRIES = 3
# Who needs a measure waits so long for the one that another thread takes.
PATIENCE_SECONDS = 2.0


class CachedNumber:
    """A number that is read again when it is some seconds old.

    Threads that find it old at the same time all read. What the one that began last has read
    stays; a read that fails is its caller's alone, and changes nothing.
    """

    def __init__(
        self, seconds: float, read: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._read = read
        self._clock = clock
        self._keeping = threading.Lock()
        # One tuple, so that nobody sees the value of one read with the time of another.
        self._kept = (float("-inf"), 0)

    def get(self) -> int:
        now = self._clock()
        read_at, value = self._kept
        if now - read_at < self._seconds:
            return value
        value = self._read()
        with self._keeping:
            self._kept = max(self._kept, (now, value))
        return value


class Measured(NamedTuple):
    """By how much a counter is off, of which servers, and until when that may be believed."""

    error: int = 0
    servers: frozenset[Any] = frozenset()
    until: float = float("-inf")


class Total:
    """How many documents a collection has, at most some seconds ago.

    MongoDB's own counter answers at once, whatever the size, but a server that died without a
    shutdown may have left it wrong. That error stays the same while the same process leads, so it
    is measured now and then by a true count, and subtracted.
    """

    def __init__(
        self,
        collection: Collection[Document],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collection = collection
        self._clock = clock
        self._measuring = threading.Lock()
        self._measured = Measured()
        can_estimate = seconds and isinstance(collection.database.client, MongoClient)
        read = self._estimate if can_estimate else self._count
        self.get = CachedNumber(seconds, read, clock).get

    def _count(self) -> int:
        return self._collection.count_documents({})

    def _estimate(self) -> int:
        client = self._collection.database.client
        for _ in range(TRIES):
            servers = writable_servers(client)
            if servers:
                self._correct(servers)
            count = self._collection.estimated_document_count()
            # The first operation connects; and another server may have taken over meanwhile.
            if servers == writable_servers(client):
                break
        return count - self._measured.error

    def _correct(self, servers: frozenset[Any]) -> None:
        """Measure the counter's error again where it is old or of other servers."""
        if self._is_measured(servers):
            return
        # The error of the same servers can be used while somebody measures it; another cannot.
        is_other = self._measured.servers != servers
        if self._measuring.acquire(timeout=PATIENCE_SECONDS if is_other else 0):
            try:
                if not self._is_measured(servers):
                    self._measured = self._measure(servers)
            finally:
                self._measuring.release()

    def _is_measured(self, servers: frozenset[Any]) -> bool:
        measured = self._measured
        return measured.servers == servers and self._clock() < measured.until

    def _measure(self, servers: frozenset[Any]) -> Measured:
        """Compare the counter with a true count; a write between the two must not deceive us."""
        is_known = self._measured.servers == servers
        error, seconds = self._measured.error, ROUGH_SECONDS
        for _ in range(TRIES):
            before = self._collection.estimated_document_count()
            try:
                count = self._collection.count_documents({}, hint="_id_")
            except PyMongoError as fault:
                if not fault.timeout:
                    raise
                # They are too many to count in time, or it was the first count after a start.
                seconds = DRIFT_SECONDS if is_known else ROUGH_SECONDS
                break
            error = before - count
            if self._collection.estimated_document_count() == before:
                seconds = DRIFT_SECONDS
                break
        return Measured(error, servers, self._clock() + seconds)


def writable_servers(client: MongoClient[Document]) -> frozenset[Any]:
    """Return who counts our documents: which processes, each since its last election.

    An address is the same after a crash, and so is the process after a rollback. Behind a mongos,
    only the mongos is seen.
    """
    return frozenset(
        (server.address, (server.topology_version or {}).get("processId"), server.election_id)
        for server in client.topology_description.server_descriptions().values()
        if server.is_writable
    )
