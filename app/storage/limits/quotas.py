"""The quota of requests per caller and minute, shared by all workers and machines."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from app.errors import RateLimited
from app.storage.client import Storage
from app.storage.clock import Clock
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import COUNT, MOMENT, TEXT, object_shape

log = logging.getLogger("quartermaster")

QUOTAS = CollectionPlan(
    "quotas", object_shape({"_id": TEXT, "Used": COUNT, "ExpiresAt": MOMENT}), (expiry(),)
)
MINUTE = timedelta(minutes=1)


class Quotas:
    """Counts the requests of each caller, where a limit is set."""

    def __init__(self, storage: Storage, per_minute: int, clock: Clock | None = None) -> None:
        self._quotas = storage.db[QUOTAS.name]
        self._clock = clock or storage.clock
        self._per_minute = per_minute

    def use(self, caller_id: str) -> None:
        """Count one request, or raise RateLimited if the quota of this minute is used up."""
        if not self._per_minute:
            return
        try:
            now = self._clock.now()
            end = now.replace(second=0, microsecond=0) + MINUTE
            used = self._count(f"{caller_id} {end:%H:%M}", end)
        except PyMongoError as error:
            log.warning("A request cannot be counted, so it is let through: %s", error)
            return
        if used > self._per_minute:
            raise RateLimited("caller", max(1, (end - now).seconds), "requests")

    def _count(self, key: str, end: datetime) -> int:
        # Expires a minute late, so that the TTL monitor never deletes a minute that still counts.
        expiry = {"$setOnInsert": {"ExpiresAt": end + MINUTE}, "$inc": {"Used": 1}}
        counted = self._quotas.find_one_and_update(
            {"_id": key}, expiry, upsert=True, return_document=ReturnDocument.AFTER
        )
        return int(counted["Used"]) if counted else 0
