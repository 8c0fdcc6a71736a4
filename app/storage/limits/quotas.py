"""The usage of callers, shared by all machines: requests per minute, and items per day."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple

import pymongo
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from app.errors import Busy, RateLimited
from app.storage.client import Storage
from app.storage.clock import Clock
from app.storage.committed import majority_holds
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import COUNT, MOMENT, TEXT, object_shape

log = logging.getLogger("quartermaster")

USED = object_shape({"_id": TEXT, "Used": COUNT, "ExpiresAt": MOMENT})
QUOTAS = CollectionPlan("quotas", USED, (expiry(),))
BUDGETS = CollectionPlan("budgets", USED, (expiry(),))
# Each document expires one period late, so that the TTL monitor never deletes one in use.
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
LONGEST_HOLD = timedelta(seconds=15)


class Quotas:
    """Counts the requests of each caller per minute, if a limit is set."""

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
            counted = self._quotas.find_one_and_update(
                {"_id": f"{caller_id} {end:%H:%M}"},
                {"$inc": {"Used": 1}, "$setOnInsert": {"ExpiresAt": end + MINUTE}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except PyMongoError as error:
            log.warning("A request could not be counted, so it is allowed: %s", error)
            return
        if counted and counted["Used"] > self._per_minute:
            raise RateLimited("caller", max(1, (end - now).seconds), "requests")


class Marks:
    """Marks that expire, such as the states of sign-ins that were used."""

    def __init__(self, storage: Storage) -> None:
        self._marks = storage.db[QUOTAS.name]
        self._clock = storage.clock

    def set(self, name: str, seconds: int) -> bool:
        """Set a mark, and return whether it is new."""
        ends = {"ExpiresAt": self._clock.now() + timedelta(seconds=seconds)}
        mark = {"$max": ends, "$setOnInsert": {"Used": 1}}
        try:
            return self._marks.update_one({"_id": name}, mark, upsert=True).upserted_id is not None
        except DuplicateKeyError:  # another process has just set it
            return False

    def has(self, name: str) -> bool:
        valid = {"_id": name, "ExpiresAt": {"$gt": self._clock.now()}}
        return self._marks.find_one(valid, ["_id"]) is not None

    @contextmanager
    def hold(self, kind: str, id_: str) -> Iterator[None]:
        """Hold the mark of a thing until the block ends; raise Busy while somebody else does."""
        # In whole seconds, as it is stored. Whoever replaces an expired mark stores a later time.
        now = self._clock.now().replace(microsecond=0)
        mine = {"_id": f"{kind} {id_}", "ExpiresAt": now + 2 * LONGEST_HOLD}
        try:
            expired = {**mine, "ExpiresAt": {"$lt": now}}
            self._marks.update_one(expired, {"$set": {**mine, "Used": 1}}, upsert=True)
        except DuplicateKeyError:
            raise Busy(kind) from None
        try:
            # The time limit ends before the mark expires, so that nobody writes without it.
            with pymongo.timeout(LONGEST_HOLD.total_seconds()):
                yield
        finally:
            with suppress(PyMongoError):
                self._marks.delete_one(mine)


class Reservation(NamedTuple):
    """Items that a key or a person is about to move on one day."""

    id: str
    items: int


class Budgets:
    """Counts the items that keys and people move per day, in UTC.

    The items are reserved before a change, and given back if the change is not made. A worker that
    dies in between leaves its reservation: its owner may then move less, never more.
    """

    def __init__(self, storage: Storage) -> None:
        self._budgets = storage.db[BUDGETS.name]
        self._clock = storage.clock

    def reserve(self, owner_id: str, count: int, limit: int) -> Reservation | None:
        """Reserve items within today's limit; None if too few are left."""
        day = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        id_ = f"{owner_id} {day:%Y-%m-%d}"
        while count <= limit:
            has_room = {"_id": id_, "Used": {"$lte": limit - count}}
            used = {"$inc": {"Used": count}, "$setOnInsert": {"ExpiresAt": day + 2 * DAY}}
            try:
                self._budgets.update_one(has_room, used, upsert=True)
                return Reservation(id_, count)
            except DuplicateKeyError:
                # Too few are left, or another process has just inserted today's document.
                if majority_holds(self._budgets, {"_id": id_, "Used": {"$gt": limit - count}}):
                    return None
        return None

    def give_back(self, reservation: Reservation) -> None:
        """Give back items that were not moved; if this fails, the owner may move less today."""
        id_, items = reservation
        try:
            has_used = {"_id": id_, "Used": {"$gte": items}}
            self._budgets.update_one(has_used, {"$inc": {"Used": -items}})
        except PyMongoError as error:
            log.warning("Reserved items of a day were not returned: %s", error)

    def used_today(self, owner_ids: list[str]) -> dict[str, int]:
        """Return how many items each key or person has moved today."""
        ids = {f"{id_} {self._clock.now():%Y-%m-%d}": id_ for id_ in owner_ids}
        found = self._budgets.find({"_id": {"$in": list(ids)}})
        return dict.fromkeys(owner_ids, 0) | {ids[one["_id"]]: int(one["Used"]) for one in found}
