"""Limits on guessing, exact across all workers and machines.

An attempt takes a place before it is looked at and gives it back unless it fails. So there are
never more attempts under way than failures are still allowed, however many come at once.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from pymongo.errors import DuplicateKeyError, PyMongoError

from app.errors import QuartermasterError, RateLimited
from app.storage.client import Storage

log = logging.getLogger("quartermaster")

PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 0.02


class Place(NamedTuple):
    """A place that an attempt took, in one window of time of one account or address."""

    key: str
    window: datetime


class Attempts:
    """Counts failures by account and by client address."""

    def __init__(self, storage: Storage, account: int, address: int, seconds: int) -> None:
        self._attempts = storage.db["attempts"]
        self._limits = {"account": account, "address": address}
        self._window = timedelta(seconds=seconds)

    @contextmanager
    def one(self, **of: str) -> Iterator[None]:
        """Allow one attempt, of an account and an address; a refusal within counts as failed."""
        places = self._take_all(of)
        try:
            yield
        except QuartermasterError:
            self._settle(places, {"Failures": 1})
            raise
        except BaseException:
            self._settle(places, {"Taken": -1})
            raise
        self._settle(places, {"Taken": -1})

    def _take_all(self, of: dict[str, str]) -> list[Place]:
        places: list[Place] = []
        try:
            for kind, name in of.items():
                places.append(self._take(f"{kind} {name}", self._limits[kind]))
        except RateLimited:
            self._settle(places, {"Taken": -1})
            raise
        except PyMongoError as error:
            log.warning("Attempts cannot be counted, so this one is let through: %s", error)
        return places

    def _take(self, key: str, limit: int) -> Place:
        """Take a place, or wait for one while others are under way that may give theirs back."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            now = datetime.now(timezone.utc)
            free = {"_id": key, "ExpiresAt": {"$gt": now}, "Taken": {"$lt": limit}}
            found = self._attempts.find_one_and_update(free, {"$inc": {"Taken": 1}})
            if found or (found := self._open_window(key, now)):
                return Place(key, found["ExpiresAt"])
            full = self._attempts.find_one({"_id": key})
            if full and (full["Failures"] >= limit or time.monotonic() > deadline):
                raise RateLimited(max(1, math.ceil((full["ExpiresAt"] - now).total_seconds())))
            time.sleep(PAUSE_SECONDS)

    def _open_window(self, key: str, now: datetime) -> dict[str, datetime] | None:
        """Begin a window where there is none or the last one is over; its opener has a place."""
        # MongoDB keeps milliseconds, and the window is known again by its end.
        end = (now + self._window).replace(microsecond=0)
        window = {"Taken": 1, "Failures": 0, "ExpiresAt": end}
        over = {"_id": key, "ExpiresAt": {"$lte": now}}
        try:
            opened = self._attempts.update_one(over, {"$set": window}, upsert=True)
        except DuplicateKeyError:  # one is open, and full
            return None
        return {"ExpiresAt": end} if opened.matched_count or opened.upserted_id else None

    def _settle(self, places: list[Place], change: dict[str, int]) -> None:
        for key, window in places:
            try:
                self._attempts.update_one({"_id": key, "ExpiresAt": window}, {"$inc": change})
            except PyMongoError as error:
                log.warning("An attempt could not be counted: %s", error)
