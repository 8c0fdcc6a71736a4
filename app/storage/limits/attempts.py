"""Limits on guessing, exact across all workers and machines.

An attempt takes a place before it is looked at and gives it back unless it fails. So there are
never more attempts under way than failures are still allowed, however many come at once. A place
whose holder died is given to another after a while; should it live after all, its outcome is not
told. All times are the database's.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from pymongo import ReturnDocument, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError, PyMongoError

from app.errors import QuartermasterError, RateLimited, Unavailable
from app.storage.bulkhead import wait_deadline
from app.storage.client import Storage
from app.storage.clock import Clock
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import ARRAY, COUNT, INTEGER, MOMENT, TEXT, object_shape
from app.types import Document

log = logging.getLogger("quartermaster")

ATTEMPTS = CollectionPlan(
    "attempts",
    object_shape(
        {"_id": TEXT, "Taken": INTEGER, "Failures": COUNT, "Places": ARRAY, "ExpiresAt": MOMENT}
    ),
    (expiry(),),
)
PATIENCE_SECONDS = 2.0
PAUSE_SECONDS = 0.02
# Longer than any attempt takes that is still alive.
PLACE_SECONDS = 15


class Place(NamedTuple):
    """A place that an attempt took, in one window of time of one account or address."""

    key: str
    id: str
    window: datetime


class NotCounted(Unavailable):
    """An attempt was looked at, and its outcome could not be counted: it is told to nobody.

    Whether it was right or wrong: one that is told alone if it is right tells of the wrong ones.
    """

    def __init__(self) -> None:
        super().__init__("The attempt could not be counted; please try again.")


class Attempts:
    """Counts failures by account, by client address and by caller."""

    def __init__(
        self,
        storage: Storage,
        limits: Mapping[str, int],
        seconds: int,
        clock: Clock | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._attempts = storage.db[ATTEMPTS.name]
        # To take a place need not wait for a majority: what comes of it does, and comes after it.
        self._places = self._attempts.with_options(write_concern=WriteConcern(1))
        self._clock = clock or storage.clock
        self._limits = limits
        self._patience = patience
        self._window = timedelta(seconds=seconds)

    @contextmanager
    def one(self, **of: str) -> Iterator[None]:
        """Allow one attempt, of an account and an address; a refusal within counts as failed."""
        places = self._take_all(of)
        try:
            yield
        except Unavailable:
            self._give_back(places)
            raise
        except QuartermasterError:
            self._settle(places, failed=True)
            raise
        except BaseException:
            self._give_back(places)
            raise
        self._settle(places, failed=False)

    def refuse_if_locked(self, **of: str) -> None:
        """Raise RateLimited where an attempt would be refused, without a place or a wait."""
        now = self._clock.now()
        kinds = {f"{kind} {name}": kind for kind, name in of.items()}
        living = {"_id": {"$in": list(kinds)}, "ExpiresAt": self._living(now)}
        for found in self._attempts.find(living):
            self._refuse_full(kinds[found["_id"]], found, now)

    def _refuse_full(self, kind: str, window: Document, now: datetime) -> None:
        if window["Failures"] >= self._limits[kind]:
            wait = math.ceil((window["ExpiresAt"] - now).total_seconds())
            raise RateLimited(kind, max(1, wait))

    def _take_all(self, of: dict[str, str]) -> list[Place]:
        places: list[Place] = []
        try:
            for kind, name in of.items():
                places.append(self._take(kind, name))
        except BaseException:
            self._give_back(places)
            raise
        return places

    def _take(self, kind: str, name: str) -> Place:
        """Take a place, or wait for one while others are under way that may give theirs back."""
        key, limit = f"{kind} {name}", self._limits[kind]
        deadline = wait_deadline(self._patience)
        while True:
            now = self._clock.now()
            place: Document = {
                "Id": uuid.uuid4().hex,
                "Until": now + timedelta(seconds=PLACE_SECONDS),
            }
            found = self._join(key, limit, place, now) or self._open(key, place, now)
            if found:
                return Place(key, place["Id"], found["ExpiresAt"])
            full = self._attempts.find_one({"_id": key})
            if full:
                self._refuse_full(kind, full, now)
            if time.monotonic() > deadline:
                raise Unavailable("Too many attempts are under way; please try again.", 1)
            if not (full and self._free_abandoned(full, now)):
                time.sleep(PAUSE_SECONDS)

    def _join(self, key: str, limit: int, place: Document, now: datetime) -> Document | None:
        free = {"_id": key, "ExpiresAt": {"$gt": now}, "Taken": {"$lt": limit}}
        joined = {"$inc": {"Taken": 1}, "$push": {"Places": place}}
        return self._places.find_one_and_update(free, joined, ["ExpiresAt"])

    def _open(self, key: str, place: Document, now: datetime) -> Document | None:
        """Begin a window where there is none or the last one is over; its opener has a place."""
        over = {"_id": key, "ExpiresAt": {"$not": self._living(now)}}
        window = {"Taken": 1, "Failures": 0, "Places": [place], "ExpiresAt": now + self._window}
        try:
            # Read back as it was stored: the window is known again by its end.
            return self._places.find_one_and_update(
                over,
                {"$set": window},
                ["ExpiresAt"],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:  # one is open, and full
            return None

    def _living(self, now: datetime) -> Document:
        """Return when a window ends that is not over.

        One that would end long after any that began today was begun by a clock that was wrong.
        """
        return {"$gt": now, "$lt": now + 2 * self._window}

    def _free_abandoned(self, full: Document, now: datetime) -> bool:
        """Give back the places of attempts whose workers died; tell whether there were any."""
        living = [place for place in full["Places"] if place["Until"] > now]
        abandoned = len(full["Places"]) - len(living)
        if abandoned:
            unchanged = {"_id": full["_id"], "Places": full["Places"], "Taken": full["Taken"]}
            fewer = {"Places": living, "Taken": full["Taken"] - abandoned}
            self._attempts.update_one(unchanged, {"$set": fewer})
        return bool(abandoned)

    def _give_back(self, places: list[Place]) -> None:
        """Give places back of an attempt that has no outcome; those that cannot be, run out."""
        try:
            self._settle(places, failed=False)
        except (PyMongoError, NotCounted) as error:
            log.warning("The place of an attempt was not given back: %s", error)

    def _settle(self, places: list[Place], failed: bool) -> None:
        """Count the outcome of an attempt, or raise: what is not counted must not be told."""
        count = {"Failures": 1} if failed else {"Taken": -1}
        # The account's is last. A majority that holds it holds what was written before it too.
        written_to = [self._places] * (len(places) - 1) + [self._attempts]
        settled = [
            self._leave(collection, place, count)
            for collection, place in zip(written_to, reversed(places), strict=False)
        ]
        if not all(settled):
            raise NotCounted

    def _leave(self, collection: Collection[Document], place: Place, count: Document) -> bool:
        """Leave a place; tell whether it was still there, or its whole window is over."""
        held = {"_id": place.key, "ExpiresAt": place.window, "Places.Id": place.id}
        left = {"$pull": {"Places": {"Id": place.id}}, "$inc": count}
        if collection.update_one(held, left).matched_count:
            return True
        found = self._attempts.find_one({"_id": place.key}, ["ExpiresAt"])
        if found is None:
            return self._clock.now() >= place.window
        return bool(found["ExpiresAt"] != place.window)
