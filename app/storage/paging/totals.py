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

# How long a measurement is valid.
DRIFT_SECONDS = 600
# How long a measurement is valid if concurrent writes disturbed it.
ROUGH_SECONDS = 30
TRIES = 3
# How long to wait for a measurement by another thread.
PATIENCE_SECONDS = 2.0


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
    servers: frozenset[Any] = frozenset()
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
        client = self._collection.database.client
        for _ in range(TRIES):
            servers = writable_servers(client)
            if servers:
                self._correct(servers)
            count = self._collection.estimated_document_count()
            # The first operation connects, and there may have been an election meanwhile.
            if servers == writable_servers(client):
                break
        return count - self._measured.error

    def _correct(self, servers: frozenset[Any]) -> None:
        """Measure the counter's error again if it is stale or from other servers."""
        if self._is_measured(servers):
            return
        # While another thread measures, a stale error of the same servers is still used.
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
        """Compare the counter with a real count; retry if a concurrent write disturbed it."""
        is_known = self._measured.servers == servers
        error, seconds = self._measured.error, ROUGH_SECONDS
        for _ in range(TRIES):
            before = self._collection.estimated_document_count()
            try:
                count = self._collection.count_documents({}, hint="_id_")
            except PyMongoError as fault:
                if not fault.timeout:
                    raise
                # Too many to count in time, or the server has just started with a cold cache.
                seconds = DRIFT_SECONDS if is_known else ROUGH_SECONDS
                break
            error = before - count
            if self._collection.estimated_document_count() == before:
                seconds = DRIFT_SECONDS
                break
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
