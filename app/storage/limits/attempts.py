"""Limits on failed attempts, exact across all workers and machines.

An attempt makes a reservation before it is checked, and returns it unless it fails. So concurrent
attempts never exceed the failures that are still allowed. If a worker dies, its reservation
expires. If that worker is only slow, it must not return the outcome. All times are the database's.
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
from app.request_scope import wait_deadline
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
# Longer than any attempt takes.
RESERVATION_SECONDS = 15


class Reservation(NamedTuple):
    """A reservation in the time window of an account, an address or a caller."""

    key: str
    id: str
    window: datetime


class NotCounted(Unavailable):
    """The outcome of an attempt could not be counted, and so must not be returned.

    This applies to success and failure alike: otherwise the error itself would reveal a failure.
    """

    sentence = "The attempt could not be counted; please try again."


class Attempts:
    """Counts failures by account, client address and caller."""

    def __init__(
        self,
        storage: Storage,
        limits: Mapping[str, int],
        seconds: int,
        clock: Clock | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._attempts = storage.db[ATTEMPTS.name]
        # A reservation needs no majority: the outcome is written later, with a majority.
        self._unconfirmed = self._attempts.with_options(write_concern=WriteConcern(1))
        self._clock = clock or storage.clock
        self._limits = limits
        self._patience = patience
        self._window = timedelta(seconds=seconds)

    @contextmanager
    def one(self, **of: str) -> Iterator[None]:
        """Allow one attempt; an error counts as a failure, except Unavailable."""
        reservations = self._reserve_all(of)
        try:
            yield
        except Unavailable:
            self._return(reservations)
            raise
        except QuartermasterError:
            self._settle(reservations, failed=True)
            raise
        except BaseException:
            self._return(reservations)
            raise
        self._settle(reservations, failed=False)

    def refuse_if_locked(self, **of: str) -> None:
        """Raise RateLimited if an attempt would be refused, without reserving or waiting."""
        now = self._clock.now()
        kinds = {f"{kind} {name}": kind for kind, name in of.items()}
        still_open = {"_id": {"$in": list(kinds)}, "ExpiresAt": self._open_until(now)}
        for found in self._attempts.find(still_open):
            self._refuse_full(kinds[found["_id"]], found, now)

    def _refuse_full(self, kind: str, window: Document, now: datetime) -> None:
        if window["Failures"] >= self._limits[kind]:
            wait = math.ceil((window["ExpiresAt"] - now).total_seconds())
            raise RateLimited(kind, max(1, wait))

    def _reserve_all(self, of: dict[str, str]) -> list[Reservation]:
        reservations: list[Reservation] = []
        try:
            for kind, name in of.items():
                reservations.append(self._reserve(kind, name))
        except BaseException:
            self._return(reservations)
            raise
        return reservations

    def _reserve(self, kind: str, name: str) -> Reservation:
        """Make a reservation; wait while other attempts may still return theirs."""
        key, limit = f"{kind} {name}", self._limits[kind]
        deadline = wait_deadline(self._patience)
        while True:
            now = self._clock.now()
            entry: Document = {
                "Id": uuid.uuid4().hex,
                "Until": now + timedelta(seconds=RESERVATION_SECONDS),
            }
            found = self._join(key, limit, entry, now) or self._open(key, entry, now)
            if found:
                return Reservation(key, entry["Id"], found["ExpiresAt"])
            full = self._attempts.find_one({"_id": key})
            if full:
                self._refuse_full(kind, full, now)
            if time.monotonic() > deadline:
                raise Unavailable(
                    "Too many attempts are under way; please try again.", retry_after=1
                )
            if not (full and self._free_expired(full, now)):
                time.sleep(PAUSE_SECONDS)

    def _join(self, key: str, limit: int, entry: Document, now: datetime) -> Document | None:
        free = {"_id": key, "ExpiresAt": {"$gt": now}, "Taken": {"$lt": limit}}
        joined = {"$inc": {"Taken": 1}, "$push": {"Places": entry}}
        return self._unconfirmed.find_one_and_update(free, joined, ["ExpiresAt"])

    def _open(self, key: str, entry: Document, now: datetime) -> Document | None:
        """Start a time window with a first reservation, unless one is open."""
        over = {"_id": key, "ExpiresAt": {"$not": self._open_until(now)}}
        window = {"Taken": 1, "Failures": 0, "Places": [entry], "ExpiresAt": now + self._window}
        try:
            # Read back the end as stored, in milliseconds: it identifies the window.
            return self._unconfirmed.find_one_and_update(
                over,
                {"$set": window},
                ["ExpiresAt"],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:  # a window is open and full
            return None

    def _open_until(self, now: datetime) -> Document:
        """Return the condition for the end of an open window.

        An end too far in the future was written with a wrong clock, and is ignored.
        """
        return {"$gt": now, "$lt": now + 2 * self._window}

    def _free_expired(self, full: Document, now: datetime) -> bool:
        """Free the expired reservations of dead workers; return whether there were any."""
        valid = [entry for entry in full["Places"] if entry["Until"] > now]
        expired = len(full["Places"]) - len(valid)
        if expired:
            unchanged = {"_id": full["_id"], "Places": full["Places"], "Taken": full["Taken"]}
            fewer = {"Places": valid, "Taken": full["Taken"] - expired}
            self._attempts.update_one(unchanged, {"$set": fewer})
        return bool(expired)

    def _return(self, reservations: list[Reservation]) -> None:
        """Return the reservations of an attempt without an outcome; if this fails, they expire."""
        try:
            self._settle(reservations, failed=False)
        except (PyMongoError, NotCounted) as error:
            log.warning("The reservation of an attempt was not returned: %s", error)

    def _settle(self, reservations: list[Reservation], failed: bool) -> None:
        """Count the outcome of an attempt, or raise NotCounted."""
        count = {"Failures": 1} if failed else {"Taken": -1}
        # The account comes last, with a majority write, which confirms the earlier writes, too.
        written_to = [self._unconfirmed] * (len(reservations) - 1) + [self._attempts]
        settled = [
            self._settle_one(collection, reservation, count)
            for collection, reservation in zip(written_to, reversed(reservations), strict=False)
        ]
        if not all(settled):
            raise NotCounted

    def _settle_one(
        self, collection: Collection[Document], reservation: Reservation, count: Document
    ) -> bool:
        """Settle one reservation; return whether it was still held, or its window has ended."""
        held = {
            "_id": reservation.key,
            "ExpiresAt": reservation.window,
            "Places.Id": reservation.id,
        }
        left = {"$pull": {"Places": {"Id": reservation.id}}, "$inc": count}
        if collection.update_one(held, left).matched_count:
            return True
        found = self._attempts.find_one({"_id": reservation.key}, ["ExpiresAt"])
        if found is None:
            return self._clock.now() >= reservation.window
        return bool(found["ExpiresAt"] != reservation.window)
