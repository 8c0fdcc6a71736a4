"""Totals of collections, cached for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cachetools import TTLCache, cached
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from app.core.types import Document


def cached_number(
    seconds: float, read: Callable[[], int], clock: Callable[[], float] = time.monotonic
) -> Callable[[], int]:
    """Return a function that caches a number for some seconds."""
    cache = cached(TTLCache(1, seconds, clock), lock=threading.Lock())
    number: Callable[[], int] = cache(read)
    return number


class Total:
    """The number of documents in a collection, at most some seconds old.

    MongoDB's own counter is fast at any size, but wrong after an unclean shutdown. The error is
    constant while the same process is primary. So it is measured once with a real count, and
    subtracted.
    """

    def __init__(
        self,
        collection: Collection[Document],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collection = collection
        self._measuring = threading.Lock()
        self._error = 0
        # The servers on which the error was measured.
        self._servers: frozenset[Any] | None = None
        can_estimate = seconds and isinstance(collection.database.client, MongoClient)
        self.get = cached_number(seconds, self._estimate if can_estimate else self._count, clock)

    def _count(self) -> int:
        return self._collection.count_documents({})

    def _estimate(self) -> int:
        servers = writable_servers(self._collection.database.client)
        with self._measuring:
            if servers != self._servers:
                self._measure(servers)
        return self._collection.estimated_document_count() - self._error

    def _measure(self, servers: frozenset[Any]) -> None:
        """Compare the counter with a real count, unless there are too many to count in time."""
        before = self._collection.estimated_document_count()
        try:
            self._error = before - self._collection.count_documents({}, hint="_id_")
        except PyMongoError as fault:
            if not fault.timeout:
                raise
            self._servers = servers
        # After a write meanwhile, the error is measured again at the next read.
        if self._collection.estimated_document_count() == before:
            self._servers = servers


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
