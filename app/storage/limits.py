"""Limits on how often something may happen, across all workers and machines.

A use is counted before it begins, and given back if it turns out not to count, as an attempt that
succeeds. So concurrent uses never exceed a limit. What a worker leaves behind that dies in between
counts until the window ends. All times are the database's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from pymongo import ReturnDocument, WriteConcern
from pymongo.errors import DuplicateKeyError, PyMongoError

from app.core.errors import RateLimited
from app.core.services import current
from app.core.types import Document
from app.storage.client import Storage
from app.storage.clock import Clock
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import COUNT, MOMENT, TEXT, object_shape

log = logging.getLogger("quartermaster")

USED = object_shape({"_id": TEXT, "Used": COUNT, "ExpiresAt": MOMENT})
QUOTAS = CollectionPlan("quotas", USED, (expiry(),))
BUDGETS = CollectionPlan("budgets", USED, (expiry(),))
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Limit(NamedTuple):
    """How often something may happen within a window, which begins with the first use."""

    most: int
    window: timedelta
    whose: str = "account"
    what: str = "failed attempts"

    def open_at(self, now: datetime) -> Document:
        """Return the condition for the end of an open window.

        An end too far in the future was written with a wrong clock, and is ignored.
        """
        return {"$gt": now, "$lt": now + 2 * self.window}


class Use(NamedTuple):
    """Uses that were counted, with the end of their window, which identifies it."""

    name: str
    ends_at: datetime
    amount: int


class Counter:
    """Counts uses by name, each in a window of time."""

    def __init__(self, storage: Storage, plan: CollectionPlan, clock: Clock | None = None) -> None:
        self._windows = storage.db[plan.name]
        self._clock = clock or storage.clock
        self._holds = storage.transactions.holds

    def take(self, name: str, limit: Limit, count: int = 1) -> Use:
        """Count uses, or raise RateLimited and count none."""
        while True:
            now = self._clock.now()
            is_open, room = limit.open_at(now), {"$lte": limit.most - count}
            found: Document | None = self._windows.find_one_and_update(
                {"_id": name, "ExpiresAt": is_open, "Used": room},
                {"$inc": {"Used": count}},
                ["ExpiresAt"],
            )
            if found is None:
                self.refuse_full(name, limit, count)
                # Another process may open a window first.
                with suppress(DuplicateKeyError):
                    found = self._windows.find_one_and_update(
                        {"_id": name, "ExpiresAt": {"$not": is_open}},
                        {"$set": {"Used": count, "ExpiresAt": now + limit.window}},
                        ["ExpiresAt"],
                        upsert=True,
                        return_document=ReturnDocument.AFTER,
                    )
            if found:
                return Use(name, found["ExpiresAt"], count)

    def refuse_full(self, name: str, limit: Limit, count: int = 1) -> None:
        """Raise RateLimited if these uses would be refused, and count none."""
        now = self._clock.now()
        full = {"ExpiresAt": limit.open_at(now), "Used": {"$gt": limit.most - count}}
        if found := self._windows.find_one({"_id": name, **full}, ["ExpiresAt"]):
            wait = math.ceil((found["ExpiresAt"] - now).total_seconds())
            raise RateLimited(limit.whose, max(1, wait), limit.what)

    def give_back(self, use: Use) -> None:
        """Count uses no more; if this fails, they count until their window ends."""
        # For the same reason, no majority needs to hold this.
        windows = self._windows.with_options(write_concern=WriteConcern(1))
        same = {"_id": use.name, "ExpiresAt": use.ends_at}
        try:
            windows.update_one(same, {"$inc": {"Used": -use.amount}})
        except PyMongoError as error:
            log.warning("What did not count was not given back: %s", error)


class Limits:
    """The limits of the settings, by kind: of failed attempts, of requests and of mails."""

    def __init__(
        self, storage: Storage, limits: Mapping[str, Limit], clock: Clock | None = None
    ) -> None:
        self._counter = Counter(storage, QUOTAS, clock)
        # Those that are set.
        self._limits = {kind: limit for kind, limit in limits.items() if limit.most}

    @contextmanager
    def use(self, counts: Callable[[BaseException | None], bool], **of: str) -> Iterator[None]:
        """Allow one use of each kind by its name, or raise RateLimited.

        The function tells from the error that ends it, or None, whether it counts.
        """
        with ExitStack() as uses:
            for kind, name in self._names(of):
                uses.callback(self._counter.give_back, self._counter.take(name, self._limits[kind]))
            try:
                yield
            except BaseException as error:
                if counts(error):
                    uses.pop_all()
                raise
            if counts(None):
                uses.pop_all()

    def refuse_full(self, **of: str) -> None:
        """Raise RateLimited if a use would be refused, and count none."""
        for kind, name in self._names(of):
            self._counter.refuse_full(name, self._limits[kind])

    def count_request(self, caller_id: str) -> None:
        """Count a request of a caller, or raise RateLimited."""
        for kind, name in self._names({"requests": caller_id}):
            self._counter.take(name, self._limits[kind])

    def _names(self, of: dict[str, str]) -> list[tuple[str, str]]:
        return [(kind, f"{kind} {name}") for kind, name in of.items() if kind in self._limits]


class Marks:
    """Marks that expire, such as the states of sign-ins that were used."""

    def __init__(self, storage: Storage) -> None:
        self._marks = storage.db[QUOTAS.name]
        self._clock = storage.clock

    def set(self, name: str, seconds: int) -> bool:
        """Set a mark, and return whether it is new."""
        ends = {"ExpiresAt": self._clock.now() + timedelta(seconds=seconds)}
        mark = {"$max": ends, "$setOnInsert": {"Used": 1}}
        return self._marks.update_one({"_id": name}, mark, upsert=True).upserted_id is not None

    def has(self, name: str) -> bool:
        valid = {"_id": name, "ExpiresAt": {"$gt": self._clock.now()}}
        return self._marks.find_one(valid, ["_id"]) is not None


class Budgets(Counter):
    """Counts the items that keys and people move per day, in UTC.

    The items are reserved before a change, and given back if the change is not made.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, BUDGETS)

    def reserve(self, owner_id: str, count: int, limit: int) -> Use | None:
        """Reserve items within today's limit; None if too few are left."""
        name = f"{owner_id} {self._clock.now():%Y-%m-%d}"
        while count <= limit:
            try:
                return self.take(name, Limit(limit, DAY), count)
            except RateLimited:
                if self._holds(self._windows, {"_id": name, "Used": {"$gt": limit - count}}):
                    return None
        return None

    def used_today(self, owner_ids: list[str]) -> dict[str, int]:
        """Return how many items each key or person has moved today."""
        ids = {f"{id_} {self._clock.now():%Y-%m-%d}": id_ for id_ in owner_ids}
        found = self._windows.find({"_id": {"$in": list(ids)}})
        return dict.fromkeys(owner_ids, 0) | {ids[one["_id"]]: int(one["Used"]) for one in found}


limits = current(Limits)


budgets = current(Budgets)


marks = current(Marks)
