"""Erases people in MongoDB: fence, wait, sweep.

One transaction stores the record of the erasure and deletes the account. No transaction that begins
later stores anything about the person (app/storage/fence.py). When those that began before have
ended, and the plans of batches, the sweep deletes and masks what there is (app/privacy/traces.py),
in transactions of at most 200 documents. Each step searches for what is left, so the sweep may be
killed at any point, repeated, and carried out by several workers at once. Records are kept, and are
part of every backup and export: with them, db check finds erased people whose data has returned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from pymongo import DeleteOne, UpdateOne
from pymongo.errors import PyMongoError
from pymongo.read_preferences import ReadPreference

from app.batches.store import Batches
from app.core import metrics
from app.core.changes import ABSENT, Applied, Intent, differences
from app.core.errors import NotFound, Unavailable
from app.core.limits import Limiter, working
from app.core.services import current
from app.core.types import Document
from app.players.items.store import Bags
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.privacy.domain import (
    ERASED_AT,
    ErasureUnderWay,
    Person,
    count_keys,
    pattern_of,
    texts_naming,
)
from app.privacy.traces import RETURNED, TRACES, Trace
from app.storage.bulk import batches
from app.storage.changes import Changes, update_of
from app.storage.client import Storage
from app.storage.fence import ERASURES, erased_people, require_not_erased
from app.storage.history import HISTORY
from app.users import domain as users
from app.users.oauth.store import REFRESH_TOKENS
from app.users.store import USERS

# The maximum number of documents in one transaction.
PORTION = 200
# How long one request works on an erasure: where the lifetime of transactions is 3 seconds, this
# is enough for most.
REQUEST_SECONDS = 10.0
CHORE_SECONDS = 5.0
# How long transactions may still run: in lifetimes, and in seconds beside them. MongoDB looks for
# old ones twice in a lifetime, but at most once a second.
LIFETIMES, ROUNDING_SECONDS = 1.5, 1.0
PLAN_SECONDS = 1.0
# MongoDB's default, if the lifetime cannot be read.
UNKNOWN_LIFETIME = 60.0
# What a record needs only until the erasure has finished.
UNTIL_THE_END = ("Texts", "FencedAt", "Lifetime")


class Returned(NamedTuple):
    """A document with data of an erased person."""

    collection: str
    id: str
    user_id: str


class Erasures:
    """The erasures of one application: their records, and their execution."""

    def __init__(self, storage: Storage, waiters: int) -> None:
        self._db = storage.db.with_options(read_preference=ReadPreference.PRIMARY)
        self._erasures = self._db[ERASURES.name]
        self._changes = Changes(storage, users.SUBJECT)
        self._bags = Bags(storage)
        self._batches = Batches(storage)
        self._entries = storage.entries
        self._now = storage.clock.now
        self._lifetime = storage.lifetime
        self._run = storage.transactions.run
        self._waiters = Limiter("Too many people are being erased", waiters)
        self.request_seconds = REQUEST_SECONDS

    def find(self, user_id: str | None) -> Document | None:
        return self._erasures.find_one({"_id": user_id})

    def begin(self, user_id: str, intent: Intent) -> Applied:
        """Store the record of an erasure, and delete the account, unless that is done.

        In a transaction of the caller.
        """
        record = self.find(user_id)
        if record and not record.get("FinishedAt"):
            return Applied(user_id)
        now, own, entry = self._now(), {"UserId": user_id}, None
        user = self._db[USERS.name].find_one({"_id": user_id})
        belongings = self._belongings(user or {"_id": user_id})
        tokens = self._db[REFRESH_TOKENS.name].count_documents(own)
        # Of somebody who has returned, there may be other documents only.
        if user:
            entry = self._changes.new_entry(user, intent, ())
            require_not_erased(self._erasures, (), entry)
            self._db[USERS.name].delete_one({"_id": user_id})
            self._entries.add(entry)
        for plan in (PLAYERS, DELETED_PLAYERS):
            self._db[plan.name].update_many(own, {"$set": {ERASED_AT: now}})
        fence = {
            "$setOnInsert": {"BegunAt": now, "By": intent.origin.user_id},
            "$set": {"FinishedAt": None, "FencedAt": now, "Lifetime": self._seconds()},
            "$inc": {"Counts.Keys": count_keys(user or {}), "Counts.Tokens": tokens},
            "$addToSet": belongings,
        }
        self._erasures.update_one({"_id": user_id}, fence, upsert=True)
        return Applied(user_id, entry=entry)

    def _seconds(self) -> float:
        seconds = self._lifetime.seconds()
        return UNKNOWN_LIFETIME if seconds is None else seconds

    def _belongings(self, user: Document) -> Document:
        """Return what belongs to a person, and what identifies them, to be added to the record."""
        own = {"UserId": user["_id"]}
        deleted = [copy["Player"] for copy in self._db[DELETED_PLAYERS.name].find(own)]
        characters = [*self._db[PLAYERS.name].find(own), *deleted]
        found = {
            "Players": [character["_id"] for character in characters],
            "Bags": [bag["_id"] for bag in self._bags.carried_by(characters)],
            "Texts": texts_naming([user, *characters]),
        }
        return {name: {"$each": sorted(values)} for name, values in found.items()}

    def _note(self, user_id: str) -> None:
        found = {"$addToSet": self._belongings({"_id": user_id})}
        self._erasures.update_one({"_id": user_id}, found)

    def finish(self, user_id: str, deadline: float = math.inf) -> Document:
        """Carry out the rest of an erasure; raise ErasureUnderWay at the deadline."""
        # In a transaction: so what is read next is not older than this.
        record = self._run(partial(self.find, user_id))
        if record is None:
            raise NotFound("erasure", user_id)
        if record.get("FinishedAt"):
            return record
        try:
            self._wait(record, deadline)
            # What was stored by transactions that began before the fence.
            self._run(partial(self._note, user_id))
            person = self._person(self.find(user_id) or record)
            for trace in TRACES:
                for _ in self._sweep(trace, person):
                    if time.monotonic() > deadline:
                        raise ErasureUnderWay
        except PyMongoError as error:
            # It may read more than a request has time for.
            if not error.timeout:
                raise
            raise ErasureUnderWay from error
        entries = self._db[HISTORY.name].count_documents({"Subject.Id": {"$in": person.ids}})
        done = {"FinishedAt": self._now(), "Counts.Entries": entries}
        end = {"$set": done, "$unset": dict.fromkeys(UNTIL_THE_END, "")}
        # Unless it has begun again meanwhile.
        same = {"_id": user_id, "FencedAt": record["FencedAt"]}
        self._erasures.update_one(same, end)
        return self.find(user_id) or record

    def _wait(self, record: Document, deadline: float) -> None:
        """Wait until the transactions and plans of batches have ended that began before."""
        while (seconds := self._seconds_to_settle(record)) > 0:
            under_way = ErasureUnderWay(retry_after=int(seconds) + 1)
            if time.monotonic() + seconds > deadline:
                raise under_way
            try:
                with working(self._waiters):
                    time.sleep(seconds)
            except Unavailable:
                raise under_way from None

    def _seconds_to_settle(self, record: Document) -> float:
        # The lifetime may have been changed since, or another server has become the primary.
        lifetime = max(record["Lifetime"], self._seconds())
        # mongomock has no transactions.
        longest = LIFETIMES * lifetime + ROUNDING_SECONDS if lifetime else 0.0
        since: timedelta = self._now() - record["FencedAt"]
        if (seconds := longest - since.total_seconds()) > 0:
            return seconds
        # A plan stores what was sent before in many transactions.
        self._batches.remove_stale()
        return PLAN_SECONDS if self._batches.is_planned_since_before(record["FencedAt"]) else 0.0

    def _sweep(self, trace: Trace, person: Person) -> Iterator[int]:
        """Delete or change the documents of a trace; yield numbers of documents."""
        where = trace.where(person)
        for some in batches((id_ for id_, _ in self._writes(trace, person, where)), PORTION):
            still = {"$and": [{"_id": {"$in": some}}, where]}
            yield self._run(partial(self._write, trace, person, still))

    def _write(self, trace: Trace, person: Person, where: Document) -> int:
        writes = [write for _, write in self._writes(trace, person, where)]
        if writes:
            self._db[trace.plan.name].bulk_write(writes, ordered=False)
        return len(writes)

    def _writes(
        self, trace: Trace, person: Person, where: Document
    ) -> Iterator[tuple[str, DeleteOne | UpdateOne]]:
        """Yield what deletes or changes the documents of a trace, each with the id."""
        found = self._db[trace.plan.name].find(where)
        for document in found.hint(trace.hint) if trace.hint else found:
            same = {"_id": document["_id"]}
            if trace.rule is None:
                yield document["_id"], DeleteOne(same)
                continue
            gone = dict.fromkeys(document, ABSENT)
            new = gone | trace.rule(document, person)
            if update := update_of(document, new, list(differences(document, new))):
                yield document["_id"], UpdateOne(same, update)

    def _person(self, record: Document) -> Person:
        own = erased_people(self._erasures, [record["_id"], *record["Players"]])
        texts = record.get("Texts", [])
        return Person(record["_id"], [*own, *record["Bags"]], texts, pattern_of(texts))

    def continue_all(self) -> None:
        """Continue, each for a moment, the erasures that no request is working on any more."""
        metrics.ERASURES.labels("unfinished").set(len(self.unfinished()))
        left = self._now() - timedelta(seconds=self.request_seconds)
        for user_id in self.unfinished(FencedAt={"$not": {"$gt": left}}):
            with suppress(ErasureUnderWay):
                self.finish(user_id, time.monotonic() + CHORE_SECONDS)

    def unfinished(self, **where: Document) -> list[str]:
        """Return the ids of accounts whose erasure is not finished."""
        return [record["_id"] for record in self._erasures.find({"FinishedAt": None, **where})]

    def find_returned(self) -> Iterator[Returned]:
        """Yield data of erased people that has returned."""
        for record in self._erasures.find({"FinishedAt": {"$ne": None}}):
            person = self._person(record)
            for trace in RETURNED:
                name = trace.plan.name
                for found in self._db[name].find(trace.where(person), ["_id"]):
                    yield Returned(name, str(found["_id"]), person.id)

    def erase_again(self, returned: Iterable[Returned], intent: Intent) -> None:
        """Erase people whose data has returned."""
        ids = {found.user_id for found in returned}
        for user_id in ids:
            self._run(partial(self.begin, user_id, intent))
        for user_id in ids:
            self.finish(user_id)


erasures = current(Erasures)
