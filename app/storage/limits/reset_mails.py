"""Limits the mails with reset codes per account: a few per hour and day, one at a time.

A mail takes a place before it is sent. The place counts unless the mail server refused the mail.
So the count is exact across all workers and machines. Requests that arrive while a mail is being
sent, or shortly after, share it: a repeated click or request sends no second mail. All times are
the database's.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from pymongo.errors import DuplicateKeyError, PyMongoError

from app.errors import RateLimited, Unavailable
from app.request_scope import wait_deadline
from app.storage.client import Storage
from app.storage.clock import Clock
from app.storage.schema.plan import CollectionPlan, expiry
from app.storage.schema.shapes import ARRAY, MOMENT, TEXT, object_shape
from app.types import Document

log = logging.getLogger("quartermaster")

RESET_MAILS = CollectionPlan(
    "reset_mails", object_shape({"_id": TEXT, "Mails": ARRAY, "ExpiresAt": MOMENT}), (expiry(),)
)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# For how long after a mail further requests share it.
SHARED_SECONDS = 1.0
# Longer than sending and storing the code takes.
SENDING_SECONDS = 30
PATIENCE_SECONDS = 5.0
PAUSE_SECONDS = 0.02


class MailNotSent(Unavailable):
    """The mail server did not accept the mail, so it does not count."""


class ResetMails:
    """Counts the mails to each account, the newest first."""

    def __init__(
        self,
        storage: Storage,
        per_hour: int,
        per_day: int,
        clock: Clock | None = None,
        shared_seconds: float = SHARED_SECONDS,
    ) -> None:
        self._mails = storage.db[RESET_MAILS.name]
        self._clock = clock or storage.clock
        # The limits that are set, each with its time window.
        self._limits = [(n, window) for n, window in ((per_hour, HOUR), (per_day, DAY)) if n]
        self._kept = max(1, per_hour, per_day)
        self._shared = timedelta(seconds=shared_seconds)
        # How old the mail at each index of the list must be before another one is sent.
        self._windows = {0: self._shared}
        for count, window in self._limits:
            self._windows[count - 1] = max(window, self._windows.get(count - 1, window))

    @contextmanager
    def one(self, user_id: str, is_usable: Callable[[], bool] = lambda: True) -> Iterator[bool]:
        """Allow one mail to an account; yield False if another request has just sent one.

        That mail is not shared unless is_usable: the address may have changed since.
        """
        place = uuid.uuid4().hex
        if not self._take(user_id, place, is_usable):
            yield False
            return
        try:
            yield True
        except MailNotSent:
            self._leave(user_id, place, {"$pop": {"Mails": -1}})
            raise
        except BaseException:
            # The mail may have been delivered.
            self._leave(user_id, place, {})
            raise
        self._leave(user_id, place, {"$set": {"Mails.0": self._clock.now()}})

    def _take(self, user_id: str, place: str, is_usable: Callable[[], bool]) -> bool:
        """Take a place; return False to share a mail that was just sent, after waiting for it."""
        deadline = wait_deadline(PATIENCE_SECONDS)
        while True:
            now = self._clock.now()
            if self._try_to_take(user_id, place, now):
                return True
            found = self._mails.find_one({"_id": user_id}) or {}
            if not _is_sending(found, now):
                if any(at > now - self._shared for at in found.get("Mails", ())) and is_usable():
                    return False
                self._refuse_full(found, now)
            if time.monotonic() > deadline:
                raise Unavailable(
                    "A mail to this account is being sent; please try again.", retry_after=1
                )
            time.sleep(PAUSE_SECONDS)

    def _try_to_take(self, user_id: str, place: str, now: datetime) -> bool:
        """Take a place if no mail is being or was just sent, and the limits allow it."""
        free: Document = {"_id": user_id, "Sending.Until": {"$not": {"$gt": now}}}
        free["$and"] = [
            {"$or": [{f"Mails.{n}": {"$exists": False}}, {f"Mails.{n}": {"$lte": now - window}}]}
            for n, window in self._windows.items()
        ]
        until = now + timedelta(seconds=SENDING_SECONDS)
        taken = {
            "$push": {"Mails": {"$each": [now], "$position": 0, "$slice": self._kept}},
            "$set": {"Sending": {"Id": place, "Until": until}, "ExpiresAt": until + DAY},
        }
        try:
            self._mails.update_one(free, taken, upsert=True)
        except DuplicateKeyError:  # there is a document that does not meet the conditions
            return False
        return True

    def _refuse_full(self, found: Document, now: datetime) -> None:
        mails = found.get("Mails", ())
        ends = [mails[n - 1] + window for n, window in self._limits if len(mails) >= n]
        wait = max((math.ceil((end - now).total_seconds()) for end in ends), default=0)
        if wait > 0:
            raise RateLimited("account", wait, "reset mails")

    def _leave(self, user_id: str, place: str, counted: Document) -> None:
        """Let others send. If this fails, they can after a while, and the mail counts."""
        update = {**counted, "$unset": {"Sending": ""}}
        try:
            self._mails.update_one({"_id": user_id, "Sending.Id": place}, update)
        except PyMongoError as error:
            log.warning("The slot of a reset mail was not released: %s", error)


def _is_sending(found: Document, now: datetime) -> bool:
    sending = found.get("Sending")
    return isinstance(sending, dict) and sending["Until"] > now
