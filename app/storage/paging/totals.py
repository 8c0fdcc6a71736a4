"""Totals of collections, cached for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from cachetools import TTLCache, cached
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from app.core.types import Document

# How long a measurement is valid, and how long if concurrent writes disturbed it.
DRIFT_SECONDS, ROUGH_SECONDS = 600, 30


def cached_number(
    seconds: float, read: Callable[[], int], clock: Callable[[], float] = time.monotonic
) -> Callable[[], int]:
    """Return a function that caches a number for some seconds."""
    cache = cached(TTLCache(1, seconds, clock), lock=threading.Lock())
    number: Callable[[], int] = cache(read)
    return number


class Measured(NamedTuple):
    """The error of MongoDB's counter, the servers it was measured on, and its expiry."""

    error: int = 0
    servers: frozenset[Any] | None = None
    until: float = float("-inf")


class Total:
    """The number of documents in a collection, at most some seconds old.

    MongoDB's own counter is fast at any size, but wrong after an unclean shutdown. The error is
    constant while the same process is primary. So it is measured from time to time with a real
    count, and subtracted.
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
        self.get = cached_number(seconds, read, clock)

    def _count(self) -> int:
        return self._collection.count_documents({})

    def _estimate(self) -> int:
        servers = writable_servers(self._collection.database.client)
        if not self._is_measured(servers):
            # While another thread measures, a stale error of the same servers is still used.
            is_other = servers != self._measured.servers
            if self._measuring.acquire(blocking=is_other):
                try:
                    if not self._is_measured(servers):
                        self._measured = self._measure(servers)
                finally:
                    self._measuring.release()
        return self._collection.estimated_document_count() - self._measured.error

    def _is_measured(self, servers: frozenset[Any]) -> bool:
        measured = self._measured
        return measured.servers == servers and self._clock() < measured.until

    def _measure(self, servers: frozenset[Any]) -> Measured:
        """Compare the counter with a real count, unless there are too many to count in time."""
        error, seconds = self._measured.error, DRIFT_SECONDS
        before = self._collection.estimated_document_count()
        try:
            error = before - self._collection.count_documents({}, hint="_id_")
            if self._collection.estimated_document_count() != before:
                seconds = ROUGH_SECONDS
        except PyMongoError as fault:
            if not fault.timeout:
                raise
        return Measured(error, servers, self._clock() + seconds)


def writable_servers(client: MongoClient[Document]) -> frozenset[Any]:
    """Return the processes that hold the counters, each with its last election.

    The address stays the same after a crash, and the process after a rollback. Behind a mongos,
    only the mongos is visible.
    """
    return frozenset(
        (server.address, (server.topology_version or {}).get("processId"), server.election_id)
        for server in client.topology_description.server_descriptions().values()
        if server.is_writable
    )
